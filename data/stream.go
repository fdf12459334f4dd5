package data

import (
	"errors"
	"fmt"
)

// ErrOtherText is what Stream.Seek says of a place in windows that are not its own.
var ErrOtherText = errors.New("another text, tokenizer or sequence length")

// Options says which windows a Stream or a Sequence yields.
type Options struct {
	Batch int    // windows of a batch on each rank; at least 1
	Seq   int    // tokens of a window; at least 1
	Seed  uint64 // of the order; a Sequence ignores it
	Rank  int    // this rank, in [0, Ranks)
	Ranks int    // ranks that share each global batch of Batch·Ranks windows; 0 means 1
}

// Validate reports the first option that makes no sense.
func (o Options) Validate() error {
	switch {
	case o.Batch < 1:
		return fmt.Errorf("data: batch is %d, want at least 1", o.Batch)
	case o.Seq < 1:
		return fmt.Errorf("data: sequence length is %d, want at least 1", o.Seq)
	case o.Ranks < 0:
		return fmt.Errorf("data: ranks is %d, want at least 1", o.Ranks)
	case o.Rank < 0 || o.Rank >= max(o.Ranks, 1):
		return fmt.Errorf("data: rank is %d, want 0 to %d", o.Rank, max(o.Ranks, 1)-1)
	}
	return nil
}

// Position is a place in a Stream, to be stored with a checkpoint. It is the same on every rank. Windows and Seed
// identify the order it is a place in.
type Position struct {
	Epoch   int64  `json:"epoch"`
	Index   int64  `json:"index"`   // windows of the epoch that have been yielded, by all ranks
	Windows int64  `json:"windows"` // windows of an epoch
	Seed    uint64 `json:"seed"`
}

// Stream yields shuffled windows without end. When the windows are used up, the next epoch begins, in another order; a
// batch may hold the end of one epoch and the beginning of the next.
//
// Of each global batch of Batch·Ranks windows, rank r gets those from r·Batch on: the ranks together get what one rank
// with the same global batch would.
type Stream struct {
	src     Source
	o       Options
	windows int64
	// Invariant: 0 <= pos.Index < windows
	pos   Position
	order permutation
	of    int64 // the epoch that order is of
}

// NewStream returns a Stream at its beginning.
func NewStream(src Source, o Options) (*Stream, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	n, err := windows(src, o.Seq)
	if err != nil {
		return nil, err
	}
	o.Ranks = max(o.Ranks, 1)
	return &Stream{
		src: src, o: o, windows: n,
		pos:   Position{Windows: n, Seed: o.Seed},
		order: newPermutation(n, o.Seed, 0),
	}, nil
}

// Windows returns the number of windows of an epoch.
func (s *Stream) Windows() int64 { return s.windows }

// Next fills tokens and targets, (Batch, Seq) each, with this rank's part of the next global batch: targets[i] follows
// tokens[i] in the text. It allocates nothing. After an error the position is unchanged.
func (s *Stream) Next(tokens, targets []int32) error {
	if n := s.o.Batch * s.o.Seq; len(tokens) != n || len(targets) != n {
		panic(fmt.Sprintf("data: buffers of %d and %d tokens for a batch of %d", len(tokens), len(targets), n))
	}
	pos := s.pos
	pos.advance(int64(s.o.Rank) * int64(s.o.Batch))
	for row := range s.o.Batch {
		if s.of != pos.Epoch {
			s.order, s.of = newPermutation(s.windows, s.o.Seed, pos.Epoch), pos.Epoch
		}
		from, to := row*s.o.Seq, (row+1)*s.o.Seq
		if err := readWindow(s.src, tokens[from:to], targets[from:to], int(s.order.at(pos.Index))*s.o.Seq); err != nil {
			return err
		}
		pos.advance(1)
	}
	s.pos.advance(int64(s.o.Batch) * int64(s.o.Ranks))
	return nil
}

// advance moves on by n windows.
func (p *Position) advance(n int64) {
	p.Index += n
	p.Epoch += p.Index / p.Windows
	p.Index %= p.Windows
}

// Position returns the place of the next batch.
func (s *Stream) Position() Position { return s.pos }

// Seek goes to a place that Position returned, perhaps in another process. It refuses a place in another order: another
// text, tokenizer, length of window or seed.
func (s *Stream) Seek(p Position) error {
	switch {
	case p.Windows != s.windows:
		return fmt.Errorf("data: the position is in %d windows, the data has %d: %w", p.Windows, s.windows, ErrOtherText)
	case p.Seed != s.o.Seed:
		return fmt.Errorf("data: the position is in the order of seed %d, the stream has seed %d", p.Seed, s.o.Seed)
	case p.Epoch < 0 || p.Index < 0 || p.Index >= s.windows:
		return fmt.Errorf("data: position %d of epoch %d, want one below %d", p.Index, p.Epoch, s.windows)
	}
	s.pos = p
	return nil
}
