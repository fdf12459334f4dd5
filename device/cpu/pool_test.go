package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
	"loadline/tensor/quant"
)

// What attention reads of a pool is what the format's definition widens, bit for bit.
func TestPoolsAreReadAsDefined(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, ty := range []dtype.Type{dtype.F8E4M3, dtype.Q8_0, dtype.Q4_0} {
		const slots, width = 16, 96
		g := graph.NewBuilder("append", graph.Bounds{Rows: slots})
		pool := g.State("pool", graph.Type{DType: ty, Shape: graph.S(graph.D(slots), graph.D(width))}, mem.KVBlocks)
		g.KVAppend(pool, g.Input("x", graph.F(graph.R(1), graph.D(width))), g.Input("slots", graph.I(graph.R(1))))
		p, err := compile.Step(g.G, compile.Options{Machine: cost.Laptop2()})
		if err != nil {
			t.Fatal(err)
		}
		j, err := compile.NewJob(mem.Usage{}, p)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Threads: 1, Set: kernel.Best()}).OpenSession(j, device.Env{Ledger: mem.NewLedger(mem.Limits{})})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &binder{s: s, x: &program{Program: p}, in: &p.Instrs[0]}
		x := b.pool(p.Instrs[0].Out[0])
		if b.err != nil {
			t.Fatal(b.err)
		}
		for i := range x.b {
			x.b[i] = byte(rng.Uint32()) // scales of every kind, NaN and infinity among them
		}
		got, want := make([]float32, slots*width), make([]float32, slots*width)
		x.read(0, got)
		if q, ok := quant.Of(ty); ok {
			quant.Decode(want, q, x.b[:x.at(len(want))])
		} else {
			for i := range want {
				want[i] = dtype.FromE4M3(x.b[i])
			}
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
				t.Fatalf("%v: element %d: got %g, want %g", ty, i, got[i], want[i])
			}
		}
		part := make([]float32, 32)
		if x.read(64, part); !same32(part, got[64:96]) {
			t.Errorf("%v: a part of a row is read as %v, want %v", ty, part, got[64:96])
		}
	}
}

func same32(a, b []float32) bool {
	for i := range a {
		if a[i] != b[i] && (a[i] == a[i] || b[i] == b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

func BenchmarkPoolRead(b *testing.B) {
	for _, ty := range []dtype.Type{dtype.F8E4M3, dtype.Q8_0, dtype.Q4_0} {
		x := pool{t: ty, b: make([]byte, ty.Bytes(8192)), widened: new([256]float32)}
		x.format, _ = quant.Of(ty)
		to := make([]float32, 8192)
		b.Run(ty.String(), func(b *testing.B) {
			b.SetBytes(4 * 8192)
			for b.Loop() {
				x.read(0, to)
			}
		})
	}
}
