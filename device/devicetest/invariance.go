package devicetest

import (
	"bytes"
	"fmt"
	"testing"

	"loadline/device"
	"loadline/graph"
	"loadline/tensor/dtype"
)

// testInvariance checks that a row's bits do not depend on the rows that share its call, nor on how keys are paged or
// chunks are cut.
func testInvariance(t *testing.T, open func() device.Device) {
	for _, half := range []dtype.Type{dtype.F32, dtype.BF16, dtype.F16} {
		t.Run(half.String(), func(t *testing.T) {
			for _, c := range rowCases {
				t.Run(c.name, func(t *testing.T) { testRows(t, half, open(), c.build) })
			}
			t.Run("attention over blocks", func(t *testing.T) { testBlocks(t, half, open()) })
			t.Run("grouped is matmul", func(t *testing.T) { testGroups(t, half, open()) })
			t.Run("headloss over chunks", func(t *testing.T) { testChunks(t, half, open()) })
			t.Run("matmul_dw continued", func(t *testing.T) { testContinued(t, half, open()) })
		})
	}
}

// manyRows is more than a block of a reduction over rows.
const manyRows = 150

var rowCases = []struct {
	name  string
	build func(r *rig)
}{
	{"matmul", func(r *rig) {
		for _, k := range []int{5, 64, 77} {
			x := r.f(fmt.Sprint("x", k), r.noise(manyRows*k), graph.R(1), graph.D(k))
			for _, f := range []int{3, 70} {
				r.check(r.MatMul(x, r.f(fmt.Sprint("w", k, ".", f), r.noise(f*k), graph.D(f), graph.D(k))), exact)
			}
		}
	}},
	{"linear", func(r *rig) {
		x, w := r.f("x", r.noise(manyRows*33), graph.R(1), graph.D(33)), r.f("w", r.noise(49*33), graph.D(49), graph.D(33))
		r.check(r.Linear(x, w, r.f("b", r.noise(49), graph.D(49))), exact)
	}},
	{"matmul_dx", func(r *rig) {
		dy, w := r.f("dy", r.noise(manyRows*33), graph.R(1), graph.D(33)), r.f("w", r.noise(33*49), graph.D(33), graph.D(49))
		r.check(r.Apply(graph.MatMulDX{}, dy, w, graph.None)[0], exact)
	}},
	{"rmsnorm", func(r *rig) {
		y := r.Apply(graph.RMSNorm{Eps: 1e-5}, r.f("x", r.noise(manyRows*71), graph.R(1), graph.D(71)), r.f("w", r.noise(71), graph.D(71)))
		r.check(y[0], exact)
		r.check(y[1], exact)
	}},
	{"layernorm", func(r *rig) {
		y := r.Apply(graph.LayerNorm{Eps: 1e-5}, r.f("x", r.noise(manyRows*71), graph.R(1), graph.D(71)), r.f("w", r.noise(71), graph.D(71)), r.f("b", r.noise(71), graph.D(71)))
		r.check(y[0], exact)
		r.check(y[1], exact)
	}},
	{"rope", func(r *rig) {
		x := r.f("x", r.noise(manyRows*2*22), graph.R(1), graph.D(44))
		r.check(r.Rope(x, r.i("pos", r.ints(manyRows, 5000), graph.R(1)), 2, 22, 10000), exact)
	}},
	{"softmax", func(r *rig) { r.check(r.Softmax(r.f("x", r.noise(manyRows*71), graph.R(1), graph.D(71))), exact) }},
	{"swiglu", func(r *rig) {
		x := r.f("x", r.noise(manyRows*71), graph.R(1), graph.D(71))
		r.check(r.SwiGLU(x, r.f("y", r.noise(manyRows*71), graph.R(1), graph.D(71))), exact)
	}},
	{"geglu", func(r *rig) {
		x, y := r.f("x", r.noise(manyRows*71), graph.R(1), graph.D(71)), r.f("y", r.noise(manyRows*71), graph.R(1), graph.D(71))
		r.check(r.GeGLU(x, y, false), exact)
		r.check(r.GeGLU(x, y, true), exact)
	}},
	{"gelu", func(r *rig) {
		x := r.f("x", r.noise(manyRows*71), graph.R(1), graph.D(71))
		r.check(r.Gelu(x, false), exact)
		r.check(r.Gelu(x, true), exact)
	}},
	{"router", func(r *rig) {
		w, ids := r.Router(r.f32("x", r.noise(manyRows*13), graph.R(1), graph.D(13)), 3)
		r.check(w, exact)
		r.check(ids, exact)
	}},
	{"attention", func(r *rig) { r.longAttention(16, manyRows, 0) }},
	{"attention with a window", func(r *rig) { r.longAttention(16, manyRows, 75) }},
}

// testRows runs all rows at once, then in pieces, and compares bits.
func testRows(t *testing.T, half dtype.Type, d device.Device, build func(r *rig)) {
	r := newRigOf(half, persistent, graph.Bounds{Rows: manyRows, Outs: manyRows}, 3)
	build(r)
	h := openOn(t, d, r.job(t))
	defer h.Close()
	h.fill(r)
	h.run(device.Args{})
	whole := make([][]byte, len(r.outs))
	for i, o := range r.outs {
		whole[i] = h.read(o.name, r.G.Info(o.v).Type.Bytes(r.G.Bounds))
	}
	pieces := [][2]int{{0, 1}, {77, 78}, {manyRows - 1, manyRows}, {0, 128}, {3, 9}, {100, 131}, {1, manyRows}}
	for _, p := range pieces {
		n := p[1] - p[0]
		for i := range r.data {
			x := &r.data[i]
			ty := r.G.Info(r.G.Find(x.name)).Type
			if ty.Shape.Dims[0].Of != graph.Rows {
				continue
			}
			w := int(ty.Bytes(graph.Bounds{Rows: 1}))
			if err := h.Write(x.name, 0, x.bytes()[p[0]*w:p[1]*w]); err != nil {
				t.Fatal(err)
			}
		}
		h.run(device.Args{Rows: n})
		for i, o := range r.outs {
			w := r.G.Info(o.v).Type.Bytes(graph.Bounds{Rows: 1})
			got := h.read(o.name, int64(n)*w)
			for k := range n {
				if !bytes.Equal(got[int64(k)*w:int64(k+1)*w], whole[i][int64(p[0]+k)*w:int64(p[0]+k+1)*w]) {
					t.Fatalf("result %d: row %d differs when it runs among rows %d to %d", i, p[0]+k, p[0], p[1])
				}
			}
		}
	}
}

// longAttention is two sequences of up to 320 positions through shuffled blocks; what sequences hold does not depend on
// the block's length.
func (r *rig) longAttention(block, rows, window int) {
	const context, seqs, g, k = 320, 2, 2, 20
	width := context / block
	keys, values := r.noise(seqs*context*g*k), r.noise(seqs*context*g*k)
	q := r.noise(rows * 2 * g * k)
	place := func(x []float64, table []int32) []float64 {
		out := make([]float64, len(x))
		for i := range seqs * context {
			slot := int(table[i/block])*block + i%block
			copy(out[slot*g*k:(slot+1)*g*k], x[i*g*k:])
		}
		return out
	}
	var table, seq, pos []int32
	for _, b := range r.rng.Perm(seqs * width) {
		table = append(table, int32(b))
	}
	for i := range rows {
		if i < rows/3 {
			seq, pos = append(seq, 0), append(pos, int32(100+i)) // across position 128
		} else {
			seq, pos = append(seq, 1), append(pos, int32(context-rows+i))
		}
	}
	kv := []graph.Dim{graph.D(seqs * context), graph.D(g * k)}
	pg := graph.Paging{Table: r.i("table", table, graph.D(seqs), graph.D(width)), Seq: r.i("seq", seq, graph.R(1)), Pos: r.i("pos", pos, graph.R(1))}
	s := graph.AttentionSpec{Heads: 2 * g, KVHeads: g, HeadDim: k, Block: block, Context: context, Window: window}
	x, ks, vs := r.f("q", q, graph.R(1), graph.D(2*g*k)), r.f("k", place(keys, table), kv...), r.f("v", place(values, table), kv...)
	o := r.Apply(graph.Attention{AttentionSpec: s}, x, ks, vs, pg.Table, pg.Seq, pg.Pos)
	r.check(o[0], exact)
	r.check(o[1], exact)
	r.check(r.Apply(graph.AttentionProbs{AttentionSpec: s}, x, ks, pg.Table, pg.Seq, pg.Pos)[0], exact)
	r.check(r.StandardAttention(x, ks, vs, pg, s), exact)
}

func testBlocks(t *testing.T, half dtype.Type, d device.Device) {
	var want [][]byte
	for _, block := range []int{4, 16, 64} {
		r := newRigOf(half, persistent, graph.Bounds{Rows: manyRows, Outs: 1}, 5)
		r.longAttention(block, manyRows, 0)
		got := results(t, d, r)
		if want == nil {
			want = got
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("result %d with blocks of %d differs from blocks of 4", i, block)
			}
		}
	}
}

// results runs r and returns the bytes of what it checks.
func results(t *testing.T, d device.Device, r *rig) [][]byte {
	h := openOn(t, d, r.job(t))
	defer h.Close()
	h.fill(r)
	h.run(r.args)
	b := r.G.Bounds
	if r.args.Rows > 0 {
		b.Rows = r.args.Rows
	}
	var out [][]byte
	for _, o := range r.outs {
		out = append(out, h.read(o.name, r.G.Info(o.v).Type.Bytes(b)))
	}
	return out
}

// testGroups checks that a row meets its expert's weight as in MatMul.
func testGroups(t *testing.T, half dtype.Type, d device.Device) {
	const rows, e, f, k = 140, 4, 19, 37
	ends := []int32{0, 3, 3, 135, rows}
	r := newRigOf(half, persistent, graph.Bounds{Rows: 1, Outs: 1}, 11)
	xs, ws := r.noise(rows*k), r.noise(e*f*k)
	x := r.f("x", xs, graph.D(rows), graph.D(k))
	r.check(r.GroupedMatMul(x, r.f("w", ws, graph.D(e), graph.D(f), graph.D(k)), r.i("offsets", ends, graph.D(e+1))), exact)
	for i := range e {
		r.check(r.MatMul(x, r.f(fmt.Sprint("w", i), ws[i*f*k:(i+1)*f*k], graph.D(f), graph.D(k))), exact)
	}
	out := results(t, d, r)
	for i := range e {
		lo, hi := int(ends[i])*f*half.Bits()/8, int(ends[i+1])*f*half.Bits()/8
		if !bytes.Equal(out[0][lo:hi], out[1+i][lo:hi]) {
			t.Errorf("the rows of expert %d differ from matmul's", i)
		}
	}
}

// testChunks checks that the chunk of a loss head changes no bit.
func testChunks(t *testing.T, half dtype.Type, d device.Device) {
	var want [][]byte
	for _, chunk := range []int{128, 256, 384, 1024} {
		r := newRigOf(half, persistent, graph.Bounds{Rows: 1, Outs: 1}, 13)
		const rows, v, k = 500, 11, 9
		h, w := r.f("h", r.noise(rows*k), graph.D(rows), graph.D(k)), r.f("w", r.noise(v*k), graph.D(v), graph.D(k))
		tg, weight := r.i("targets", r.targets(rows, v), graph.D(rows)), r.f("weight", []float64{1.0 / 256}, graph.D(1))
		for _, o := range r.Apply(graph.HeadLossGrad{Chunk: chunk}, h, w, tg, weight, r.accW("acc", v*k, graph.D(v), graph.D(k))) {
			r.check(o, exact)
		}
		r.check(r.HeadLoss(h, w, tg, weight, chunk), exact)
		got := results(t, d, r)
		if want == nil {
			want = got
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("result %d with chunks of %d differs from chunks of 128", i, chunk)
			}
		}
		if !bytes.Equal(got[2], got[3]) {
			t.Errorf("chunks of %d: the loss alone differs from the loss with gradients", chunk)
		}
	}
}

// testContinued checks that a sum over rows that is cut at a multiple of 128 rows and continued has the same bits.
func testContinued(t *testing.T, half dtype.Type, d device.Device) {
	const rows, cut, f, k = 300, 128, 13, 21
	r := newRigOf(half, persistent, graph.Bounds{Rows: 1, Outs: 1}, 17)
	dy, x := r.noise(rows*f), r.noise(rows*k)
	part := func(name string, lo, hi int) (graph.Value, graph.Value) {
		return r.f("dy"+name, dy[lo*f:hi*f], graph.D(hi-lo), graph.D(f)), r.f("x"+name, x[lo*k:hi*k], graph.D(hi-lo), graph.D(k))
	}
	a, b := part("", 0, rows)
	r.check(r.Apply(graph.MatMulDW{}, a, b, graph.None)[0], exact)
	r.check(r.Apply(graph.BiasGrad{}, a, graph.None)[0], exact)
	a, b = part("1", 0, cut)
	dw, db := r.Apply(graph.MatMulDW{}, a, b, graph.None)[0], r.Apply(graph.BiasGrad{}, a, graph.None)[0]
	a, b = part("2", cut, rows)
	r.check(r.Apply(graph.MatMulDW{}, a, b, dw)[0], exact)
	r.check(r.Apply(graph.BiasGrad{}, a, db)[0], exact)
	if r.G.Info(dw).Type.DType != dtype.F32 {
		t.Fatal("the sum is not f32")
	}
	out := results(t, d, r)
	for i := range 2 {
		if !bytes.Equal(out[i], out[2+i]) {
			t.Errorf("sum %d differs when cut at row %d", i, cut)
		}
	}
}
