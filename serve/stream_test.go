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
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

func newFar() device.Device { return far.New(cpu.Options{Threads: 1, Set: kernel.Best()}) }

// large is a model whose matrices are worth streaming.
func large(tied bool) model.Config {
	c := tiny(model.Llama)
	c.HiddenSize, c.NumLayers, c.HeadDim, c.IntermediateSize, c.VocabSize, c.TieWordEmbeddings = 160, 3, 40, 192, 300, tied
	return c
}

// again gives every weight of fill over and over.
func again(c model.Config) Source {
	once, weights := fill(c, nil), map[string][]byte{}
	for _, p := range c.Parameters() {
		b := make([]byte, 4*p.Elems())
		if err := once(p.Name, b); err != nil {
			panic(err)
		}
		weights[p.Name] = b
	}
	return over(weights)
}

// over gives weights over and over.
func over(weights map[string][]byte) Source {
	at := map[string]int{}
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
			if (dev.Name() == "far") != tied {
				continue // slow, and the same code
			}
			c := large(tied)
			o := base(c)
			rs := requests()[:2]
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
			for o.Memory = whole.Promise.Memory(); ; o.Memory -= 180 * mem.KiB {
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
				if ran++; ran%3 != 1 {
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
			if ran < 3 || before < all*7/10 {
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
	if err := e.Close(); err != nil { // the steps have told of it
		t.Errorf("Close: got %v, want nothing that was not told", err)
	}
}

// TestStreamedWeightsAsStored streams weights that lie in panels: what a file has is packed on the way.
func TestStreamedWeightsAsStored(t *testing.T) {
	for _, x := range []struct {
		name string
		of   func(string) dtype.Type
		kind string
		tied bool
		devs []device.Device
	}{
		{"f16", all(dtype.F16), model.Llama, false, []device.Device{newCPU(2), newFar(), newRef()}},
		{"bf16 tied", all(dtype.BF16), model.Llama, true, []device.Device{newCPU(1)}},
		{"q8_0", all(dtype.Q8_0), model.Llama, false, []device.Device{newCPU(2), newRef()}},
		{"mixed", mixed, model.Llama, true, []device.Device{newCPU(2), newFar()}},
		{"q4_0 of experts", all(dtype.Q4_0), model.Mixtral, false, []device.Device{newCPU(1)}},
		{"f16 of gpt2", all(dtype.F16), model.GPT2, false, []device.Device{newCPU(1)}},
	} {
		c := wide(x.kind, x.tied)
		c.VocabSize = 515 // rows after the last whole panel
		o := base(c)
		o.MaxSeqs = 1
		o.Types = typesOf(c, x.of)
		f := filesOf(t, c, o.Types)
		stored := mem.Bytes(0)
		for _, b := range f.stored {
			if n := mem.Bytes(len(b)); n > smallWeight {
				stored += n
			}
		}
		r := requests()[1]
		r.MaxTokens = 6
		for _, dev := range x.devs {
			o.Memory = 0
			e := open(t, dev, o, source(f.stored))
			add(t, e, r)
			want := drive(t, e, nil)
			for _, off := range []mem.Bytes{stored / 8, stored / 2} {
				o.Memory = e.Job().Promise.Memory() - off
				j, err := Plan(o, dev)
				if err != nil {
					t.Fatalf("%s on %s, %v less: %v", x.name, dev.Name(), off, err)
				}
				if n := j.Streamed(); n < off || n > stored*2 {
					t.Errorf("%s on %s, %v less: %v streamed of %v", x.name, dev.Name(), off, n, stored)
				}
				e := open(t, dev, o, over(f.stored)) // with not a byte more than promised
				add(t, e, r)
				same(t, fmt.Sprintf("%s on %s, %v streamed", x.name, dev.Name(), j.Streamed()), drive(t, e, nil), want)
			}
		}
	}
}

// TestNeedIsTheLeast has a model of which nearly all is one table, used twice: passing it through buffers takes more than keeping it, and
// the refusal says what keeping takes.
func TestNeedIsTheLeast(t *testing.T) {
	c := tiny(model.Llama)
	c.VocabSize, c.TieWordEmbeddings, c.NumLayers = 20_000, true, 1
	o := base(c)
	o.MaxSeqs, o.Context = 1, 32
	dev := newCPU(1)
	j, err := Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	o.Memory = j.Promise.Memory() - mem.MiB
	var no *DoesNotFitError
	if _, err := Plan(o, dev); !errors.As(err, &no) || no.Need > j.Promise.Memory() || no.streamed > 0 {
		t.Fatalf("got %v, want it to need at most %v", err, j.Promise.Memory())
	}
	o.Memory = no.Need
	if _, err := Plan(o, dev); err != nil {
		t.Error(err)
	}
}
