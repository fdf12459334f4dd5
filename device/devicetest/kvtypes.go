package devicetest

import (
	"math"

	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// kvHeads are head lengths that every type of keys and values can have.
var kvHeads = []int{32, 96}

// kvCases append to and read pools of every type that keys and values can have.
func kvCases() (cases []opCase) {
	for _, ty := range graph.KVTypes() {
		cases = append(cases, opCase{name: "kvappend to " + ty.String(), lengths: kvHeads, build: func(r *rig, n int) {
			rows := r.args.Rows
			x := r.noise(rows * n)
			x[0], x[n/2] = 1<<17, 0x1p-30 // beyond some types
			x[n*rows-1] = math.NaN()
			pool := r.pool("pool", r.noise((rows+9)*n), ty, rows+9, n)
			r.check(r.KVAppend(pool, r.f("x", x, graph.R(1), graph.D(n)), r.i("slots", r.slots(rows, rows+9), graph.R(1))), exact)
		}}, opCase{name: "kvcopy of " + ty.String(), lengths: kvHeads, build: func(r *rig, n int) {
			const block = 3
			pairs := r.i("pairs", []int32{0, 3, 3, 4, -1, 0}, graph.D(3), graph.D(2))
			r.check(r.KVCopy(r.pool("pool", r.noise(5*block*n), ty, 5*block, n), pairs, block), exact)
		}})
		for _, other := range graph.KVTypes() {
			if ty != other && ty != dtype.F32 && other != dtype.Q8_0 {
				continue // each type beside itself and two others is enough
			}
			cases = append(cases, opCase{name: "attention to " + ty.String() + " and " + other.String(), lengths: kvHeads, build: func(r *rig, n int) {
				p := r.paged(n)
				w := p.KVHeads * n
				k, v := r.pool("k", r.noise(p.slots*w), ty, p.slots, w), r.pool("v", r.noise(p.slots*w), other, p.slots, w)
				o := r.Apply(graph.Attention{AttentionSpec: p.AttentionSpec}, p.queries(r, "q"), k, v, p.pages.Table, p.pages.Seq, p.pages.Pos)
				r.check(o[0], p.probabilities(0))
				r.check(o[1], tolerance{abs: float64(4*n + 64), rel: 16, why: "the largest exponent's error"})
			}})
		}
	}
	return cases
}

// pool is a KV pool of a type of its own.
func (r *rig) pool(name string, x []float64, ty dtype.Type, slots, width int) graph.Value {
	return r.stateOf(name, x, mem.KVBlocks, graph.Type{DType: ty, Shape: graph.S(graph.D(slots), graph.D(width))})
}

// encoded is x in a type of bytes or blocks, as a file has it.
func encoded(t dtype.Type, x []float64) []byte {
	f := make([]float32, len(x))
	for i := range x {
		f[i] = float32(x[i])
	}
	b := make([]byte, t.Bytes(int64(len(x))))
	if t == dtype.F8E4M3 {
		for i := range f {
			b[i] = dtype.ToE4M3(f[i])
		}
		return b
	}
	q, _ := quant.Of(t)
	quant.EncodeRows(b, q, f)
	return b
}

// decoded is encoded's reverse.
func decoded(t dtype.Type, b []byte, n int) []float64 {
	f, x := make([]float32, n), make([]float64, n)
	if t == dtype.F8E4M3 {
		for i := range f {
			f[i] = dtype.FromE4M3(b[i])
		}
	} else {
		q, _ := quant.Of(t)
		quant.Decode(f, q, b)
	}
	for i := range f {
		x[i] = float64(f[i])
	}
	return x
}

// bytesType tells whether elements of t are stored in bytes or blocks.
func bytesType(t dtype.Type) bool { return t == dtype.F8E4M3 || t.Block() }
