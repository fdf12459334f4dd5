package local

import (
	"fmt"
	"strconv"
	"strings"
)

// Seat is a rank's place in a world, as its parent hands it to the process: in a flag or a variable, by String and ParseSeat.
type Seat struct {
	Rank  int
	Ranks int
	FD    uintptr // file descriptor of the shared segment in the process that joins
}

// String returns the seat as text, "1/2@3": rank 1 of 2, file descriptor 3.
func (s Seat) String() string { return fmt.Sprintf("%d/%d@%d", s.Rank, s.Ranks, s.FD) }

// ParseSeat reads what String wrote.
func ParseSeat(text string) (Seat, error) {
	rank, rest, ok1 := strings.Cut(text, "/")
	ranks, fd, ok2 := strings.Cut(rest, "@")
	r, err1 := strconv.ParseUint(rank, 10, 16)
	n, err2 := strconv.ParseUint(ranks, 10, 16)
	f, err3 := strconv.ParseUint(fd, 10, 31)
	s := Seat{Rank: int(r), Ranks: int(n), FD: uintptr(f)}
	if !ok1 || !ok2 || err1 != nil || err2 != nil || err3 != nil {
		return Seat{}, fmt.Errorf("local: seat: want rank/ranks@descriptor, got %q", text)
	}
	return s, s.validate()
}

func (s Seat) validate() error {
	if s.Ranks < 1 || s.Ranks > maxRanks || s.Rank < 0 || s.Rank >= s.Ranks {
		return fmt.Errorf("local: seat: want a rank below the number of ranks, at most %d, got rank %d of %d", maxRanks, s.Rank, s.Ranks)
	}
	return nil
}
