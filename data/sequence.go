package data

import (
	"fmt"
	"io"
)

// Sequence yields each window once, in the order of the text, for evaluation. The tokens at the end that do not fill a
// window are left out.
type Sequence struct {
	src     Source
	o       Options
	windows int64
	next    int64 // the first window of the next global batch
}

// NewSequence returns a Sequence at its beginning.
func NewSequence(src Source, o Options) (*Sequence, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	n, err := windows(src, o.Seq)
	if err != nil {
		return nil, err
	}
	o.Ranks = max(o.Ranks, 1)
	return &Sequence{src: src, o: o, windows: n}, nil
}

// Windows returns the number of windows, over all ranks.
func (s *Sequence) Windows() int64 { return s.windows }

// Next fills tokens and targets, (Batch, Seq) each, and returns how many rows of them it has filled: fewer than Batch,
// perhaps none on this rank, in the last global batch, after which it returns io.EOF on every rank at once. Rows that it
// does not fill keep what they hold.
func (s *Sequence) Next(tokens, targets []int32) (rows int, err error) {
	if n := s.o.Batch * s.o.Seq; len(tokens) != n || len(targets) != n {
		panic(fmt.Sprintf("data: buffers of %d and %d tokens for a batch of %d", len(tokens), len(targets), n))
	}
	if s.next >= s.windows {
		return 0, io.EOF
	}
	first := s.next + int64(s.o.Rank)*int64(s.o.Batch)
	for rows < s.o.Batch && first+int64(rows) < s.windows {
		from, to := rows*s.o.Seq, (rows+1)*s.o.Seq
		if err := readWindow(s.src, tokens[from:to], targets[from:to], int(first+int64(rows))*s.o.Seq); err != nil {
			return 0, err
		}
		rows++
	}
	s.next += int64(s.o.Batch) * int64(s.o.Ranks)
	return rows, nil
}

// Rewind goes back to the beginning.
func (s *Sequence) Rewind() { s.next = 0 }
