package serve

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/dtype"
)

// heads is tiny with heads of whole blocks.
func heads() model.Config {
	c := tiny(model.Llama)
	c.HeadDim = 32
	return c
}

// kvPairs are types of keys and values, each type on either side.
var kvPairs = [][2]dtype.Type{
	{dtype.F16, dtype.F16}, {dtype.BF16, dtype.F32}, {dtype.Q8_0, dtype.Q8_0}, {dtype.F8E4M3, dtype.F8E4M3}, {dtype.Q4_0, dtype.Q4_0},
	{dtype.Q8_0, dtype.Q4_0}, {dtype.F32, dtype.F8E4M3}, {dtype.F8E4M3, dtype.BF16},
}

// TestKVTypesKeepTheAnswer compares, for each type, everything that a budget may change: to the bit.
func TestKVTypesKeepTheAnswer(t *testing.T) {
	for _, dev := range []struct {
		name string
		dev  device.Device
	}{{"ref", newRef()}, {"cpu", newCPU(1)}, {"far", newFar()}} {
		for i, types := range kvPairs {
			if dev.name != "cpu" && i%2 == 1 {
				continue // slow, and the same code
			}
			t.Run(fmt.Sprintf("%s/%v,%v", dev.name, types[0], types[1]), func(t *testing.T) {
				o := base(heads())
				o.KVTypes = types
				rs := requests()
				want := alone(t, dev.dev, o, rs...)
				for _, s := range []struct{ block, chunk int }{{4, 7}, {64, 128}, {16, 1}} {
					if s.chunk == 1 && dev.name != "cpu" {
						continue
					}
					x := o
					x.BlockSize, x.PrefillChunk = s.block, s.chunk
					e := open(t, dev.dev, x, nil)
					add(t, e, rs...)
					same(t, fmt.Sprintf("blocks of %d, chunks of %d", s.block, s.chunk), drive(t, e, nil), want)
				}
				if dev.name != "cpu" {
					return
				}
				e := open(t, newCPU(2), o, nil)
				add(t, e, rs...)
				same(t, "2 threads", drive(t, e, func(step int) {
					if step == 20 {
						e.sched.ForcePreempt("mid")
					}
				}), want)
				add(t, e, rs...)
				same(t, "from the prefix cache", drive(t, e, nil), want)
				three := rs[1]
				three.N = 3 // samples that copy a block when they write to it
				o.BlockSize = 4
				for k, a := range alone(t, newCPU(1), o, three) {
					same(t, "sample "+k, map[string]*answer{"": a}, map[string]*answer{"": want["mid/0"]})
				}
			})
		}
	}
}

// TestKVTypesAreClose compares the log probabilities of one text under each type with those under f32. The bounds are what the formats'
// steps do to this model, times two; a format read wrongly is far beyond.
func TestKVTypesAreClose(t *testing.T) {
	r := requests()[2]
	r.MaxTokens = 1
	first := func(dev device.Device, types [2]dtype.Type) *answer {
		o := base(heads())
		o.MaxSeqs, o.KVTypes = 1, types
		return alone(t, dev, o, r)["long/0"]
	}
	off := func(a, b *answer) (d float64) {
		for _, x := range a.Top[0] {
			for _, y := range b.Top[0] {
				if x.Token == y.Token {
					d = max(d, math.Abs(float64(x.Logprob-y.Logprob)))
				}
			}
		}
		return d
	}
	wide := first(newRef(), [2]dtype.Type{})
	for _, c := range []struct {
		t     dtype.Type
		bound float64
	}{{dtype.F16, 0.004}, {dtype.BF16, 0.03}, {dtype.Q8_0, 0.06}, {dtype.F8E4M3, 0.4}, {dtype.Q4_0, 1}} {
		types := [2]dtype.Type{c.t, c.t}
		onRef, onCPU := first(newRef(), types), first(newCPU(1), types)
		t.Logf("%v: %.5f from f32, ref and cpu %.6f apart", c.t, off(onRef, wide), off(onRef, onCPU))
		if d := off(onRef, wide); d > c.bound || d == 0 {
			t.Errorf("%v on ref: log probabilities are %g from those of f32, want at most %g and not 0", c.t, d, c.bound)
		}
		if d := off(onCPU, wide); d > c.bound || d == 0 {
			t.Errorf("%v on cpu: log probabilities are %g from those of f32, want at most %g and not 0", c.t, d, c.bound)
		}
	}
}

// TestKVTypesTakeTheirBytes measures the pools in the ledger.
func TestKVTypesTakeTheirBytes(t *testing.T) {
	const slots, width, layers = 3 * 160, 2 * 32, 2
	for _, dev := range []device.Device{newRef(), newCPU(2), newFar()} {
		for i, types := range kvPairs {
			if dev.Name() != "cpu" && i%4 != 3 {
				continue // slow, and the same plan
			}
			o := base(heads())
			o.KVTypes = types
			e := open(t, dev, o, nil)
			add(t, e, requests()[0])
			drive(t, e, nil) // checks the promise after every step
			var want mem.Bytes
			for _, k := range types {
				want += layers * slots * width / 32 * map[dtype.Type]mem.Bytes{
					dtype.F32: 128, dtype.F16: 64, dtype.BF16: 64, dtype.F8E4M3: 32, dtype.Q8_0: 34, dtype.Q4_0: 18,
				}[k]
			}
			if got := e.ledger.Peak()[mem.Device][mem.KVBlocks]; got != want {
				t.Errorf("%s, %v: the ledger has %d bytes of KV blocks, want %d", dev.Name(), types, got, want)
			}
		}
	}
}

// TestNarrowerKV refuses a context in f32 and says what would hold it.
func TestNarrowerKV(t *testing.T) {
	dev := newCPU(1)
	o := base(heads())
	o.Context, o.MaxSeqs = 512, 1
	whole, err := Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	o.Memory = whole.Promise.Memory() - 2*2*512*64*4*5/8 // the pools would have to be 3/8 as large: q8_0
	var no *DoesNotFitError
	if _, err := Plan(o, dev); !errors.As(err, &no) {
		t.Fatalf("got %v, want a *DoesNotFitError", err)
	}
	if no.Narrower == nil || no.Narrower.KVTypes != [2]dtype.Type{dtype.Q8_0, dtype.Q8_0} || no.Narrower.Context != 512 {
		t.Fatalf("got %+v, want q8_0", no.Narrower)
	}
	if !strings.Contains(no.Advice(), "--kv-type q8_0, or --memory ") {
		t.Errorf("advice: %s", no.Advice())
	}
	if j, err := Plan(*no.Narrower, dev); err != nil || j.Promise.Memory() > o.Memory {
		t.Errorf("the advice does not fit: %v", err)
	}
}

func TestKVTypesThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		head  int
		types [2]dtype.Type
		want  string
	}{
		{8, [2]dtype.Type{dtype.F32, dtype.Q8_0}, "keys or values of type q8_0: heads of 8 are no whole blocks of 32"},
		{32, [2]dtype.Type{dtype.Q4_K, dtype.F32}, "keys or values of type q4_k: want one of " + fmt.Sprint(graph.KVTypes())},
		{32, [2]dtype.Type{dtype.I32, dtype.I32}, "type i32"},
	} {
		o := base(heads())
		o.Config.HeadDim, o.KVTypes = c.head, c.types
		if _, err := Plan(o, newRef()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}
