package collective

import (
	"fmt"
	"strings"
	"time"
)

// RankLostError says that a rank the group needs has died or left. Every other rank gets it, in the collective that is pending or in
// the next one.
type RankLostError struct {
	Rank int  // the rank that is gone
	Left bool // it closed its group rather than died
}

// Error implements error.
func (e *RankLostError) Error() string {
	if e.Left {
		return fmt.Sprintf("collective: rank %d left the group before the others", e.Rank)
	}
	return fmt.Sprintf("collective: rank %d was lost: its process ended", e.Rank)
}

// TimeoutError says that a rank did not enter a collective within the group's time limit.
type TimeoutError struct {
	Rank int // the rank that was waited for
	Wait time.Duration
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("collective: rank %d did not come within %v", e.Rank, e.Wait)
}

// MismatchError says that ranks made different calls where all have to make the same. Every rank gets it.
type MismatchError struct {
	Calls []Call // one per rank
}

// Error implements error. It names rank 0's call and the first rank that differs.
func (e *MismatchError) Error() string {
	var s strings.Builder
	s.WriteString("collective: ranks differ:")
	for rank, c := range e.Calls {
		if rank == 0 || c != e.Calls[0] {
			fmt.Fprintf(&s, " rank %d in %v", rank, c)
			if rank > 0 {
				break
			}
			s.WriteByte(',')
		}
	}
	return s.String()
}

// Call is one rank's side of a collective, as compared between ranks.
type Call struct {
	Op     Op
	Length int // elements of a float collective's whole tensor, bytes of one rank's share otherwise
	Root   int // the root; 0 where there is none
}

// String returns "all-reduce of 4096".
func (c Call) String() string {
	switch c.Op {
	case OpBarrier:
		return c.Op.String()
	case OpBroadcast, OpGatherBytes:
		return fmt.Sprintf("%v of %d, root %d", c.Op, c.Length, c.Root)
	}
	return fmt.Sprintf("%v of %d", c.Op, c.Length)
}

// Op names a collective.
type Op uint8

// The collectives of Group.
const (
	OpBarrier Op = iota + 1
	OpAllReduce
	OpReduceScatter
	OpAllGather
	OpBroadcast
	OpGatherBytes
	OpAllGatherBytes
)

// String returns the collective's name.
func (o Op) String() string {
	switch o {
	case OpBarrier:
		return "barrier"
	case OpAllReduce:
		return "all-reduce"
	case OpReduceScatter:
		return "reduce-scatter"
	case OpAllGather:
		return "all-gather"
	case OpBroadcast:
		return "broadcast"
	case OpGatherBytes:
		return "gather-bytes"
	case OpAllGatherBytes:
		return "all-gather-bytes"
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}
