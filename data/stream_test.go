package data

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// counting returns a Source whose token at each place is the place.
func counting(n int) Tokens {
	t := make(Tokens, n)
	for i := range t {
		t[i] = int32(i)
	}
	return t
}

// drawStream draws a source and options that fit it.
func drawStream(t *rapid.T) (Tokens, Options) {
	seq := rapid.IntRange(1, 9).Draw(t, "seq")
	n := rapid.IntRange(seq+1, 40*seq+1).Draw(t, "tokens")
	return counting(n), Options{
		Batch: rapid.IntRange(1, 7).Draw(t, "batch"),
		Seq:   seq,
		Seed:  rapid.Uint64().Draw(t, "seed"),
	}
}

func newStream(t interface{ Fatal(...any) }, src Source, o Options) *Stream {
	s, err := NewStream(src, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// next returns the tokens of the next batch, after checking that the targets are those that follow.
func next(t *rapid.T, s *Stream) []int32 {
	n := s.o.Batch * s.o.Seq
	tokens, targets := make([]int32, n), make([]int32, n)
	if err := s.Next(tokens, targets); err != nil {
		t.Fatal(err)
	}
	for i := range tokens {
		if targets[i] != tokens[i]+1 {
			t.Fatalf("target %d: got %d, want %d", i, targets[i], tokens[i]+1)
		}
		if i%s.o.Seq > 0 && tokens[i] != tokens[i-1]+1 {
			t.Fatalf("token %d: got %d after %d in one window", i, tokens[i], tokens[i-1])
		}
	}
	return tokens
}

func TestEveryWindowOnceAnEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src, o := drawStream(t)
		s := newStream(t, src, o)
		const epochs = 3
		var order []int32 // first tokens of the windows
		for int64(len(order)) < epochs*s.Windows() {
			tokens := next(t, s)
			for row := range o.Batch {
				order = append(order, tokens[row*o.Seq])
			}
		}
		for e := range int64(epochs) {
			epoch := slices.Clone(order[e*s.Windows() : (e+1)*s.Windows()])
			slices.Sort(epoch)
			for i, first := range epoch {
				if first != int32(i*o.Seq) {
					t.Fatalf("epoch %d: window %d begins at %d, want %d", e, i, first, i*o.Seq)
				}
			}
		}
	})
}

func TestRanksShareTheGlobalBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src, o := drawStream(t)
		ranks := rapid.IntRange(1, 5).Draw(t, "ranks")
		whole := o
		whole.Batch *= ranks
		one := newStream(t, src, whole)
		var parts []*Stream
		for r := range ranks {
			o.Rank, o.Ranks = r, ranks
			parts = append(parts, newStream(t, src, o))
		}
		for range 6 {
			var got []int32
			for _, p := range parts {
				got = append(got, next(t, p)...)
			}
			if want := next(t, one); !slices.Equal(got, want) {
				t.Fatalf("%d ranks: got %v, want %v", ranks, got, want)
			}
			for r, p := range parts {
				if p.Position() != one.Position() {
					t.Fatalf("rank %d is at %+v, want %+v", r, p.Position(), one.Position())
				}
			}
		}
	})
}

func TestSeekResumes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src, o := drawStream(t)
		s := newStream(t, src, o)
		for range rapid.IntRange(0, 30).Draw(t, "before") {
			next(t, s)
		}
		p, err := json.Marshal(s.Position())
		if err != nil {
			t.Fatal(err)
		}
		var pos Position
		if err := json.Unmarshal(p, &pos); err != nil {
			t.Fatal(err)
		}
		resumed := newStream(t, src, o)
		if err := resumed.Seek(pos); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if got, want := next(t, resumed), next(t, s); !slices.Equal(got, want) {
				t.Fatalf("after %s: got %v, want %v", p, got, want)
			}
		}
	})
}

func TestSeekRefuses(t *testing.T) {
	s := newStream(t, counting(101), Options{Batch: 2, Seq: 10, Seed: 5})
	for _, c := range []struct {
		pos  Position
		want string
	}{
		{Position{Windows: 11, Seed: 5}, "the position is in 11 windows, the data has 10"},
		{Position{Windows: 10, Seed: 6}, "seed 6, the stream has seed 5"},
		{Position{Windows: 10, Seed: 5, Index: 10}, "position 10 of epoch 0, want one below 10"},
		{Position{Windows: 10, Seed: 5, Index: -1}, "position -1"},
		{Position{Windows: 10, Seed: 5, Epoch: -1}, "epoch -1"},
	} {
		if err := s.Seek(c.pos); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want an error with %q", c.pos, err, c.want)
		}
	}
	if err := s.Seek(Position{Windows: 11, Seed: 5}); !errors.Is(err, ErrOtherText) {
		t.Errorf("other windows: got %v, want ErrOtherText", err)
	}
}

// TestOrderChanges checks that the order depends on the seed and the epoch, and is not that of the text.
func TestOrderChanges(t *testing.T) {
	orders := make(map[string]string)
	for _, c := range []struct {
		name string
		p    permutation
	}{
		{"seed 1, epoch 0", newPermutation(50, 1, 0)},
		{"seed 1, epoch 1", newPermutation(50, 1, 1)},
		{"seed 2, epoch 0", newPermutation(50, 2, 0)},
		{"seed 0, epoch 1", newPermutation(50, 0, 1)},
	} {
		var b strings.Builder
		fixed := 0
		for i := range int64(50) {
			if c.p.at(i) == i {
				fixed++
			}
			b.WriteByte(byte('0' + c.p.at(i)))
		}
		if fixed > 10 {
			t.Errorf("%s leaves %d of 50 windows in place", c.name, fixed)
		}
		if other, ok := orders[b.String()]; ok {
			t.Errorf("%s has the order of %s", c.name, other)
		}
		orders[b.String()] = c.name
	}
}

// TestPermutationIsUniform counts where each of 20 windows goes over 4000 epochs: chi-square with 361 degrees of freedom
// stays below 361 + 5 standard deviations.
func TestPermutationIsUniform(t *testing.T) {
	const n, epochs = 20, 4000
	var counts [n][n]float64
	for e := range int64(epochs) {
		p := newPermutation(n, 9, e)
		for i := range int64(n) {
			counts[i][p.at(i)]++
		}
	}
	chi, want := 0.0, float64(epochs)/n
	for _, row := range counts {
		for _, c := range row {
			chi += (c - want) * (c - want) / want
		}
	}
	const free = (n - 1) * (n - 1)
	if limit := free + 5*math.Sqrt(2*free); chi > limit {
		t.Errorf("chi-square: got %.0f, want at most %.0f", chi, limit)
	}
}

func TestPermutationIsBijective(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 4, 5, 15, 16, 17, 255, 256, 257, 10007, 65536, 65537} {
		p := newPermutation(n, 11, 3)
		seen := make([]bool, n)
		for i := range n {
			j := p.at(i)
			if j < 0 || j >= n || seen[j] {
				t.Fatalf("of %d: %d goes to %d, which is outside or taken", n, i, j)
			}
			seen[j] = true
		}
	}
}

func TestSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src, o := drawStream(t)
		ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
		var parts []*Sequence
		for r := range ranks {
			o.Rank, o.Ranks = r, ranks
			s, err := NewSequence(src, o)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, s)
		}
		tokens, targets := make([]int32, o.Batch*o.Seq), make([]int32, o.Batch*o.Seq)
		for range 2 {
			var got []int32
			for ended := false; !ended; {
				for r, s := range parts {
					rows, err := s.Next(tokens, targets)
					if end := errors.Is(err, io.EOF); err != nil && !end || end && rows > 0 || r > 0 && end != ended {
						t.Fatalf("rank %d: got %d rows and %v", r, rows, err)
					} else {
						ended = end
					}
					for i := range rows * o.Seq {
						got = append(got, tokens[i])
						if targets[i] != tokens[i]+1 {
							t.Fatalf("target: got %d, want %d", targets[i], tokens[i]+1)
						}
					}
				}
			}
			want := (len(src) - 1) / o.Seq * o.Seq
			if !slices.Equal(got, src[:want]) {
				t.Fatalf("got %v, want the first %d of %d tokens in order", got, want, len(src))
			}
			for _, s := range parts {
				s.Rewind()
			}
		}
	})
}

func TestOptionsRefused(t *testing.T) {
	for _, c := range []struct {
		o      Options
		tokens int
		want   string
	}{
		{Options{Batch: 0, Seq: 4}, 100, "batch is 0, want at least 1"},
		{Options{Batch: 1, Seq: 0}, 100, "sequence length is 0, want at least 1"},
		{Options{Batch: 1, Seq: 4, Ranks: -1}, 100, "ranks is -1, want at least 1"},
		{Options{Batch: 1, Seq: 4, Ranks: 2, Rank: 2}, 100, "rank is 2, want 0 to 1"},
		{Options{Batch: 1, Seq: 4, Rank: -1}, 100, "rank is -1, want 0 to 0"},
		{Options{Batch: 1, Seq: 256}, 256, "the text has 256 tokens, a window of 256 needs 257"},
		{Options{Batch: 1, Seq: 1}, 0, "the text has 0 tokens, a window of 1 needs 2"},
	} {
		if _, err := NewStream(counting(c.tokens), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewStream %+v: got %v, want an error with %q", c.o, err, c.want)
		}
		if _, err := NewSequence(counting(c.tokens), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewSequence %+v: got %v, want an error with %q", c.o, err, c.want)
		}
	}
}

// failing is a Source that cannot be read.
type failing struct{ Tokens }

func (failing) Read([]int32, int) error { return io.ErrUnexpectedEOF }

func TestNextPassesErrorsOn(t *testing.T) {
	o := Options{Batch: 2, Seq: 3}
	s := newStream(t, failing{counting(20)}, o)
	before := s.Position()
	if err := s.Next(make([]int32, 6), make([]int32, 6)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want the source's error", err)
	}
	if s.Position() != before {
		t.Errorf("position: got %+v, want %+v", s.Position(), before)
	}
	q, err := NewSequence(failing{counting(20)}, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Next(make([]int32, 6), make([]int32, 6)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Sequence: got %v, want the source's error", err)
	}
}
