package serve

import (
	"fmt"
	"slices"
	"testing"

	"loadline/device"
	"loadline/mem"
	"loadline/model"
	"loadline/serve/sample"

	"pgregory.net/rapid"
)

// TestTraffic runs random requests through random engines, with cancellations and preemptions at random moments, and
// compares every token with the answer computed alone.
func TestTraffic(t *testing.T) {
	dev := newCPU(1)
	c := tiny(model.Llama)
	shared := prompt(40, 2)
	var kinds []Request
	for i, p := range [][]int32{prompt(1, 4), prompt(9, 5), shared, slices.Concat(shared, prompt(5, 6)), slices.Concat(shared[:20], prompt(30, 7))} {
		r := Request{ID: fmt.Sprint(i), Prompt: p, MaxTokens: 6 + 3*i}
		if i%2 == 1 {
			r.Params = sample.Params{Temperature: 1, TopK: 20, FrequencyPenalty: 0.3, Seed: uint64(i)}
			r.N = 2
		}
		kinds = append(kinds, r)
	}
	answers := alone(t, dev, Options{Config: c, Context: 80}, kinds...)
	var preemptions, hits, copied int64
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Config: c, Context: 80 + rapid.IntRange(0, 20).Draw(t, "context"), MaxSeqs: rapid.IntRange(2, 5).Draw(t, "seqs")}
		o.BlockSize = rapid.IntRange(1, 20).Draw(t, "block")
		o.PrefillChunk = rapid.IntRange(1, 50).Draw(t, "chunk")
		o.NoCache = rapid.Bool().Draw(t, "no cache")
		o.Blocks = o.width() + rapid.IntRange(0, 2*o.width()).Draw(t, "more blocks")
		j, err := Plan(o, dev)
		if err != nil {
			t.Fatal(err)
		}
		e, err := New(j, dev, device.Env{Ledger: mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()})}, fill(c, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		got := map[string][]int32{}
		kind := map[string]int{}
		ids := []string{}
		left := rapid.IntRange(1, 8).Draw(t, "requests")
		for step := 0; left > 0 || !e.Idle(); step++ {
			if step > 2000 {
				t.Fatal("the engine does not come to an end")
			}
			if left > 0 && rapid.IntRange(0, 3).Draw(t, "arrives") == 0 {
				left--
				k := rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")
				r := kinds[k]
				r.ID = fmt.Sprintf("%d-%d", k, left)
				if err := e.Add(r); err != nil {
					t.Fatal(err)
				}
				kind[r.ID] = k
				ids = append(ids, r.ID)
			}
			if len(ids) > 0 {
				id := rapid.SampledFrom(ids).Draw(t, "whom")
				switch rapid.IntRange(0, 30).Draw(t, "what") {
				case 0:
					if e.Cancel(id) {
						delete(kind, id)
					}
				case 1, 2:
					e.sched.ForcePreempt(id)
				}
			}
			events, err := e.Step()
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range events {
				if x.Kind == Failed {
					t.Fatal(x.Err)
				}
				if x.Kind == Token {
					key := fmt.Sprintf("%s/%d", x.ID, x.Index)
					got[key] = append(got[key], x.Token)
				}
			}
			if err := e.pool.Check(); err != nil {
				t.Fatal(err)
			}
		}
		for id, k := range kind {
			for n := range max(kinds[k].N, 1) {
				if g, w := got[fmt.Sprintf("%s/%d", id, n)], answers[fmt.Sprintf("%d/%d", k, n)].Tokens; !slices.Equal(g, w) {
					t.Fatalf("request %s, sample %d: got %v, want %v", id, n, g, w)
				}
			}
		}
		s := e.Stats()
		if s.Pool.Live != 0 || len(e.active) != 0 {
			t.Fatalf("an idle engine holds %d blocks and requests %v", s.Pool.Live, e.active)
		}
		preemptions, hits, copied = preemptions+s.Sched.Preemptions, hits+s.Sched.PrefixHits, copied+s.Pool.Copied
	})
	if preemptions == 0 || hits == 0 || copied == 0 {
		t.Errorf("the traffic was too light: %d preemptions, %d prefix hits, %d copies", preemptions, hits, copied)
	}
}
