package local

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"loadline/mem"
)

const (
	segmentMagic = 0x6c6f61646c696e65 // "loadline"; a change of the layout changes the last byte
	maxRanks     = 1024
	buffers      = 4 // chunks in flight in one window; see Group.pipeline
	cacheLine    = 64
)

// header opens the segment. All but lost is written once, before any child starts.
type header struct {
	magic       uint64
	ranks       uint64
	windowBytes uint64 // of one rank, a multiple of the page size
	timeout     uint64 // nanoseconds a rank waits for the others in one step; 0 is for ever
	parent      uint64 // process id of the world's maker
	_           [cacheLine - 40]byte
	lost        uint32 // the first rank that was lost, plus one; 0 while all are well. Only ever set once.
	_           [cacheLine - 4]byte
}

// slot is one rank's control block. Only its rank writes it. The parts sit on cache lines of their own.
type slot struct {
	step uint64 // steps published; see Group.pipeline
	_    [cacheLine - 8]byte

	state uint32 // stateEmpty, stateJoined, stateLeft
	pid   uint32 // 0 until the rank has joined; written after start
	start uint64 // the process's start time, which tells it from a later one of the same number
	_     [cacheLine - 16]byte

	// calls holds the rank's collective number seq at seq%2. Two are enough: a rank that is in call seq+1 has seen every other rank
	// finish call seq-1, and compared calls at the first step of seq.
	calls [2]call
	_     [cacheLine]byte
}

const (
	stateEmpty  = iota
	stateJoined // from Join on
	stateLeft   // from Close on
)

// call is a collective.Call in shared memory.
type call struct {
	seq, op, length, root uint64
}

const (
	headerBytes = 2 * cacheLine
	slotBytes   = 4 * cacheLine
)

var (
	_ [headerBytes]byte = [unsafe.Sizeof(header{})]byte{}
	_ [slotBytes]byte   = [unsafe.Sizeof(slot{})]byte{}
)

// SegmentBytes returns the size of the shared segment of a world: header and slots, rounded up to a page, then one window per rank,
// each rounded up to a page. Its pages count in the resident size of every rank that has touched them (at most all, and all after a
// large all-gather), so each rank books the whole of it as mem.CommBuffers. windowBytes 0 stands for DefaultWindowBytes.
func SegmentBytes(ranks, windowBytes int) mem.Bytes {
	if windowBytes == 0 {
		windowBytes = DefaultWindowBytes
	}
	return mem.Bytes(controlBytes(ranks)) + mem.Bytes(ranks)*mem.Bytes(pageCeil(windowBytes))
}

// controlBytes returns the bytes before the first window.
func controlBytes(ranks int) int { return pageCeil(headerBytes + ranks*slotBytes) }

func pageCeil(n int) int {
	page := os.Getpagesize()
	return (n + page - 1) / page * page
}

// segment is the mapping of a world's shared memory.
//
//	┌────────┬────────┬───┬──────────┬─────┬──────────────────┬──────────────────┬───┐
//	│ header │ slot 0 │ … │ slot N-1 │ pad │ window 0         │ window 1         │ … │
//	└────────┴────────┴───┴──────────┴─────┴──────────────────┴──────────────────┴───┘
//	                                         4 buffers each; rank r writes window r only
type segment struct {
	bytes       []byte
	booked      *mem.Reservation // of the mapping in this process's ledger; nil while nothing but the header is used
	ranks       int
	windowBytes int          // rounded up to a page
	bufferBytes int          // of one of the window's buffers, whole cache lines
	refs        atomic.Int32 // groups and the world that use the mapping
}

// newSegment makes and maps the shared memory of a world. The file is what children map.
func newSegment(ranks int, o Options) (_ *segment, _ *os.File, err error) {
	window := pageCeil(o.WindowBytes)
	total := SegmentBytes(ranks, o.WindowBytes)
	file, err := sharedFile(int64(total))
	if err != nil {
		return nil, nil, fmt.Errorf("local: shared segment of %v: %w", total, err)
	}
	s, err := mapSegment(file, total)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	s.setSizes(ranks, window)
	h := s.header()
	h.ranks = uint64(ranks)
	h.windowBytes = uint64(window)
	h.timeout = uint64(o.Timeout)
	h.parent = uint64(os.Getpid())
	atomic.StoreUint64(&h.magic, segmentMagic)
	return s, file, nil
}

// openSegment books and maps the segment behind a file that newSegment made, in a child.
func openSegment(file *os.File, ranks int, ledger *mem.Ledger) (*segment, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("local: segment: %w", err)
	}
	total := mem.Bytes(info.Size())
	if total < mem.Bytes(controlBytes(ranks)) || total > maxRanks<<32 {
		return nil, fmt.Errorf("local: segment: want at least %d bytes for %d ranks, got %d", controlBytes(ranks), ranks, int64(total))
	}
	s, err := mapSegment(file, total)
	if err != nil {
		return nil, err
	}
	if err := s.book(ledger); err != nil {
		return nil, errors.Join(err, s.release())
	}
	h := s.header()
	if atomic.LoadUint64(&h.magic) != segmentMagic || h.ranks != uint64(ranks) || h.windowBytes > uint64(total) ||
		SegmentBytes(ranks, int(h.windowBytes)) != total {
		err := fmt.Errorf("local: segment: want a world of %d ranks in %d bytes, got magic %#x, %d ranks, windows of %d bytes",
			ranks, int64(total), h.magic, h.ranks, h.windowBytes)
		return nil, errors.Join(err, s.release())
	}
	s.setSizes(ranks, int(h.windowBytes))
	return s, nil
}

// mapSegment maps a file of total bytes and holds one reference to the mapping.
func mapSegment(file *os.File, total mem.Bytes) (*segment, error) {
	bytes, err := unix.Mmap(int(file.Fd()), 0, int(total), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("local: map shared segment of %v: %w", total, err)
	}
	if err := smallPages(bytes); err != nil {
		return nil, errors.Join(fmt.Errorf("local: shared segment: %w", err), unix.Munmap(bytes))
	}
	s := &segment{bytes: bytes}
	s.refs.Store(1)
	return s, nil
}

func (s *segment) setSizes(ranks, windowBytes int) {
	s.ranks, s.windowBytes = ranks, windowBytes
	s.bufferBytes = windowBytes / buffers / cacheLine * cacheLine
}

// book reserves the whole mapping in a ledger, before a rank of this process touches it, unless it is already. A nil ledger books
// nothing.
func (s *segment) book(ledger *mem.Ledger) error {
	if ledger == nil || s.booked != nil {
		return nil
	}
	r, err := ledger.Reserve(mem.Host, mem.CommBuffers, mem.Bytes(len(s.bytes)))
	if err != nil {
		return fmt.Errorf("local: shared segment: %w", err)
	}
	s.booked = r
	return nil
}

func (s *segment) acquire() { s.refs.Add(1) }

// release unmaps the segment when its last user lets go.
func (s *segment) release() error {
	if s.refs.Add(-1) > 0 {
		return nil
	}
	bytes := s.bytes
	s.bytes = nil
	if err := unix.Munmap(bytes); err != nil {
		return fmt.Errorf("local: unmap shared segment: %w", err)
	}
	if s.booked != nil {
		s.booked.Release()
	}
	return nil
}

func (s *segment) header() *header { return (*header)(unsafe.Pointer(&s.bytes[0])) }

func (s *segment) slot(rank int) *slot {
	return (*slot)(unsafe.Pointer(&s.bytes[headerBytes+rank*slotBytes]))
}

// buffer returns the buffer of rank's window that belongs to a step.
func (s *segment) buffer(rank int, step uint64) []byte {
	at := controlBytes(s.ranks) + rank*s.windowBytes + int(step%buffers)*s.bufferBytes
	return s.bytes[at:][:s.bufferBytes:s.bufferBytes]
}

// floats returns buffer as float32 values.
func (s *segment) floats(rank int, step uint64) []float32 {
	b := s.buffer(rank, step)
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// lose records that rank is lost, unless another was before, and returns the rank that is recorded.
func (s *segment) lose(rank int) int {
	lost := &s.header().lost
	atomic.CompareAndSwapUint32(lost, 0, uint32(rank)+1)
	return int(atomic.LoadUint32(lost)) - 1
}

// lost returns the first rank that was lost, or -1.
func (s *segment) lost() int { return int(atomic.LoadUint32(&s.header().lost)) - 1 }
