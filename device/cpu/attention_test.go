package cpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// bench is one program over Inputs, opened on a device.
type bench struct {
	t       testing.TB
	s       device.Session
	program string
}

func newBench(t testing.TB, d device.Device, bounds graph.Bounds, build func(b *graph.Builder)) *bench {
	t.Helper()
	b := graph.NewBuilder("test", bounds)
	build(b)
	p, err := compile.Step(b.G, compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	j, err := compile.NewJob(mem.Usage{}, p)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(j, device.Env{Ledger: mem.NewLedger(mem.Limits{}), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{t, s, "test"}
}

func (b *bench) write(name string, p []byte) {
	b.t.Helper()
	if err := b.s.Write(name, 0, p); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) run(rows int) {
	b.t.Helper()
	if err := b.s.Run(b.program, device.Args{Rows: rows}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(name string, n int) []byte {
	b.t.Helper()
	p := make([]byte, n)
	if err := b.s.Read(name, 0, p); err != nil {
		b.t.Fatal(err)
	}
	return p
}

func normal(rng *rand.Rand, n int) []byte {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return floats(x...)
}

// worst is the largest difference between float32s, relative to the largest of want.
func worst(got, want []byte) float64 {
	var d, top float64
	for i := 0; i < len(want); i += 4 {
		g := float64(math.Float32frombits(binary.LittleEndian.Uint32(got[i:])))
		w := float64(math.Float32frombits(binary.LittleEndian.Uint32(want[i:])))
		top = max(top, math.Abs(w))
		d = max(d, math.Abs(g-w))
	}
	return d / top
}

// pages is two sequences of 300 and 150 positions over shuffled blocks, one row a position.
type pages struct {
	spec           graph.AttentionSpec
	slots          int
	table, seq, at []int32
}

func newPages(block, window int, rng *rand.Rand) pages {
	p := pages{spec: graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 20, Block: block, Context: 304, Window: window}}
	per := (304 + block - 1) / block
	p.slots = 2 * per * block
	for _, i := range rng.Perm(2 * per) {
		p.table = append(p.table, int32(i))
	}
	for q, n := range []int{300, 150} {
		for i := range n {
			p.seq, p.at = append(p.seq, int32(q)), append(p.at, int32(i))
		}
	}
	return p
}

func (p pages) paging(b *graph.Builder) graph.Paging {
	return graph.Paging{Table: b.Input("table", graph.I(graph.D(2), graph.D(len(p.table)/2))), Seq: b.Input("seq", graph.I(graph.R(1))), Pos: b.Input("pos", graph.I(graph.R(1)))}
}

// TestAttentionOverManyBlocks compares with float64 where a row sees several key blocks, in flash and standard form, some under a
// softcap and with sinks.
func TestAttentionOverManyBlocks(t *testing.T) {
	for _, c := range []struct {
		block, window, headDim int
		softcap                float64
	}{{16, 0, 20, 0}, {304, 0, 64, 0}, {16, 100, 64, 0}, {304, 37, 20, 0}, {304, 300, 20, 0}, {304, 0, 20, 1.5}, {16, 100, 64, 2}, {304, 37, 20, 1}} {
		rng := rand.New(rand.NewPCG(1, uint64(c.block)))
		p := newPages(c.block, c.window, rng)
		p.spec.HeadDim, p.spec.Softcap = c.headDim, c.softcap
		n := len(p.seq)
		w, kw := p.spec.Heads*p.spec.HeadDim, p.spec.KVHeads*p.spec.HeadDim
		build := func(b *graph.Builder) {
			pg := p.paging(b)
			f := func(name string, rows graph.Dim, w int) graph.Value { return b.Input(name, graph.F(rows, graph.D(w))) }
			q, k, v, do := f("q", graph.R(1), w), f("k", graph.D(p.slots), kw), f("v", graph.D(p.slots), kw), f("do", graph.R(1), w)
			in, soft := []graph.Value{q, k, v, pg.Table, pg.Seq, pg.Pos}, []graph.Value{graph.None}
			if c.softcap > 0 {
				sinks := b.Input("sinks", graph.F(graph.D(4)))
				in, soft = append(in, sinks), append(soft, sinks)
			}
			o := b.Apply(graph.Attention{AttentionSpec: p.spec}, in...)
			g := b.Apply(graph.AttentionGrad{AttentionSpec: p.spec}, do, q, k, v, o[0], o[1], pg.Table, pg.Seq, pg.Pos)
			sc := b.Apply(graph.Scores{AttentionSpec: p.spec}, q, k, pg.Table, pg.Seq, pg.Pos)[0]
			if c.softcap > 0 {
				sc = b.SoftCap(sc, c.softcap)
			}
			soft[0] = sc
			pr := b.Apply(graph.Softmax{}, soft...)[0]
			mix := b.Apply(graph.Mix{AttentionSpec: p.spec}, pr, v, pg.Table, pg.Seq, pg.Pos)[0]
			dp := b.Apply(graph.MixDP{AttentionSpec: p.spec}, do, v, pg.Table, pg.Seq, pg.Pos)[0]
			dv := b.Apply(graph.MixDV{AttentionSpec: p.spec, Slots: graph.D(p.slots)}, do, pr, pg.Table, pg.Seq, pg.Pos)[0]
			ds := b.Apply(graph.SoftmaxGrad{}, dp, pr)[0]
			if c.softcap > 0 {
				ds = b.Apply(graph.SoftCapGrad{Cap: c.softcap}, ds, sc)[0]
			}
			dq := b.Apply(graph.ScoresDQ{AttentionSpec: p.spec}, ds, k, pg.Table, pg.Seq, pg.Pos)[0]
			dk := b.Apply(graph.ScoresDK{AttentionSpec: p.spec, Slots: graph.D(p.slots)}, ds, q, pg.Table, pg.Seq, pg.Pos)[0]
			all := []graph.Value{o[0], o[1], g[0], g[1], g[2], mix, dq, dk, dv}
			if c.softcap == 0 {
				all = append(all, b.StandardAttention(q, k, v, pg, p.spec))
			}
			for i, v := range all {
				b.Output(fmt.Sprint("out", i), v)
			}
		}
		lens := []int{n * w, n * 4, n * w, p.slots * kw, p.slots * kw, n * w, n * w, p.slots * kw, p.slots * kw}
		if c.softcap == 0 {
			lens = append(lens, n*w)
		}
		data := map[string][]byte{"table": ints(p.table...), "seq": ints(p.seq...), "pos": ints(p.at...)}
		if c.softcap > 0 {
			data["sinks"] = floats(0.5, -30, 2, 6)
		}
		for _, name := range []string{"q", "k", "v", "do"} {
			size := n * w
			if name == "k" || name == "v" {
				size = p.slots * kw
			}
			data[name] = normal(rng, size)
		}
		results := func(d device.Device) (out [][]byte) {
			b := newBench(t, d, graph.Bounds{Rows: n}, build)
			for name, p := range data {
				b.write(name, p)
			}
			b.run(n)
			for i, l := range lens {
				out = append(out, b.read(fmt.Sprint("out", i), 4*l))
			}
			return out
		}
		want := results(ref.New(ref.F64))
		var before map[string][][]byte
		for name, d := range devices() {
			got := results(d)
			for i := range want {
				if e := worst(got[i], want[i]); !(e < 3e-6) { // sums of 300 products, each rounded to 2⁻²⁴
					t.Errorf("%+v on %s: output %d is off by %g of its largest", c, name, i, e)
				}
			}
			set := strings.Split(name, "/")[0]
			if before == nil {
				before = map[string][][]byte{}
			}
			for i := range before[set] {
				if !bytes.Equal(before[set][i], got[i]) {
					t.Errorf("%+v on %s: output %d has other bits than with other threads", c, name, i)
				}
			}
			before[set] = got
		}
	}
}

// TestProbsOfALongContext compares with float64 where not all keys of a tile stay packed: rows see more than 4096 positions, or the last 4200 of them.
func TestProbsOfALongContext(t *testing.T) {
	const first, n = 4400, 150
	for _, window := range []int{0, 4200, 300} {
		rng := rand.New(rand.NewPCG(3, uint64(window)))
		s := graph.AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: 8, Block: first + n, Context: first + n, Window: window}
		build := func(b *graph.Builder) {
			pg := graph.Paging{Table: b.Input("table", graph.I(graph.D(1), graph.D(1))), Seq: b.Input("seq", graph.I(graph.R(1))), Pos: b.Input("pos", graph.I(graph.R(1)))}
			q, k := b.Input("q", graph.F(graph.R(1), graph.D(16))), b.Input("k", graph.F(graph.D(s.Context), graph.D(8)))
			b.Output("out", b.Apply(graph.AttentionProbs{AttentionSpec: s}, q, k, pg.Table, pg.Seq, pg.Pos)[0])
		}
		var pos []int32
		for i := range n {
			pos = append(pos, int32(first+i))
		}
		data := map[string][]byte{"table": ints(0), "seq": ints(make([]int32, n)...), "pos": ints(pos...), "q": normal(rng, n*16), "k": normal(rng, s.Context*8)}
		results := func(d device.Device) []byte {
			b := newBench(t, d, graph.Bounds{Rows: n}, build)
			for name, p := range data {
				b.write(name, p)
			}
			b.run(n)
			return b.read("out", 4*n*2*s.Context)
		}
		want := results(ref.New(ref.F64))
		for name, d := range devices() {
			if e := worst(results(d), want); !(e < 3e-6) { // sums of 4550 exponentials, in doubles
				t.Errorf("window %d on %s: off by %g of the largest", window, name, e)
			}
		}
	}
}

// TestAttentionInBF16 compares with float64 over the same bf16 operands: where probabilities are rounded too, results differ
// by some 2⁻⁹ of the largest, and by one more for their own rounding; sums of many roundings by less than 8 in all.
func TestAttentionInBF16(t *testing.T) {
	for _, c := range []struct {
		block, window, headDim int
		softcap                float64
	}{{16, 0, 64, 0}, {304, 0, 20, 0}, {16, 100, 96, 0}, {304, 37, 64, 0}, {304, 0, 64, 1.5}, {16, 100, 96, 2}, {304, 50, 5, 0}, {16, 0, 40, 0}, {5, 150, 128, 0}} {
		rng := rand.New(rand.NewPCG(5, uint64(c.headDim)))
		p := newPages(c.block, c.window, rng)
		p.spec.HeadDim, p.spec.Softcap = c.headDim, c.softcap
		n := len(p.seq)
		w, kw := p.spec.Heads*p.spec.HeadDim, p.spec.KVHeads*p.spec.HeadDim
		build := func(b *graph.Builder) {
			pg := p.paging(b)
			f := func(name string, rows graph.Dim, w int) graph.Value {
				return b.Input(name, graph.Type{DType: dtype.BF16, Shape: graph.S(rows, graph.D(w))})
			}
			q, k, v, do := f("q", graph.R(1), w), f("k", graph.D(p.slots), kw), f("v", graph.D(p.slots), kw), f("do", graph.R(1), w)
			o := b.Apply(graph.Attention{AttentionSpec: p.spec}, q, k, v, pg.Table, pg.Seq, pg.Pos)
			g := b.Apply(graph.AttentionGrad{AttentionSpec: p.spec}, do, q, k, v, o[0], o[1], pg.Table, pg.Seq, pg.Pos)
			for i, v := range []graph.Value{o[0], g[0], g[1], g[2]} {
				b.Output(fmt.Sprint("out", i), b.Cast(v, dtype.F32))
			}
		}
		data := map[string][]byte{"table": ints(p.table...), "seq": ints(p.seq...), "pos": ints(p.at...)}
		for _, name := range []string{"q", "k", "v", "do"} {
			size := n * w
			if name == "k" || name == "v" {
				size = p.slots * kw
			}
			for range size {
				data[name] = binary.LittleEndian.AppendUint16(data[name], dtype.ToBF16(float32(rng.NormFloat64())))
			}
		}
		lens := []int{n * w, n * w, p.slots * kw, p.slots * kw}
		results := func(d device.Device) (out [][]byte) {
			b := newBench(t, d, graph.Bounds{Rows: n}, build)
			for name, p := range data {
				b.write(name, p)
			}
			b.run(n)
			for i, l := range lens {
				out = append(out, b.read(fmt.Sprint("out", i), 4*l))
			}
			return out
		}
		want := results(ref.New(ref.F64))
		before := map[string][][]byte{}
		for name, d := range devices() {
			got := results(d)
			for i := range want {
				if e := worst(got[i], want[i]); !(e < 8*0x1p-9) {
					t.Errorf("%+v on %s: output %d is off by %g of its largest", c, name, i, e)
				}
			}
			set := strings.Split(name, "/")[0]
			for i := range before[set] {
				if !bytes.Equal(before[set][i], got[i]) {
					t.Errorf("%+v on %s: output %d has other bits than with other threads", c, name, i)
				}
			}
			before[set] = got
		}
	}
}

// windowed is a set of kernels, and a window.
type windowed struct {
	set    kernel.Set
	window int
}

func windows() (all []windowed) {
	for _, set := range kernel.Sets() {
		all = append(all, windowed{set, 0}, windowed{set, 90})
	}
	return all
}

// TestPackedDocuments: documents that lie one after the other in a row of a batch, and begin anywhere in it, have the bits of
// each alone, forward and backward.
func TestPackedDocuments(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	lens := []int{70, 1, 200, 130}
	const n, longest, heads, hd = 401, 200, 2, 32
	data := map[string][]byte{}
	for _, name := range []string{"q", "k", "v", "do"} {
		data[name] = normal(rng, n*heads*hd)
	}
	open := func(set kernel.Set, window, rows, seqs, block int) *bench {
		spec := graph.AttentionSpec{Heads: heads, KVHeads: heads, HeadDim: hd, Block: block, Context: longest, Window: window}
		return newBench(t, cpu.New(cpu.Options{Threads: 2, Set: set}), graph.Bounds{Rows: rows}, func(b *graph.Builder) {
			pg := graph.Paging{Table: b.Input("table", graph.I(graph.D(seqs), graph.D((longest+block-1)/block))), Seq: b.Input("seq", graph.I(graph.R(1))), Pos: b.Input("pos", graph.I(graph.R(1)))}
			f := func(name string) graph.Value { return b.Input(name, graph.F(graph.R(1), graph.D(heads*hd))) }
			q, k, v := f("q"), f("k"), f("v")
			o := b.Apply(graph.Attention{AttentionSpec: spec}, q, k, v, pg.Table, pg.Seq, pg.Pos)
			g := b.Apply(graph.AttentionGrad{AttentionSpec: spec}, f("do"), q, k, v, o[0], o[1], pg.Table, pg.Seq, pg.Pos)
			for i, v := range []graph.Value{o[0], g[0], g[1], g[2]} {
				b.Output(fmt.Sprint("out", i), v)
			}
		})
	}
	for _, c := range windows() {
		packed := open(c.set, c.window, n, len(lens), 1)
		var table, seq, pos []int32
		first := 0
		for i, l := range lens {
			for p := range longest {
				table = append(table, int32(min(first+p, n-1)))
			}
			for p := range l {
				seq, pos = append(seq, int32(i)), append(pos, int32(p))
			}
			first += l
		}
		packed.write("table", ints(table...))
		packed.write("seq", ints(seq...))
		packed.write("pos", ints(pos...))
		for name, x := range data {
			packed.write(name, x)
		}
		packed.run(n)
		first = 0
		for _, l := range lens {
			alone := open(c.set, c.window, l, 1, longest)
			alone.write("pos", ints(pos[first:first+l]...))
			const row = 4 * heads * hd
			for name, x := range data {
				alone.write(name, x[first*row:(first+l)*row])
			}
			alone.run(l)
			for i := range 4 {
				name := fmt.Sprint("out", i)
				if got, want := packed.read(name, n*row)[first*row:(first+l)*row], alone.read(name, l*row); !bytes.Equal(got, want) {
					t.Errorf("%s, window %d: result %d of %d tokens from %d on has other bits than alone", c.set.Name(), c.window, i, l, first)
				}
			}
			first += l
		}
	}
}

// TestAttentionRowsAreTheirOwn splits one pass into passes of other sizes, over other block sizes and with other sequences
// beside: every row has the same bits.
func TestAttentionRowsAreTheirOwn(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	var q, k, v []byte // by row
	var want []byte
	for _, c := range windows() {
		set, window := c.set, c.window
		want = nil
		for _, block := range []int{304, 16, 5} {
			p := newPages(block, window, rng)
			n := len(p.seq)
			w, kw := p.spec.Heads*p.spec.HeadDim, p.spec.KVHeads*p.spec.HeadDim
			if q == nil {
				q, k, v = normal(rng, n*w), normal(rng, n*kw), normal(rng, n*kw)
			}
			b := newBench(t, cpu.New(cpu.Options{Threads: 2, Set: set}), graph.Bounds{Rows: n}, func(b *graph.Builder) {
				pg := p.paging(b)
				q, k, v := b.Input("q", graph.F(graph.R(1), graph.D(w))), b.Input("k", graph.F(graph.R(1), graph.D(kw))), b.Input("v", graph.F(graph.R(1), graph.D(kw)))
				pool := graph.F(graph.D(p.slots), graph.D(kw))
				slots := b.Input("slots", graph.I(graph.R(1)))
				ks := b.KVAppend(b.State("ks", pool, mem.KVBlocks), k, slots)
				vs := b.KVAppend(b.State("vs", pool, mem.KVBlocks), v, slots)
				b.Output("o", b.Attention(q, ks, vs, pg, p.spec))
			})
			b.write("table", ints(p.table...))
			nan := bytes.Repeat([]byte{0xff}, 4*p.slots*kw) // what was never written must not be read
			for _, cut := range []int{n, 64, 37, 1} {
				b.write("ks", nan)
				b.write("vs", nan)
				got := make([]byte, len(q))
				for lo := 0; lo < n; lo += cut {
					hi := min(n, lo+cut)
					var slots []int32
					for r := lo; r < hi; r++ {
						i := int(p.seq[r])*len(p.table)/2 + int(p.at[r])/block
						slots = append(slots, p.table[i]*int32(block)+p.at[r]%int32(block))
					}
					b.write("slots", ints(slots...))
					b.write("seq", ints(p.seq[lo:hi]...))
					b.write("pos", ints(p.at[lo:hi]...))
					b.write("q", q[4*lo*w:4*hi*w])
					b.write("k", k[4*lo*kw:4*hi*kw])
					b.write("v", v[4*lo*kw:4*hi*kw])
					b.run(hi - lo)
					copy(got[4*lo*w:], b.read("o", 4*(hi-lo)*w))
				}
				if want == nil {
					want = got
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %d rows a pass in blocks of %d give other bits", set.Name(), cut, block)
				}
			}
		}
	}
}

func TestWildIndicesAreErrors(t *testing.T) {
	const n = 4
	spec := graph.AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: 4, Block: 2, Context: 8}
	good := map[string][]int32{"tokens": {0, 1, 2, 3}, "targets": {0, 1, -1, 3}, "slots": {0, 1, -1, 3}, "rows": {3, 2, 1, 0}, "experts": {0, 1, 1, 0},
		"table": {0, 1, 0, 0, 2, 3, 0, 0}, "seq": {0, 0, 1, 1}, "pos": {0, 1, 0, 3}, "pairs": {0, 1, -1, 9}}
	bad := map[string][][]int32{
		"tokens":  {{0, 1, 2, 5}, {-1, 0, 0, 0}},
		"targets": {{0, 1, -1, 5}},
		"slots":   {{0, 8, 0, 0}},
		"rows":    {{4, 0, 0, 0}, {0, -1, 0, 0}},
		"experts": {{0, 2, 0, 0}, {0, -1, 0, 0}},
		"table":   {{4, 1, 0, 0, 2, 3, 0, 0}, {0, 1, 0, 0, -1, 3, 0, 0}, {0, 1, 0, 0, 2, 1 << 30, 0, 0}},
		"seq":     {{0, 0, 2, 2}, {-1, 0, 0, 0}},
		"pos":     {{0, 8, 0, 3}, {-1, 1, 0, 3}, {0, 1 << 30, 0, 3}},
		"pairs":   {{4, 1, -1, 0}, {0, 4, -1, 0}, {0, -1, -1, 0}},
	}
	b := newBench(t, cpu.New(cpu.Options{Threads: 2, Set: kernel.Best()}), graph.Bounds{Rows: n, Outs: n}, func(b *graph.Builder) {
		ids := func(name string) graph.Value { return b.Input(name, graph.I(graph.R(1))) }
		x := b.Embedding(ids("tokens"), b.Input("w", graph.F(graph.D(5), graph.D(8))))
		pool := graph.F(graph.D(8), graph.D(4))
		kv := b.KVAppend(b.KVCopy(b.State("kv", pool, mem.KVBlocks), b.Input("pairs", graph.I(graph.D(2), graph.D(2))), 2), b.Input("k", graph.F(graph.R(1), graph.D(4))), ids("slots"))
		pg := graph.Paging{Table: b.Input("table", graph.I(graph.D(2), graph.D(4))), Seq: ids("seq"), Pos: ids("pos")}
		x = b.Attention(x, kv, kv, pg, spec)
		b.Output("order", b.Apply(graph.Dispatch{Experts: 2}, b.Input("experts", graph.I(graph.R(1), graph.D(1))))[0])
		b.Output("picked", b.SelectRows(x, b.Input("rows", graph.I(graph.O(1)))))
		b.Output("loss", b.HeadLoss(x, b.Input("head", graph.F(graph.D(5), graph.D(8))), ids("targets"), b.Input("weight", graph.F(graph.D(1))), 128))
	})
	for name, x := range good {
		b.write(name, ints(x...))
	}
	b.run(n)
	for name, all := range bad {
		for _, x := range all {
			b.write(name, ints(x...))
			if err := b.s.Run("test", device.Args{Rows: n}); err == nil {
				t.Errorf("%s of %v: no error", name, x)
			} else if !strings.Contains(err.Error(), "want") {
				t.Errorf("%s of %v: %v does not say what is wanted", name, x, err)
			}
		}
		b.write(name, ints(good[name]...))
	}
	b.run(n)
	for _, a := range []device.Args{{Rows: n + 1}, {Outs: n + 1}, {Rows: -1}} {
		if err := b.s.Run("test", a); err == nil {
			t.Errorf("%+v: no error", a)
		}
	}
	if err := b.s.Run("other", device.Args{}); err == nil {
		t.Error("a program that is not there ran")
	}
}

func TestDropoutKeepsWhatGraphKeeps(t *testing.T) {
	o := graph.Dropout{P: 0.3, Site: 5}
	const n, d = 7, 33
	b := newBench(t, cpu.New(cpu.Options{Threads: 2, Set: kernel.Best()}), graph.Bounds{Rows: n}, func(b *graph.Builder) {
		b.Output("y", b.Apply(o, b.Input("x", graph.F(graph.R(1), graph.D(d))), b.Input("seed", graph.I(graph.D(2))))[0])
	})
	x := make([]float32, n*d)
	for i := range x {
		x[i] = 1
	}
	b.write("x", floats(x...))
	b.write("seed", ints(-77, 1000))
	b.run(n)
	y := b.read("y", 4*n*d)
	for r := range n {
		for c := range d {
			got := math.Float32frombits(binary.LittleEndian.Uint32(y[4*(r*d+c):]))
			if (got != 0) != o.Keep(-77, 1000+r, c) {
				t.Fatalf("row %d column %d: %v", r, c, got)
			}
		}
	}
}
