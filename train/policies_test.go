package train

import (
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/mem"
	"loadline/model"
)

// At the shape at which recompute is measured (d 1024, 4 layers, 16 heads, ffn 2816, vocabulary 8192, one sequence of 2048), policies leave out the bytes
// of saved activations that they are for, and auto, given the saved bytes of any of them or its peak, keeps within and is modelled no slower,
// by the roofline and by rates that make some operations dear.
func TestAutoIsNoSlowerThanMeasuredPolicies(t *testing.T) {
	c, d, err := model.Preset("bench-recompute")
	if err != nil {
		t.Fatal(err)
	}
	if c.HiddenSize != 1024 || c.NumLayers != 4 || c.NumHeads != 16 || c.IntermediateSize != 2816 || c.VocabSize != 8192 || d.Batch != 1 || d.Seq != 2048 {
		t.Fatalf("bench-recompute is %+v, %+v", c, d)
	}
	rates := cost.Laptop2()
	rates.Rates = &cost.Rates{List: []cost.Rate{{Key: "attention/f32", Byte: 3e-8}, {Key: "rmsnorm/f32", Fixed: 1e-3}, {Key: "softmax/f32", Byte: 1e-9}}}
	// The share of saved bytes that a policy leaves out at least, by attention; 0 where none is asked for.
	policies := []struct {
		name            string
		standard, flash float64
	}{{"none", 0, 0}, {"full", 0.6, 0.6}, {"attn.core", 0.3, 0}, {"norm,mlp.act", 0, 0.25}}
	machines := []cost.Machine{cost.Laptop2(), rates}
	if testing.Short() {
		machines = machines[:1]
	}
	for _, machine := range machines {
		for _, attention := range []string{"standard", "flash"} {
			o := Defaults(c)
			o.Batch, o.Seq, o.Attention, o.Machine = d.Batch, d.Seq, attention, machine
			var all mem.Bytes // what is saved without recomputing
			for _, p := range policies {
				o := o
				if o.Recompute, err = compile.ParseRecompute(p.name); err != nil {
					t.Fatal(err)
				}
				want := planned(t, o, setup{})
				if p.name == "none" {
					all = want.SavedActivationBytes()
				}
				less := p.standard
				if attention == "flash" {
					less = p.flash
				}
				if got := 1 - float64(want.SavedActivationBytes())/float64(all); got < less {
					t.Errorf("%s attention, %s: saves %v, %.3f less than none's %v; want %v", attention, p.name, want.SavedActivationBytes(), got, all, less)
				}
				o.Recompute = compile.Recompute{Policy: compile.Auto}
				saved, peak := o, o
				saved.SavedActivations, peak.Memory = want.SavedActivationBytes(), want.Promise.Memory()
				for _, o := range []Options{saved, peak} {
					got := planned(t, o, setup{})
					if o.Memory > 0 && got.Promise.Memory() > o.Memory || o.SavedActivations > 0 && got.SavedActivationBytes() > o.SavedActivations {
						t.Errorf("%s attention, bytes of %s: auto saves %v and peaks at %v, given %v or %v", attention, p.name, got.SavedActivationBytes(), got.Promise.Memory(),
							o.SavedActivations, o.Memory)
					}
					if got.Seconds() > want.Seconds()*(1+1e-9) {
						t.Errorf("%s attention, bytes of %s (saved %v, peak %v): auto is modelled at %.6f s, the policy at %.6f s", attention, p.name, o.SavedActivations, o.Memory,
							got.Seconds(), want.Seconds())
					}
				}
			}
		}
	}
}
