package compile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/cost"
	"loadline/graph"
	"loadline/internal/script"
	"loadline/mem"
)

// The text of the programs of a two-layer decoder, as a person reads it; docs/program.md explains the first.
func TestProgramTexts(t *testing.T) {
	doc := shape{d: 64, layers: 2, heads: 4, kv: 2, ffn: 160, vocab: 256, batch: 2, seq: 64, tied: true, chunk: 128}
	clip := adamw()
	clip.Clip = 1
	micro := clip
	micro.Accumulate = 2
	for _, c := range []struct {
		name  string
		train TrainOptions
		zero  ZeroOptions
		opt   Options
	}{
		{"none", adamw(), ZeroOptions{0, 1}, Options{}},
		{"full", adamw(), ZeroOptions{0, 1}, Options{Recompute: Recompute{Policy: Full}}},
		{"tags", clip, ZeroOptions{0, 1}, Options{Recompute: Recompute{Policy: Tags, Tags: []string{"norm", "mlp.act"}}}},
		{"auto", adamw(), ZeroOptions{0, 1}, Options{Recompute: Recompute{Policy: Auto}, Limit: 700_000}},
		{"offload", adamw(), ZeroOptions{0, 1}, Options{Offload: OffloadOptions{true, mem.Disk}}},
		{"zero1", clip, ZeroOptions{1, 2}, Options{}},
		{"zero2", clip, ZeroOptions{2, 2}, Options{}},
		{"zero3", clip, ZeroOptions{3, 2}, Options{Recompute: Recompute{Policy: Full}}},
		{"accumulate", micro, ZeroOptions{2, 2}, Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gs, err := Train(doc.forward("step"), c.train)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, g := range gs {
				g, err := Zero(g, c.zero)
				if err != nil {
					t.Fatal(err)
				}
				text.WriteString(mustStep(t, g, c.opt).Text())
			}
			golden(t, filepath.Join("testdata", c.name+".txt"), text.String())
		})
	}
}

// golden compares with a file, or rewrites it under -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if script.Update() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("%s changed (rewrite with -update and read the difference):\n%s", path, d)
	}
}

// Given the bytes of any fixed policy, auto is modelled no slower.
func TestAutoIsNoSlowerThanPolicies(t *testing.T) {
	for _, c := range []shape{llama, {d: 128, layers: 4, heads: 4, kv: 2, ffn: 384, vocab: 1024, batch: 2, seq: 256, standard: true, chunk: 512}} {
		g := c.step(t, adamw())
		for _, r := range []Recompute{{}, {Policy: Full}, {Policy: Tags, Tags: []string{"attn.core"}}, {Policy: Tags, Tags: []string{"norm", "mlp.act"}}} {
			p := mustStep(t, g, Options{Recompute: r})
			a := mustStep(t, g, Options{Recompute: Recompute{Policy: Auto}, Limit: p.Arena[mem.Device]})
			if a.Seconds > p.Seconds*(1+1e-9) {
				t.Errorf("%v %v: auto %.6f s, policy %.6f s at %d bytes", c, r, a.Seconds, p.Seconds, p.Arena[mem.Device])
			}
		}
	}
}

// Each stage holds what its definition says, and updates stand inside the backward half only without clipping.
func TestZeroShardsStates(t *testing.T) {
	for stage := range 4 {
		o := adamw()
		o.Clip = 1
		g, err := Zero(tiny.step(t, o), ZeroOptions{stage, 4})
		if err != nil {
			t.Fatal(err)
		}
		p := mustStep(t, g, Options{})
		var by [mem.NumPurposes]int64
		for i := range p.Buffers {
			if b := &p.Buffers[i]; b.Kind == graph.State {
				by[b.Purpose] += b.Bytes
			}
		}
		whole := int64(0) // weights, unsharded; moments are twice that
		for _, v := range tiny.forward("x").States() {
			whole += 4 * tiny.forward("x").Values[v].Type.Shape.Elems(graph.Bounds{})
		}
		if got, sharded := by[mem.OptimState], stage >= 1; sharded == (2*got > 3*whole) {
			t.Errorf("stage %d: moments take %d, weights %d", stage, got, whole)
		}
		if got, sharded := by[mem.Weights], stage >= 3; sharded == (got >= whole) {
			t.Errorf("stage %d: weights take %d of %d", stage, got, whole)
		}
	}
}

func TestUpdateInBackwardFreesGradients(t *testing.T) {
	clip := adamw()
	clip.Clip = 1
	with := mustStep(t, llama.step(t, clip), Options{Recompute: Recompute{Policy: Full}})
	without := mustStep(t, llama.step(t, adamw()), Options{Recompute: Recompute{Policy: Full}})
	if without.Arena[mem.Device] >= with.Arena[mem.Device] {
		t.Errorf("arena %d with updates in the backward half, %d with clipping", without.Arena[mem.Device], with.Arena[mem.Device])
	}
	for i := range without.Instrs {
		if without.Instrs[i].Phase == graph.Update {
			t.Errorf("instruction %d %s is left for the update phase", i, without.Instrs[i].Op.Kind())
		}
	}
}

func TestOffloadHidesBehindCompute(t *testing.T) {
	g := llama.step(t, adamw())
	none := mustStep(t, g, Options{})
	slow := cost.Laptop2()
	slow.Link[mem.Disk] = 1e6
	for _, m := range []cost.Machine{cost.Laptop2(), slow} {
		p := mustStep(t, g, Options{Machine: m, Offload: OffloadOptions{true, mem.Disk}})
		if p.Arena[mem.Disk] == 0 || p.Arena[mem.Device] > none.Arena[mem.Device] {
			t.Errorf("offloading leaves %d on the device (%d without) and %d on disk", p.Arena[mem.Device], none.Arena[mem.Device], p.Arena[mem.Disk])
		}
		if p.Seconds < none.Seconds {
			t.Errorf("modelled time fell from %v to %v", none.Seconds, p.Seconds)
		}
	}
}

func TestWrongOptionsAreErrors(t *testing.T) {
	g := tiny.step(t, adamw())
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Recompute: Recompute{Policy: Auto}}, "needs a limit"},
		{Options{Recompute: Recompute{Policy: Tags, Tags: []string{"atn"}}}, `tag "atn" names no part`},
		{Options{Offload: OffloadOptions{true, mem.Remote}}, "no link"},
		{Options{Limit: 1000}, "the limit leaves"},
	} {
		_, err := Step(g, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.o, err, c.want)
		}
	}
	for _, z := range []ZeroOptions{{1, 1}, {4, 2}, {0, 0}} {
		if _, err := Zero(g, z); err == nil {
			t.Errorf("zero %+v is accepted", z)
		}
	}
	for _, s := range []string{"none,attn", ",", "full,", " "} {
		if r, err := ParseRecompute(s); err == nil {
			t.Errorf("recompute %q is read as %v", s, r)
		}
	}
}

// Generated combinations all verify: no overlap, no old version read, every copy waited for.
func TestCombinationsVerify(t *testing.T) {
	n := 0
	for _, standard := range []bool{false, true} {
		for _, experts := range []int{0, 4} {
			for _, tied := range []bool{false, true} {
				c := shape{d: 64, layers: 3, heads: 4, kv: 2, ffn: 96, vocab: 256, batch: 2, seq: 64, chunk: 128, standard: standard, experts: experts, topK: 2, tied: tied, dropout: 0.1}
				for _, acc := range []int{1, 2} {
					for stage := range 4 {
						for _, off := range []bool{false, true} {
							o := adamw()
							o.Clip, o.Accumulate = float32(n%2), acc
							gs, err := Train(c.forward("step"), o)
							if err != nil {
								t.Fatal(err)
							}
							for _, g := range gs {
								g, err := Zero(g, ZeroOptions{stage, 2})
								if err != nil {
									t.Fatal(err)
								}
								r := []Recompute{{}, {Policy: Full}, {Policy: Tags, Tags: []string{"norm"}}}[n%3]
								if !strings.HasSuffix(g.Name, "update") {
									mustStep(t, g, Options{Recompute: r, Offload: OffloadOptions{off, mem.Disk}})
								}
							}
							n++
						}
					}
				}
			}
		}
	}
	t.Log(fmt.Sprint(n, " combinations"))
}
