package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/far"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/kernel"
)

func newFar() device.Device { return far.New(cpu.Options{Threads: 1, Set: kernel.Best()}) }

// large is a model whose matrices are worth streaming.
func large(tied bool) model.Config {
	c := tiny(model.Llama)
	c.HiddenSize, c.NumLayers, c.HeadDim, c.IntermediateSize, c.VocabSize, c.TieWordEmbeddings = 160, 3, 40, 192, 300, tied
	return c
}

// again gives every weight over and over.
func again(c model.Config) Source {
	once := fill(c, nil)
	weights, at := map[string][]byte{}, map[string]int{}
	for _, p := range c.Parameters() {
		b := make([]byte, 4*p.Elems())
		if err := once(p.Name, b); err != nil {
			panic(err)
		}
		weights[p.Name] = b
	}
	return func(state string, p []byte) error {
		w := weights[state]
		if len(p) > len(w)-at[state] {
			return fmt.Errorf("%d bytes of %q at %d of %d", len(p), state, at[state], len(w))
		}
		copy(p, w[at[state]:])
		at[state] = (at[state] + len(p)) % len(w)
		return nil
	}
}

// TestStreamedWeights lowers the limit under the weights: more and more of them are read again for every pass, the tokens stay the
// same to the bit, and the ledger's peak is the promise.
func TestStreamedWeights(t *testing.T) {
	for _, dev := range []device.Device{newCPU(2), newFar(), newRef()} {
		for _, tied := range []bool{false, true} {
			if (dev.Name() == "far") == tied && dev.Name() != "cpu" {
				continue // slow, and the same code
			}
			c := large(tied)
			o := base(c)
			rs := requests()
			whole, err := Plan(o, dev)
			if err != nil {
				t.Fatal(err)
			}
			if whole.Streamed() != 0 || whole.Notes() != nil {
				t.Errorf("without a limit: %v streamed, %q", whole.Streamed(), whole.Notes())
			}
			e := open(t, dev, o, again(c))
			add(t, e, rs...)
			want := drive(t, e, nil)
			before, blocks := mem.Bytes(0), 0
			var refused *DoesNotFitError
			ran := 0
			for o.Memory = whole.Promise.Memory(); ; o.Memory -= 150 * mem.KiB {
				j, err := Plan(o, dev)
				if errors.As(err, &refused) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				n := j.Streamed()
				if j.Promise.Memory() > o.Memory || n < before && j.Options.Blocks == blocks {
					t.Fatalf("limit %d: promise %d, %d bytes streamed, before %d", o.Memory, j.Promise.Memory(), n, before)
				}
				blocks = j.Options.Blocks
				if before = n; n == 0 {
					continue
				}
				if notes := j.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "read again for every pass, "+n.String()) {
					t.Errorf("notes: %q", notes)
				}
				if ran++; ran%4 != 1 {
					continue
				}
				l := mem.NewLedger(mem.Limits{Memory: o.Memory})
				e, err := New(j, dev, device.Env{Ledger: l}, again(c))
				if err != nil {
					t.Fatal(err)
				}
				add(t, e, rs...)
				same(t, fmt.Sprintf("%s, %v streamed", dev.Name(), n), drive(t, e, nil), want)
				if got := l.PeakMemory(); got != j.Promise.Memory() {
					t.Errorf("ledger peak: got %d, want %d", got, j.Promise.Memory())
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
				if u := l.InUse(); u != (mem.Usage{}) {
					t.Errorf("after Close: %v is still booked", u)
				}
			}
			all := 4 * mem.Bytes(c.Params())
			if ran < 4 || before < all*8/10 {
				t.Errorf("%s: ran %d times with streamed weights, %v of %v at the least memory", dev.Name(), ran, before, all)
			}
			text := refused.Error()
			if !strings.Contains(text, "even if every pass read") || !strings.Contains(text, o.Memory.String()) {
				t.Errorf("refusal: %s; %s", text, refused.Advice())
			}
			o = refused.Wanted
			o.Memory = refused.Need
			if _, err := Plan(o, dev); err != nil {
				t.Errorf("with the memory it asked for: %v", err)
			}
		}
	}
}

// TestStreamedWeightsFail breaks the file in the middle of a pass.
func TestStreamedWeightsFail(t *testing.T) {
	broken := errors.New("the cable is out")
	c := large(false)
	o := base(c)
	whole, err := Plan(o, newCPU(1))
	if err != nil {
		t.Fatal(err)
	}
	o.Memory = whole.Promise.Memory() - 3*mem.MiB/2
	source, reads := again(c), 0
	j, err := Plan(o, newCPU(1))
	if err != nil || j.Streamed() == 0 {
		t.Fatalf("got %v, want streamed weights", err)
	}
	e, err := New(j, newCPU(1), device.Env{Ledger: mem.NewLedger(mem.Limits{})}, func(state string, p []byte) error {
		if reads++; reads == 60 {
			return broken
		}
		return source(state, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	add(t, e, requests()...)
	for range 1000 {
		if _, err = e.Step(); err != nil {
			break
		}
	}
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), `read weight "model.`) {
		t.Errorf("got %v, want the file's error and the weight's name", err)
	}
	if _, err := e.Step(); !errors.Is(err, broken) {
		t.Errorf("the next step: got %v, want the same error", err)
	}
	if err := e.Close(); !errors.Is(err, broken) {
		t.Errorf("Close: got %v, want the error of the reads", err)
	}
}
