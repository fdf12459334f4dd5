package compile

import (
	"testing"

	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// Autocast halves what it should and nothing else, in every kind of step; the programs verify.
func TestAutocastHalvesActivationsAndWeights(t *testing.T) {
	for _, c := range []shape{llama, {d: 128, layers: 3, heads: 4, kv: 2, ffn: 96, vocab: 256, batch: 2, seq: 64, standard: true, experts: 4, topK: 2, dropout: 0.1, chunk: 128}, {d: 64, layers: 2, heads: 4, kv: 2, ffn: 160, vocab: 256, batch: 2, seq: 64}} {
		for _, to := range []dtype.Type{dtype.BF16, dtype.F16} {
			wide := mustStep(t, c.step(t, adamw()), Options{})
			g, err := Autocast(c.forward("step"), AutocastOptions{to})
			if err != nil {
				t.Fatal(err)
			}
			gs, err := Train(g, adamw())
			if err != nil {
				t.Fatal(err)
			}
			p := mustStep(t, gs[0], Options{})
			if p.Saved*100 > wide.Saved*62 {
				t.Errorf("%v %v: %d bytes saved for the backward half, f32 %d", c, to, p.Saved, wide.Saved)
			}
			var by, wideBy [mem.NumPurposes]int64
			for i := range p.Buffers {
				if b := &p.Buffers[i]; b.Kind == graph.State {
					by[b.Purpose] += b.Bytes
				}
			}
			for i := range wide.Buffers {
				if b := &wide.Buffers[i]; b.Kind == graph.State {
					wideBy[b.Purpose] += b.Bytes
				}
			}
			if by[mem.OptimState] != wideBy[mem.OptimState] || by[mem.Weights]*100 > wideBy[mem.Weights]*51 || by[mem.MasterWeights]*100 < wideBy[mem.Weights]*99 {
				t.Errorf("%v %v: weights %d of %d, masters %d, moments %d of %d", c, to, by[mem.Weights], wideBy[mem.Weights], by[mem.MasterWeights], by[mem.OptimState], wideBy[mem.OptimState])
			}
		}
	}
	if _, err := Autocast(tiny.forward("x"), AutocastOptions{dtype.I8}); err == nil {
		t.Error("autocast to i8 is accepted")
	}
}

// What a router decides by is f32, weight, input and logits, with no master and no copy of the input kept for the backward half.
func TestAutocastKeepsRoutersWide(t *testing.T) {
	c := shape{d: 128, layers: 2, heads: 4, kv: 2, ffn: 96, vocab: 256, batch: 2, seq: 64, experts: 4, topK: 2, chunk: 128}
	g, err := Autocast(c.forward("step"), AutocastOptions{dtype.BF16})
	if err != nil {
		t.Fatal(err)
	}
	gs, err := Train(g, adamw())
	if err != nil {
		t.Fatal(err)
	}
	g = gs[0]
	found := 0
	for i := range g.Ops {
		if _, ok := g.Ops[i].Op.(graph.Router); !ok {
			continue
		}
		found++
		mm := g.Ops[g.Info(g.Ops[i].In[0]).Def]
		for _, v := range append(mm.In, mm.Out...) {
			if x := g.Info(v); x.Type.DType != dtype.F32 {
				t.Errorf("%q of a router is %v", x.Name, x.Type)
			}
		}
		if w := g.Info(mm.In[1]); g.Find("master."+w.Name) != graph.None {
			t.Errorf("%q has a master", w.Name)
		}
		readers := 0
		for k := range g.Ops {
			for _, v := range g.Ops[k].In {
				if v == mm.In[0] {
					readers++
				}
			}
		}
		if readers != 1 {
			t.Errorf("the router's input is read %d times, want once", readers)
		}
	}
	if found != c.layers {
		t.Errorf("got %d routers, want %d", found, c.layers)
	}
}

// Every optimizer has a master of every narrow weight, or none of any; without masters only bf16 trains.
func TestMasters(t *testing.T) {
	for _, o := range []Optimizer{AdamW, SGD, Lion, Adafactor} {
		for _, none := range []bool{false, true} {
			for _, to := range []dtype.Type{dtype.BF16, dtype.F16} {
				g, err := Autocast(tiny.forward("step"), AutocastOptions{to})
				if err != nil {
					t.Fatal(err)
				}
				gs, err := Train(g, TrainOptions{Optimizer: o, Momentum: 0.9, NoMaster: none})
				if refused := err != nil; refused != (none && to == dtype.F16) {
					t.Errorf("%v in %v, no masters %v: got %v", o, to, none, err)
				}
				if err != nil {
					continue
				}
				weights, masters := 0, 0
				for _, v := range gs[0].States() {
					switch x := gs[0].Info(v); {
					case x.Purpose == mem.Weights && x.Type.DType == to:
						weights++
					case x.Purpose == mem.MasterWeights && x.Type.DType == dtype.F32:
						masters++
					}
				}
				if want := weights; weights == 0 || none && masters != 0 || !none && masters != want {
					t.Errorf("%v in %v, no masters %v: %d narrow weights, %d masters", o, to, none, weights, masters)
				}
			}
		}
	}
}
