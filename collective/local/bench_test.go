package local

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"loadline/collective"
)

func stepOf(s *segment, rank int) uint64  { return atomic.LoadUint64(&s.slot(rank).step) }
func stateOf(s *segment, rank int) uint32 { return atomic.LoadUint32(&s.slot(rank).state) }

// playBench takes part in one benchmark.
func playBench(g *Group, arg string, _ io.Writer) error {
	var op string
	var n, times int
	if _, err := fmt.Sscan(arg, &op, &n, &times); err != nil {
		return err
	}
	x := make([]float32, n)
	if err := g.Barrier(); err != nil {
		return err
	}
	return repeat(g, op, x, times)
}

func repeat(g *Group, op string, x []float32, times int) error {
	part := collective.Partition{Elems: len(x), Ranks: g.Size()}
	lo, hi := part.Shard(g.Rank())
	for range times {
		var err error
		switch op {
		case "AllReduce":
			err = g.AllReduce(x)
		case "ReduceScatter":
			err = g.ReduceScatter(x[lo:hi], x, part)
		case "AllGather":
			err = g.AllGather(x, x[lo:hi], part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkCollective measures processes; bytes are those of the whole tensor.
func BenchmarkCollective(b *testing.B) {
	for _, op := range []string{"AllReduce", "ReduceScatter", "AllGather"} {
		for _, ranks := range []int{2, 4} {
			for _, n := range []int{1, 16384, 4 << 20} {
				b.Run(fmt.Sprintf("%s/ranks=%d/%d/f32", op, ranks, n), func(b *testing.B) {
					tr := cast(b, ranks, 1, Options{}, "bench", fmt.Sprint(op, " ", n, " ", b.N))
					g, err := tr.Join(0, nil)
					if err != nil {
						b.Fatal(err)
					}
					x := make([]float32, n)
					b.SetBytes(int64(4 * n))
					if err := g.Barrier(); err != nil {
						b.Fatal(err)
					}
					b.ResetTimer()
					if err := repeat(g, op, x, b.N); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					if err := g.Close(); err != nil {
						b.Fatal(err)
					}
					tr.succeed(b)
				})
			}
		}
	}
}
