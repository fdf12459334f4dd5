package compile

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"loadline/cost"
	"loadline/mem"
)

func autoFrontier(t testing.TB, c shape, o TrainOptions, m cost.Machine) *frontier {
	t.Helper()
	f := wholeFlow(c.step(t, o), m)
	s := newSchedule(f)
	fr := newFrontier(s, Options{Machine: m}, f.policy(Recompute{}))
	if fr == nil {
		t.Fatal("no units")
	}
	return fr
}

// The composed peak and cost of a plan are those of the whole program.
func TestFrontierIsExact(t *testing.T) {
	clip := adamw()
	clip.Clip = 1
	for _, c := range []shape{tiny, llama, {d: 64, layers: 3, heads: 4, kv: 4, ffn: 128, vocab: 512, batch: 2, seq: 128, standard: true, chunk: 128, dropout: 0.1},
		{d: 64, layers: 3, heads: 4, kv: 2, ffn: 96, vocab: 256, batch: 2, seq: 64, tied: true, experts: 4, topK: 2, chunk: 128}} {
		for _, o := range []TrainOptions{adamw(), clip} {
			fr := autoFrontier(t, c, o, cost.Laptop2())
			list := fr.points[0]
			r := rand.New(rand.NewPCG(1, 2))
			bad := 0
			for range min(60, len(list)) {
				i := r.IntN(len(list))
				d, nest := fr.decisions(i)
				fr.s.run(d, nest)
				if got := fr.s.peak(); got != list[i].peak {
					bad++
					t.Logf("%v clip %v plan %d/%d: composed peak %d, whole program %d", c, o.Clip, i, len(list), list[i].peak, got)
				}
				if d := fr.s.cost - list[i].cost; d > 1e-12 || d < -1e-12 {
					t.Errorf("%v: composed cost %v, whole program %v", c, list[i].cost, fr.s.cost)
				}
			}
			if bad > 0 {
				t.Errorf("%v clip %v: %d plans of %d not exact", c, o.Clip, bad, len(list))
			}
			t.Logf("%v clip %v: %d plans, peak %d..%d, cost %.2f%%..", c, o.Clip, len(list), list[0].peak, list[len(list)-1].peak, 100*list[0].cost/fr.s.cost)
		}
	}
}

func TestAutoIsMonotonicAndWithinTheLimit(t *testing.T) {
	for _, c := range []shape{llama, {d: 128, layers: 6, heads: 4, kv: 2, ffn: 384, vocab: 1024, batch: 4, seq: 256, standard: true, chunk: 512}} {
		g := c.step(t, adamw())
		none := mustStep(t, g, Options{}).Arena[mem.Device]
		fr := autoFrontier(t, c, adamw(), cost.Laptop2())
		if p, err := fr.choose(1); p != nil || err != nil {
			t.Fatalf("limit 1: got %v, %v", p, err)
		}
		least, err := fr.least()
		if err != nil {
			t.Fatal(err)
		}
		need := least.Arena[mem.Device]
		var peak int64
		seconds := 1e9
		for i := range 41 {
			limit := need + (none-need)*int64(i)/40
			p, err := fr.choose(limit)
			if err != nil {
				t.Fatal(err)
			}
			if p == nil && i == 0 {
				p = least // it packs no better
			}
			if err := Verify(p); err != nil {
				t.Fatal(err)
			}
			if !packsWell(p) && i > 0 {
				t.Errorf("%v limit %d: arena %d is more than 1.02 × the bound %d", c, limit, p.Arena[mem.Device], p.Bound[mem.Device])
			}
			if p.Arena[mem.Device] > limit || p.Arena[mem.Device] < peak || p.Seconds > seconds {
				t.Fatalf("%v limit %d: peak %d after %d, %.6f s after %.6f s", c, limit, p.Arena[mem.Device], peak, p.Seconds, seconds)
			}
			peak, seconds = p.Arena[mem.Device], p.Seconds
		}
		if peak != none {
			t.Errorf("%v: with all the room auto takes %d, none takes %d", c, peak, none)
		}
	}
}

func TestAuto70B(t *testing.T) {
	g := big70.step(t, adamw())
	m := cost.H100()
	full := mustStep(t, g, Options{Machine: m, Recompute: Recompute{Policy: Full}})
	none := mustStep(t, g, Options{Machine: m})
	start := time.Now()
	p := mustStep(t, g, Options{Machine: m, Recompute: Recompute{Policy: Auto}, Limit: (full.Arena[mem.Device] + none.Arena[mem.Device]) / 2})
	took := time.Since(start)
	t.Logf("70B: full %v none %v auto %v, %.2f%% again, planned in %v", mem.Bytes(full.Arena[mem.Device]), mem.Bytes(none.Arena[mem.Device]), mem.Bytes(p.Arena[mem.Device]), 100*p.Again/p.Seconds, took)
	if took > 15*time.Second {
		t.Errorf("planning took %v", took)
	}
}

func BenchmarkSearchMoE(b *testing.B) {
	o := adamw()
	o.Clip = 1
	c := shape{d: 128, layers: 4, heads: 4, kv: 2, ffn: 384, vocab: 1024, batch: 8, seq: 256, tied: true, chunk: 512, experts: 4, topK: 2}
	gs, _ := Train(c.forward("step"), o)
	for b.Loop() {
		x, err := NewSearch(gs[0], Options{Machine: cost.Laptop2()})
		if err != nil {
			b.Fatal(err)
		}
		p, err := x.Least()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := x.Under(p.Arena[mem.Device] * 5 / 4); err != nil {
			b.Fatal(err)
		}
	}
}

// Given the bytes that a policy saves, or the arena that it takes, auto keeps within them and is modelled no slower, by the roofline and by
// rates that make some operations dear.
func TestAutoIsNoSlowerThanAPolicy(t *testing.T) {
	rates := cost.Laptop2()
	rates.Rates = &cost.Rates{List: []cost.Rate{{Key: "attention/f32", Byte: 3e-8}, {Key: "rmsnorm/f32", Fixed: 1e-3}, {Key: "attention_probs/f32", Byte: 1e-9}}}
	for _, m := range []cost.Machine{cost.Laptop2(), rates} {
		for _, standard := range []bool{false, true} {
			c := llama
			c.standard = standard
			g := c.step(t, adamw())
			for _, r := range []Recompute{{}, {Policy: Full}, {Policy: Tags, Tags: []string{"attn.core"}}, {Policy: Tags, Tags: []string{"norm", "mlp.act"}}} {
				want := mustStep(t, g, Options{Machine: m, Recompute: r})
				for _, o := range []Options{{Saved: want.Saved}, {Limit: want.Arena[mem.Device]}} {
					o.Machine, o.Recompute = m, Recompute{Policy: Auto}
					p := mustStep(t, g, o)
					if o.Saved > 0 && p.Saved > o.Saved || o.Limit > 0 && p.Arena[mem.Device] > o.Limit || p.Seconds > want.Seconds*(1+1e-9) {
						t.Errorf("standard %v, recompute %v saves %d in %d and takes %v; auto %d in %d and %v", standard, r, want.Saved, want.Arena[mem.Device], want.Seconds,
							p.Saved, p.Arena[mem.Device], p.Seconds)
					}
				}
			}
		}
	}
	var over *OverLimitError
	if _, err := Step(llama.step(t, adamw()), Options{Machine: rates, Recompute: Recompute{Policy: Auto}, Saved: 1}); !errors.As(err, &over) || over.Need <= 1 {
		t.Errorf("1 byte of saved values: got %v", err)
	}
}

// Recomputing standard attention's core keeps what it hands on, so that its last product is not made again; a norm's result is dropped.
func TestTagsKeepASmallResult(t *testing.T) {
	c := llama
	c.standard = true
	p := mustStep(t, c.step(t, adamw()), Options{Recompute: Recompute{Policy: Tags, Tags: []string{"attn.core", "norm"}}})
	again := map[string]int{}
	for i := range p.Instrs {
		if p.Instrs[i].Again {
			again[p.Instrs[i].Op.Kind()]++
		}
	}
	if again["attention_probs"] != c.layers || again["mix"] != 0 || again["rmsnorm"] < 2*c.layers {
		t.Errorf("computed again: %v", again)
	}
}
