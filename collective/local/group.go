// Package local connects ranks that are processes of one machine, over one shared memory segment; nothing needs to be installed.
//
// The parent makes a World, gives each child a Seat in it and starts it; each child (and the parent itself, if it is a rank) joins
// and gets a collective.Group. Data moves through one window per rank, in chunks, as described at Group.pipeline.
//
// Invariants:
//   - A rank writes its own slot and its own window, nothing else of the segment except the lost mark. There are no locks, only
//     counters that grow, so a process that dies leaves nothing held.
//   - Every sum is taken in ascending rank order for each element (see package collective), so the window's size changes no bit.
//   - A collective allocates nothing on the Go heap. SegmentBytes is all the memory there is, to the byte.
//   - A rank that dies, by kill -9 too, ends the group: every other rank's pending or next collective returns
//     *collective.RankLostError, all naming the same rank. The parent marks a child that ended; ranks also look at each other while
//     they wait. Children of a dead parent get SIGKILL (Linux) or ErrParentLost.
//
// Ranks may also be goroutines of one process, each with a Group of its own from World.Join; tests of other packages use that.
//
// It does not restart ranks or cross machines.
//
// Sources: reduce-scatter and all-gather as the two halves of an all-reduce follow Rabenseifner (ICCS 2004) and Patarasuk and Yuan
// (JPDC 2009), with direct reads of all peers in place of a ring, since memory is shared and the order of the sum is fixed.
package local

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"loadline/collective"
	"loadline/mem"
)

// ErrParentLost says that the process that made the world has died.
var ErrParentLost = errors.New("local: the process that started the ranks has ended")

var errClosed = errors.New("local: group is closed")

// Group is one rank's membership in a world. It implements collective.Group.
type Group struct {
	seg        *segment
	rank, size int
	step       uint64 // steps published; equals slot(rank).step
	seq        uint64 // collectives begun
	err        error  // what ended the group; sticky
	timeout    time.Duration
	parent     int         // process whose death ends the group; 0 for a rank in the world's own process
	looked     time.Time   // when others were last looked at
	spins      int         // polls before the first sleep
	peers      []*process  // by rank; nil until looked at, and for this rank
	srcs       [][]float32 // scratch: one source of a sum per rank
	lo, hi     []int       // scratch: each rank's range in a gather, bytes
}

var _ collective.Group = (*Group)(nil)

// Join takes the seat that the parent gave this process. It takes over the seat's file descriptor, and books SegmentBytes in the ledger
// until Close; with a nil ledger that is left to the caller. It does not wait for the others.
func Join(seat Seat, ledger *mem.Ledger) (*Group, error) {
	if err := seat.validate(); err != nil {
		return nil, err
	}
	file := os.NewFile(seat.FD, "loadline-ranks")
	if file == nil {
		return nil, fmt.Errorf("local: join: bad file descriptor %d", seat.FD)
	}
	seg, err := openSegment(file, seat.Ranks, ledger)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("local: join as rank %d: %w", seat.Rank, err)
	}
	parent := os.Getppid()
	if parent == 1 && seg.header().parent != 1 {
		return nil, errors.Join(ErrParentLost, seg.release()) // it died before we came, and left us to init
	}
	g, err := join(seg, seat.Rank, parent)
	if err != nil {
		return nil, errors.Join(err, seg.release())
	}
	return g, nil
}

// join claims a slot. The group takes over one reference to the segment.
func join(seg *segment, rank, parent int) (*Group, error) {
	g := &Group{
		seg: seg, rank: rank, size: seg.ranks, parent: parent,
		timeout: time.Duration(seg.header().timeout),
		spins:   200,
		peers:   make([]*process, seg.ranks),
		srcs:    make([][]float32, seg.ranks),
		lo:      make([]int, seg.ranks),
		hi:      make([]int, seg.ranks),
	}
	if runtime.NumCPU() < seg.ranks {
		g.spins = 20 // the peer needs this core to get anywhere
	}
	s := seg.slot(rank)
	if !atomic.CompareAndSwapUint32(&s.state, stateEmpty, stateJoined) {
		return nil, fmt.Errorf("local: join: rank %d is taken", rank)
	}
	pid := os.Getpid()
	atomic.StoreUint64(&s.start, processStart(pid))
	atomic.StoreUint32(&s.pid, uint32(pid))
	return g, nil
}

// Rank implements collective.Group.
func (g *Group) Rank() int { return g.rank }

// Size implements collective.Group.
func (g *Group) Size() int { return g.size }

// Close implements collective.Group. The second Close does nothing.
func (g *Group) Close() error {
	if g.seg == nil {
		return nil
	}
	atomic.StoreUint32(&g.seg.slot(g.rank).state, stateLeft)
	var errs []error
	for _, p := range g.peers {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	errs = append(errs, g.seg.release())
	g.seg = nil
	g.err = errClosed
	return errors.Join(errs...)
}

// begin opens a collective: it announces the call to the other ranks, which compare it in agree.
func (g *Group) begin(op collective.Op, length, root int) error {
	if g.err != nil {
		return g.err
	}
	if rank := g.seg.lost(); rank >= 0 {
		return g.fail(g.lostError(rank))
	}
	if now := time.Now(); g.parent != 0 && now.Sub(g.looked) >= lookEvery {
		g.looked = now
		if g.orphan() {
			return g.fail(ErrParentLost)
		}
	}
	g.seq++
	g.seg.slot(g.rank).calls[g.seq%2] = call{g.seq, uint64(op), uint64(length), uint64(root)}
	return nil
}

// agree compares the calls of all ranks. It is called once all have published the first step of the collective.
func (g *Group) agree() error {
	mine := g.seg.slot(g.rank).calls[g.seq%2]
	for q := range g.size {
		if g.seg.slot(q).calls[g.seq%2] != mine {
			return g.fail(g.mismatch())
		}
	}
	return nil
}

func (g *Group) mismatch() error {
	e := &collective.MismatchError{Calls: make([]collective.Call, g.size)}
	for q := range e.Calls {
		c := g.seg.slot(q).calls[g.seq%2]
		e.Calls[q] = collective.Call{Op: collective.Op(c.op), Length: int(c.length), Root: int(c.root)}
	}
	return e
}

// publish makes what this rank wrote for its next step visible to the others.
func (g *Group) publish() {
	g.step++
	atomic.StoreUint64(&g.seg.slot(g.rank).step, g.step)
}

// pipeline runs the steps of a collective. For each step k, in copies this rank's chunk into its buffer of the step; once all ranks
// have done so, out reads the buffers of all. Either may be nil. A rank copies in one step ahead, while others still read:
//
//	in 1 · publish · [ in k+1 · publish · wait for all to publish k · out k ] for every k
//
// When in writes step k+1, all ranks are known to have published k-1, hence to have finished out of k-3. So four buffers, used in
// turn, are enough: step k+1 overwrites step k-3. A collective ends with all ranks at its last step S, out of S-2 done, so the same
// holds across collectives. AllReduce, which has two phases, keeps to the same count.
func (g *Group) pipeline(steps int, in, out func(k int, step uint64)) error {
	first := g.step + 1
	for k := range steps {
		// Step 0 is copied in before the loop's wait, and each further step before the wait of the one before it.
		if k == 0 {
			if in != nil {
				in(0, first)
			}
			g.publish()
		}
		if k+1 < steps {
			if in != nil {
				in(k+1, first+uint64(k)+1)
			}
			g.publish()
		}
		if err := g.wait(first + uint64(k)); err != nil {
			return err
		}
		if k == 0 {
			if err := g.agree(); err != nil {
				return err
			}
		}
		if out != nil {
			out(k, first+uint64(k))
		}
	}
	return nil
}

// fail ends the group with err.
func (g *Group) fail(err error) error {
	g.err = err
	return err
}
