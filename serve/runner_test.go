package serve

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"loadline/device"
	"loadline/mem"
	"loadline/model"
)

// TestRunner continues a prompt by hand, in chunks of any length: it gets the engine's greedy tokens, in the engine's memory.
func TestRunner(t *testing.T) {
	for _, kind := range []string{model.Llama, model.Mixtral, model.GPT2} {
		o := base(tiny(kind))
		o.MaxSeqs, o.NoCache = 1, true
		request := requests()[1]
		want := alone(t, newCPU(1), o, request)[request.ID+"/0"].Tokens
		for _, dev := range []device.Device{newRef(), newCPU(2)} {
			for _, chunk := range []int{1, 5, 64} {
				o.PrefillChunk, o.Outs = chunk, min(chunk, 3)
				j, err := Plan(o, dev)
				if err != nil {
					t.Fatal(err)
				}
				l := mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()})
				r, err := NewRunner(j, dev, device.Env{Ledger: l}, fill(o.Config, nil))
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second time behind a Reset
					r.Reset()
					next := request.Prompt
					var got []int32
					for len(got) < len(want) {
						if err := r.Forward(next, 1); err != nil {
							t.Fatal(err)
						}
						logits, err := r.Logits(0)
						if err != nil {
							t.Fatal(err)
						}
						next = []int32{int32(slices.Index(logits, slices.Max(logits)))}
						got = append(got, next[0])
					}
					if dev.Name() != "ref" && !slices.Equal(got, want) { // ref's sums are in another order
						t.Errorf("%s in chunks of %d: got %v, the engine %v", kind, chunk, got, want)
					}
				}
				if err := errors.Join(r.Check(), r.Close(), r.Close()); err != nil {
					t.Error(err)
				}
				if u := l.InUse(); u != (mem.Usage{}) {
					t.Errorf("after Close: %v is still booked", u)
				}
			}
		}
	}
}

func TestRunnerRefuses(t *testing.T) {
	o := base(tiny(model.Llama))
	dev := newCPU(1)
	for _, x := range []struct {
		seqs int
		less mem.Bytes
		want string
	}{{2, 0, "want the job of one sequence"}, {1, 1, ""}} {
		o.MaxSeqs = x.seqs
		j, err := Plan(o, dev)
		if err != nil {
			t.Fatal(err)
		}
		l := mem.NewLedger(mem.Limits{Memory: j.Promise.Memory() - x.less})
		_, err = NewRunner(j, dev, device.Env{Ledger: l}, fill(o.Config, nil))
		var over *mem.OverBudgetError
		if x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) || x.want == "" && !errors.As(err, &over) {
			t.Errorf("%d sequences and %d bytes less: got %v", x.seqs, x.less, err)
		}
		if u := l.InUse(); u != (mem.Usage{}) {
			t.Errorf("after a refusal: %v is still booked", u)
		}
	}
	o.MaxSeqs, o.Context, o.PrefillChunk = 1, 8, 4
	j, err := Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRunner(j, dev, device.Env{Ledger: mem.NewLedger(mem.Limits{})}, fill(o.Config, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Forward(make([]int32, 9), 0); err == nil || !strings.Contains(err.Error(), "0 tokens and 9 more are more than the context of 8") {
		t.Errorf("got %v, want a refusal of 9 tokens", err)
	}
	for name, f := range map[string]func(){
		"more outs than the job has":       func() { _ = r.Forward(make([]int32, 4), 2) },
		"outs across chunks":               func() { _ = r.Forward(make([]int32, 4), 5) },
		"logits that nobody asked for":     func() { _, _ = r.Logits(0) },
		"a number of outs that is no such": func() { _ = r.Forward(nil, -1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: want a panic", name)
				}
			}()
			f()
		}()
	}
}

// TestInMemory refuses where Plan would read weights again for every pass.
func TestInMemory(t *testing.T) {
	o, dev := base(tiny(model.Llama)), newCPU(1)
	o.MaxSeqs, o.Config.IntermediateSize = 1, 4096 // weights that are worth reading again
	whole, err := Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	o.Memory = whole.Promise.Memory() - 512<<10
	if j, err := Plan(o, dev); err != nil || j.Streamed() == 0 {
		t.Fatalf("got %v, want a plan that reads weights again", err)
	}
	o.InMemory = true
	var no *DoesNotFitError
	if _, err := Plan(o, dev); !errors.As(err, &no) || no.Need != whole.Promise.Memory() {
		t.Errorf("got %v, want a refusal with what all weights in memory take", err)
	}
}
