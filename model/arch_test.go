package model

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/compile"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/internal/golden"
	"loadline/tensor/kernel"
)

const archDir = "testdata/arch/"

// arches are the folders with an architecture that transformers made.
func arches(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(archDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// archCase is one of them.
type archCase struct {
	c               Config
	weights, want   *golden.Set
	tokens, targets []int32
	seqs, seq       int
}

func loadArch(t testing.TB, name string) archCase {
	t.Helper()
	dir := archDir + name + "/"
	c, err := ReadConfig(dir + "config.json")
	if err != nil {
		t.Fatal(err)
	}
	a := archCase{c: c, weights: golden.Load(t, dir+"model.safetensors"), want: golden.Load(t, dir+"expected.safetensors")}
	var shape []int
	a.tokens, shape = a.want.I32("tokens")
	a.targets, _ = a.want.I32("targets")
	a.seqs, a.seq = shape[0], shape[1]
	return a
}

// logitsAbs is the bound on |got−want| of logits in float32.
const logitsAbs = 2e-4

// Logits of serving passes are those of transformers, on both devices, and the same bits however sequences are cut.
func TestArchitecturesServe(t *testing.T) {
	for _, name := range arches(t) {
		t.Run(name, func(t *testing.T) {
			a := loadArch(t, name)
			want, _ := a.want.F32("logits")
			for _, dev := range []device.Device{ref.New(ref.F32), cpu.New(cpu.Options{Set: kernel.Best(), Threads: 2})} {
				got := a.serve(t, dev, a.seq)
				for _, chunk := range []int{1, 5} {
					if !slices.Equal(a.serve(t, dev, chunk), got) {
						t.Errorf("%s: other logits in chunks of %d tokens", dev.Name(), chunk)
					}
				}
				diff, at := golden.MaxDiff(got, want)
				if !(diff <= logitsAbs) {
					t.Errorf("%s: logit %d is off by %.3g, want at most %.1g", dev.Name(), at, diff, logitsAbs)
				}
				t.Logf("%s: largest difference %.2g of logits up to %.3g", dev.Name(), diff, golden.MaxAbs(want))
			}
		})
	}
}

// serve is the logits of all tokens, of every sequence chunk tokens in a pass.
func (a archCase) serve(t *testing.T, dev device.Device, chunk int) []float32 {
	o := a.pass()
	g, err := PassGraph(a.c, o)
	if err != nil {
		t.Fatal(err)
	}
	r := openOn(t, dev, g)
	r.load(a.c, a.weights)
	return a.logits(r, o, chunk)
}

// pass is a pass that all tokens fit in.
func (a archCase) pass() PassOptions {
	o := PassOptions{Name: "pass", MaxRows: a.seqs * a.seq, MaxOuts: a.seqs * a.seq, MaxSeqs: a.seqs, BlockSize: 4, Context: a.seq}
	o.Blocks = a.seqs * o.TableWidth()
	return o
}

// logits runs a pass until all tokens are through.
func (a archCase) logits(r *runner, o PassOptions, chunk int) []float32 {
	table := make([]int32, a.seqs*o.TableWidth())
	for i := range table {
		table[i] = int32(len(table) - 1 - i)
	}
	r.ints(TableInput, table...)
	out := make([]float32, len(a.tokens)*a.c.VocabSize)
	for from := 0; from < a.seq; from += chunk {
		var ids, positions, sequences, slots, rows []int32
		for s := range a.seqs {
			for p := from; p < min(from+chunk, a.seq); p++ {
				ids = append(ids, a.tokens[s*a.seq+p])
				positions, sequences = append(positions, int32(p)), append(sequences, int32(s))
				slots = append(slots, table[s*o.TableWidth()+p/4]*4+int32(p%4))
				rows = append(rows, int32(len(rows)))
			}
		}
		r.ints(TokensInput, ids...)
		r.ints(PositionsInput, positions...)
		r.ints(SequencesInput, sequences...)
		r.ints(SlotsInput, slots...)
		r.ints(RowsInput, rows...)
		r.run("pass", device.Args{Rows: len(ids), Outs: len(rows)})
		got := r.read(LogitsOutput, len(rows)*a.c.VocabSize)
		for i, p := range positions {
			at := int(sequences[i])*a.seq + int(p)
			copy(out[at*a.c.VocabSize:(at+1)*a.c.VocabSize], got[i*a.c.VocabSize:])
		}
	}
	return out
}

// Loss and every gradient are those of PyTorch, with attention fused and with scores as values, on both devices.
func TestArchitecturesTrain(t *testing.T) {
	for _, name := range arches(t) {
		t.Run(name, func(t *testing.T) {
			a := loadArch(t, name)
			for _, o := range []TrainOptions{{Name: "flash"}, {Name: "standard", Standard: true}, {Name: "fused"}} {
				for _, dev := range []device.Device{ref.New(ref.F32), cpu.New(cpu.Options{Set: kernel.Best(), Threads: 2})} {
					a.train(t, dev, o)
				}
			}
		})
	}
}

func (a archCase) train(t *testing.T, dev device.Device, o TrainOptions) {
	o.Batch, o.Seq = a.seqs, a.seq
	g, err := TrainGraph(a.c, o)
	if err != nil {
		t.Fatal(err)
	}
	if o.Name == "fused" {
		g = compile.Fuse(g, compile.FuseOptions{Chunk: 128})
		if slices.ContainsFunc(g.Ops, func(n graph.Node) bool { return n.Op.Kind() == "crossentropy" }) {
			t.Error("the loss head is not fused")
		}
	}
	b := graph.Edit(g)
	grads := b.Differentiate(nil, nil)
	for _, p := range a.c.Parameters() {
		d := grads[g.Find(p.Name)]
		if d == graph.None {
			t.Fatalf("%s: no gradient", p.Name)
		}
		b.Output("grad."+p.Name, d)
	}
	r := openOn(t, dev, g)
	r.load(a.c, a.weights)
	r.static(o)
	r.ints(TokensInput, a.tokens...)
	r.ints(TargetsInput, a.targets...)
	r.run(o.Name, device.Args{})
	what := dev.Name() + " " + o.Name + ": "
	loss, _ := a.want.F32("loss")
	worst := golden.Close(t, what+"loss", r.read("loss", 1), loss, peerRel)
	got := map[string][]float32{}
	for _, p := range a.c.Parameters() {
		move(p, 0, r.read("grad."+p.Name, p.Elems()), func(name string, shape []int) []float32 {
			if got[name] == nil {
				got[name] = make([]float32, elems(shape))
			}
			return got[name]
		}, func(v, f *float32) { *f = *v })
	}
	count := 0
	for _, name := range a.want.Names() {
		published, ok := strings.CutPrefix(name, "grad.")
		if !ok {
			continue
		}
		count++
		w, _ := a.want.F32(name)
		worst = max(worst, golden.Close(t, what+name, got[published], w, peerRel))
	}
	if len(got) != count {
		t.Errorf("%s: got %d published gradients, want %d", what, len(got), count)
	}
	t.Logf("%s worst of %d tensors: %.2g of its largest value", what, count+1, worst)
}

// What a configuration asks for survives being written, and is written as published files have it.
func TestArchitecturesWriteConfigs(t *testing.T) {
	for _, name := range arches(t) {
		c := loadArch(t, name).c
		path := filepath.Join(t.TempDir(), "config.json")
		if err := WriteConfig(path, c); err != nil {
			t.Fatal(err)
		}
		again, err := ReadConfig(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sameConfig(t, name, c, again)
		checkParams(t, name, c)
		weights := golden.Load(t, archDir+name+"/model.safetensors")
		var listed []string
		for _, p := range c.Parameters() {
			for _, x := range p.Pieces {
				listed = append(listed, x.Name)
			}
		}
		slices.Sort(listed)
		if want := slices.Sorted(slices.Values(weights.Names())); !slices.Equal(slices.Compact(listed), want) {
			t.Errorf("%s: got weights %v, want %v", name, listed, want)
		}
	}
}
