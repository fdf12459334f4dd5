package cpu_test

import (
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// clock is seconds: of this thread on a processor, or of the wall where other threads work too.
func clock(thread bool) float64 {
	id := int32(unix.CLOCK_MONOTONIC)
	if thread {
		id = unix.CLOCK_THREAD_CPUTIME_ID
	}
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(err)
	}
	return float64(t.Sec) + float64(t.Nsec)/1e9
}

// multiplyAdd is the time of one multiply-add at the peak of a core: a product whose operands stay in registers and L1.
func multiplyAdd(set kernel.Set, thread bool) float64 {
	const m, n, k, turns = 12, 32, 512, 200
	c, a, b := kernel.RowMajor(make([]float32, m*n), m, n, n), kernel.RowMajor(make([]float32, m*k), m, k, k), kernel.RowMajor(make([]float32, n), k, n, 0)
	start := clock(thread)
	for range turns {
		set.FlashMul(c, a, b, true)
	}
	return (clock(thread) - start) / float64(turns*m*n*k)
}

// BenchmarkFlash is one sequence of 2048 positions, heads of 64, causal: the best times of forward and backward as a share of
// the multiply-adds that the cores make at most, of which the lower triangle needs 2 products forward and 5 backward.
func BenchmarkFlash(b *testing.B) {
	const n, heads, k = 2048, 4, 64
	spec := graph.AttentionSpec{Heads: heads, KVHeads: heads, HeadDim: k, Block: n, Context: n}
	for _, t := range []dtype.Type{dtype.F32, dtype.BF16} {
		for _, set := range kernel.Sets()[1:] {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%dx%d/%v/%s/%d", n, k, t, set.Name(), threads), func(b *testing.B) {
					build := func(back bool) *bench {
						s := newBench(b, cpu.New(cpu.Options{Threads: threads, Set: set}), graph.Bounds{Rows: n}, func(b *graph.Builder) {
							pg := graph.Paging{Table: b.Input("table", graph.I(graph.D(1), graph.D(1))), Seq: b.Input("seq", graph.I(graph.R(1))), Pos: b.Input("pos", graph.I(graph.R(1)))}
							f := func(name string) graph.Value {
								return b.Input(name, graph.Type{DType: t, Shape: graph.S(graph.R(1), graph.D(heads*k))})
							}
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
						return s
					}
					forward, backward, alone := build(false), build(true), threads == 1
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
					once := func(s *bench) float64 {
						start := clock(alone)
						if err := s.s.Run("test", device.Args{}); err != nil {
							b.Fatal(err)
						}
						return clock(alone) - start
					}
					unit, fwd, bwd := 1.0, 1e9, 1e9
					for b.Loop() {
						unit, fwd, bwd = min(unit, multiplyAdd(set, alone)), min(fwd, once(forward)), min(bwd, once(backward))
					}
					tri := heads * k * float64(n) * float64(n) / 2 // multiply-adds of a product
					share := func(products, s float64) float64 { return 100 * products * tri * unit / s / float64(threads) }
					b.ReportMetric(share(2, fwd), "%fwd")
					b.ReportMetric(share(5, bwd), "%bwd")
					b.ReportMetric(share(7, fwd+bwd), "%peak")
					b.ReportMetric(2/unit/1e9, "GFLOP/s-peak")
				})
			}
		}
	}
}
