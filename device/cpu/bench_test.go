package cpu_test

import (
	"fmt"
	"testing"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/tensor/kernel"
)

// BenchmarkMatMul is one product of rows with a weight of 2048 x 2048; bytes are the weight's.
func BenchmarkMatMul(b *testing.B) {
	const d = 2048
	for _, rows := range []int{1, 4, 16, 512} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%dx%dx%d/f32/%d", rows, d, d, threads), func(b *testing.B) {
				s := newBench(b, cpu.New(cpu.Options{Threads: threads, Set: kernel.Best()}), graph.Bounds{Rows: rows}, func(b *graph.Builder) {
					b.Output("y", b.MatMul(b.Input("x", graph.F(graph.R(1), graph.D(d))), b.Input("w", graph.F(graph.D(d), graph.D(d)))))
				})
				b.SetBytes(4 * d * d)
				for b.Loop() {
					if err := s.s.Run("test", device.Args{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(2*float64(rows)*d*d*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkAttention is forward and backward of one sequence of 1024 positions, 8 heads of 64.
func BenchmarkAttention(b *testing.B) {
	const n, heads, k = 1024, 8, 64
	spec := graph.AttentionSpec{Heads: heads, KVHeads: heads, HeadDim: k, Block: n, Context: n}
	for _, back := range []bool{false, true} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("backward=%v/%d", back, threads), func(b *testing.B) {
				s := newBench(b, cpu.New(cpu.Options{Threads: threads, Set: kernel.Best()}), graph.Bounds{Rows: n}, func(b *graph.Builder) {
					pg := graph.Paging{Table: b.Input("table", graph.I(graph.D(1), graph.D(1))), Seq: b.Input("seq", graph.I(graph.R(1))), Pos: b.Input("pos", graph.I(graph.R(1)))}
					f := func(name string) graph.Value { return b.Input(name, graph.F(graph.R(1), graph.D(heads*k))) }
					q, kk, v := f("q"), f("k"), f("v")
					if back {
						lse := b.Input("lse", graph.F(graph.R(1), graph.D(heads)))
						g := b.Apply(graph.AttentionGrad{AttentionSpec: spec}, f("do"), q, kk, v, f("o"), lse, pg.Table, pg.Seq, pg.Pos)
						b.Output("dq", g[0])
						return
					}
					b.Output("o", b.Attention(q, kk, v, pg, spec))
				})
				var pos []int32
				for i := range n {
					pos = append(pos, int32(i))
				}
				s.write("pos", ints(pos...))
				for b.Loop() {
					if err := s.s.Run("test", device.Args{}); err != nil {
						b.Fatal(err)
					}
				}
				products := 2.0
				if back {
					products = 5
				}
				b.ReportMetric(products*heads*k*n*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
