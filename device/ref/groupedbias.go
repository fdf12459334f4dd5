package ref

func groupedBias[T real](c *call[T]) error {
	y, b, offsets, out := &c.in[0], &c.in[1], &c.in[2], &c.out[0]
	return eachExpert(offsets, y.rows(), func(e, lo, hi int) {
		for r := lo; r < hi; r++ {
			row := out.row(r)
			for i, x := range y.row(r) {
				row[i] = x + b.row(e)[i]
			}
		}
	})
}

func groupedBiasGrad[T real](c *call[T]) error {
	dy, offsets, acc, out := &c.in[0], &c.in[1], c.opt(2), &c.out[0]
	f := dy.last()
	sum := make([]float64, f) //mem:ok ref is the definition: it is clear before it is small
	return eachExpert(offsets, dy.rows(), func(e, lo, hi int) {
		for i := range sum {
			sum[i] = acc.at(e*f + i)
		}
		for r := lo; r < hi; r++ {
			for i, x := range dy.row(r) {
				sum[i] += float64(x)
			}
		}
		store64(out.row(e), sum)
	})
}
