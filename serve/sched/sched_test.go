package sched

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"loadline/serve/kvcache"

	"github.com/google/go-cmp/cmp"
)

// newScheduler returns a scheduler on a pool of its own; what the options leave open is generous.
func newScheduler(t testing.TB, blocks, blockSize int, o Options) *Scheduler {
	t.Helper()
	ko := kvcache.Options{Blocks: blocks, BlockSize: blockSize, Cache: true}
	ko.Buf = make([]int32, ko.Words())
	pool, err := kvcache.NewPool(ko)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*int{&o.MaxRows, &o.MaxSeqs, &o.MaxOuts} {
		if *n == 0 {
			*n = 64
		}
	}
	o.Pool = pool
	o.Buf = make([]int32, o.Words())
	for i := range o.Buf { // a buffer from an arena is not zero
		o.Buf[i] = 0x5a5a5a5a
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOptions(t *testing.T) {
	pool, err := kvcache.NewPool(kvcache.Options{Blocks: 1000, BlockSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		o    Options
		want string // part of the error; empty for none
	}{
		{Options{MaxRows: 1, MaxSeqs: 1, MaxOuts: 1, Pool: pool}, ""},
		{Options{MaxRows: 1, MaxSeqs: 1, MaxOuts: 1}, "want a pool"},
		{Options{MaxRows: 1, MaxSeqs: 1, Pool: pool}, "got 1, 1 and 0"},
		{Options{MaxRows: 1, MaxSeqs: 1, MaxOuts: 1, PrefillChunk: -1, Pool: pool}, "got -1 and 0"},
		{Options{MaxRows: 512, MaxSeqs: 16, MaxOuts: 16, Pool: pool}, "want a buffer of 18097 words for a pass, got 0"},
		{Options{MaxRows: 512, MaxSeqs: 16, MaxOuts: 16, Pool: pool, Buf: make([]int32, 18097)}, ""},
		{Options{MaxRows: 512, MaxSeqs: 16, MaxOuts: 16, MaxBlocks: 10, Pool: pool}, ""},
	} {
		_, err := New(tc.o)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%+v): got error %v, want %q", tc.o, err, tc.want)
		}
	}
}

func TestLimitError(t *testing.T) {
	s := newScheduler(t, 4, 4, Options{})
	for _, tc := range []struct {
		max  int
		want *LimitError
	}{
		{14, nil},
		{15, &LimitError{ID: "15", What: "tokens in the pool", Want: 17, Have: 16, Prompt: 3, New: 15}},
		{math.MaxInt, &LimitError{ID: fmt.Sprint(math.MaxInt), What: "tokens in the pool", Want: math.MaxInt, Have: 16, Prompt: 3, New: math.MaxInt}},
	} {
		err := s.Add(Request{ID: fmt.Sprint(tc.max), Prompt: []int32{1, 2, 3}, MaxTokens: tc.max})
		var got *LimitError
		errors.As(err, &got)
		if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.want == nil) {
			t.Errorf("max %d: error %v (-want +got):\n%s", tc.max, err, diff)
		}
	}
}

// TestPassArrays reads one pass in full: a decode behind a prefill that ends and one that does not.
func TestPassArrays(t *testing.T) {
	s := newScheduler(t, 16, 2, Options{MaxRows: 6, MaxBlocks: 4})
	add := func(id string, prompt ...int32) {
		if err := s.Add(Request{ID: id, Prompt: prompt, MaxTokens: 2}); err != nil {
			t.Fatal(err)
		}
	}
	add("a", 11, 12)
	s.Commit(s.Schedule(), []int32{13})
	add("b", 21, 22, 23)
	add("c", 31, 32, 33)
	p := s.Schedule()
	got := map[string][]int32{"tokens": p.Tokens, "positions": p.Positions, "rowseq": p.RowSeq, "slots": p.Slots,
		"starts": p.Starts, "lens": p.Lens, "tables": p.Tables, "outs": p.Outs}
	want := map[string][]int32{
		"tokens":    {13, 21, 22, 23, 31, 32},
		"positions": {2, 0, 1, 2, 0, 1},
		"rowseq":    {0, 1, 1, 1, 2, 2},
		"slots":     {2, 4, 5, 6, 8, 9},
		"starts":    {0, 1, 4, 6},
		"lens":      {3, 3, 2},
		"tables":    {0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1},
		"outs":      {0, 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pass (-want +got):\n%s", diff)
	}
	if got, want := p.OutSeqs[1].ID, "b"; got != want {
		t.Errorf("second out: got sequence %q, want %q", got, want)
	}
}

// TestSteadyStateAllocs decodes, crosses block boundaries, publishes and evicts without the Go heap.
func TestSteadyStateAllocs(t *testing.T) {
	s := newScheduler(t, 600, 4, Options{MaxRows: 32, MaxSeqs: 8, MaxOuts: 8})
	for i := range 8 {
		if err := s.Add(Request{ID: fmt.Sprint(i), Prompt: []int32{int32(i), 2, 3}, MaxTokens: 250, N: 1}); err != nil {
			t.Fatal(err)
		}
	}
	next := make([]int32, 8)
	step := func() {
		p := s.Schedule()
		for i := range p.Outs {
			next[i] = int32(i)
		}
		s.Commit(p, next[:len(p.Outs)])
	}
	step()
	if got := len(s.running); got != 8 {
		t.Fatalf("running: got %d, want 8", got)
	}
	if got := testing.AllocsPerRun(1, func() {
		for range 100 {
			step()
		}
	}); got != 0 {
		t.Errorf("allocations in 100 passes: got %v, want 0", got)
	}
	if got := len(s.running); got != 8 {
		t.Errorf("running at the end: got %d, want 8", got)
	}
}

// TestNoStarvation keeps short requests coming and looks at a long one that arrived among them, on a pool that is
// always too small: it must not wait longer than those before it take, and once it runs it must not stop for long.
func TestNoStarvation(t *testing.T) {
	s := newScheduler(t, 12, 2, Options{MaxRows: 6, MaxSeqs: 5, MaxOuts: 5})
	n := 0
	add := func() {
		n++
		if err := s.Add(Request{ID: fmt.Sprint("short", n), Prompt: []int32{int32(n), 1}, MaxTokens: 6}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		add()
	}
	if err := s.Add(Request{ID: "long", Prompt: []int32{-1, -1, -1, -1, -1, -1}, MaxTokens: 16}); err != nil {
		t.Fatal(err)
	}
	for pass := range 200 {
		for s.Stats().Waiting < 10 {
			add()
		}
		p := s.Schedule()
		for _, e := range s.Commit(p, make([]int32, len(p.Outs))) {
			if e.Seq.ID != "long" || e.Finished == NotFinished {
				continue
			}
			// Ten requests of 6 tokens, at worst one after the other, then its own 16.
			if pass > 10*6+16 {
				t.Errorf("the long request took %d passes", pass)
			}
			if s.Stats().Preemptions == 0 {
				t.Error("want preemptions, or the pool is not too small")
			}
			return
		}
	}
	t.Fatal("the long request never finished")
}

func TestMisusePanics(t *testing.T) {
	for name, f := range map[string]func(s *Scheduler){
		"two passes at a time": func(s *Scheduler) { s.Schedule(); s.Schedule() },
		"too few tokens":       func(s *Scheduler) { s.Commit(s.Schedule(), nil) },
		"commit twice":         func(s *Scheduler) { p := s.Schedule(); s.Commit(p, []int32{1}); s.Commit(p, []int32{1}) },
		"another pass":         func(s *Scheduler) { s.Schedule(); s.Commit(Pass{}, nil) },
	} {
		s := newScheduler(t, 4, 4, Options{})
		if err := s.Add(Request{ID: "a", Prompt: []int32{1}, MaxTokens: 2}); err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if r, _ := recover().(string); !strings.HasPrefix(r, "sched: ") {
					t.Errorf("%s: got panic %q, want one from sched", name, r)
				}
			}()
			f(s)
		}()
	}
}
