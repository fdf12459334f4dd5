package cpu

import (
	"math"

	"loadline/graph"
	"loadline/tensor"
)

func bindSumSquares(b *binder) step {
	g, out := b.in32(0), b.out32(0)
	f := fn(func(s *Session, lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			out[i] = float32(s.set.SumSquares(g[i*tensor.BlockElems : min(len(g), (i+1)*tensor.BlockElems)]))
		}
	})
	return stepFunc(func(s *Session) error {
		s.each(len(out), grainElems/tensor.BlockElems, f)
		return nil
	})
}

func bindClipScale(b *binder, o graph.ClipScale) step {
	var sums [][]float32
	for i := range len(b.in.In) - 1 {
		sums = append(sums, b.in32(i))
	}
	hyper, scale, norm := b.in32(len(b.in.In)-1), b.out32(0), b.out32(1)
	return stepFunc(func(s *Session) error {
		var sum float64
		for _, t := range sums {
			for _, v := range t {
				sum += float64(v)
			}
		}
		n := math.Sqrt(sum) * math.Abs(float64(hyper[graph.HyperGrad]))
		if scale != nil {
			scale[0] = float32(min(1, float64(o.Max)/(n+1e-6)))
		}
		if norm != nil {
			norm[0] = float32(n)
		}
		return nil
	})
}
