package local

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"loadline/collective"
)

const (
	sleepMin = 5 * time.Microsecond
	sleepMax = 200 * time.Microsecond

	// lookEvery is how often a waiting rank looks whether the others' processes and the parent still live; the parent also at the
	// start of a collective, since ranks that never wait long have to notice too. A lost rank's mark is seen at every poll.
	lookEvery = 50 * time.Millisecond
)

// wait returns once every rank has published step.
func (g *Group) wait(step uint64) error {
	for q := range g.size {
		if q == g.rank || atomic.LoadUint64(&g.seg.slot(q).step) >= step {
			continue
		}
		if err := g.await(q, step); err != nil {
			return g.fail(err)
		}
	}
	return nil
}

// await returns once rank q has published step: a short spin that gives way to other goroutines, then sleeps of growing length, so
// that ranks that share a core do not keep each other from running.
func (g *Group) await(q int, step uint64) error {
	s := g.seg.slot(q)
	for range g.spins {
		if atomic.LoadUint64(&s.step) >= step {
			return nil
		}
		runtime.Gosched()
	}
	begun := time.Now()
	for pause := sleepMin; ; pause = min(2*pause, sleepMax) {
		if atomic.LoadUint64(&s.step) >= step {
			return nil
		}
		lost := g.seg.lost()
		if lost < 0 && atomic.LoadUint32(&s.state) == stateLeft {
			lost = q
		}
		if lost >= 0 {
			// The step may have been published between the two reads. If so, this collective must go on: a rank that saw all
			// ranks' calls and ended with a mismatch is lost to the others, who have the same mismatch to report.
			if atomic.LoadUint64(&s.step) >= step {
				return nil
			}
			return g.lostError(g.seg.lose(lost))
		}
		nap(pause)
		now := time.Now()
		if now.Sub(g.looked) >= lookEvery {
			g.looked = now
			if g.orphan() {
				return ErrParentLost
			}
			g.look()
		}
		if g.timeout > 0 && now.Sub(begun) >= g.timeout {
			return &collective.TimeoutError{Rank: q, Wait: g.timeout}
		}
	}
}

// orphan reports whether the process that made the world has died.
func (g *Group) orphan() bool { return g.parent != 0 && os.Getppid() != g.parent }

// look marks a rank lost whose process has ended without leaving the group.
func (g *Group) look() {
	for q := range g.size {
		s := g.seg.slot(q)
		pid := int(atomic.LoadUint32(&s.pid))
		if q == g.rank || pid == 0 || pid == os.Getpid() || atomic.LoadUint32(&s.state) == stateLeft {
			continue
		}
		if g.peers[q] == nil {
			g.peers[q] = openProcess(pid, atomic.LoadUint64(&s.start))
		}
		if !g.peers[q].alive() && atomic.LoadUint32(&s.state) != stateLeft {
			g.seg.lose(q)
			return
		}
	}
}

func (g *Group) lostError(rank int) error {
	return &collective.RankLostError{Rank: rank, Left: atomic.LoadUint32(&g.seg.slot(rank).state) == stateLeft}
}
