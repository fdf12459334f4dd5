package ref

func matMul[T real](c *call[T]) error {
	x, w, bias, y := &c.in[0], &c.in[1], c.opt(2), &c.out[0]
	for r := range x.rows() {
		in, out := weighed(x.row(r), w), y.row(r)
		for j := range out {
			out[j] = T(dot(in, w.row(j)) + bias.at(j))
		}
	}
	return nil
}

func matMulDX[T real](c *call[T]) error {
	dy, w, acc, dx := &c.in[0], &c.in[1], c.opt(2), &c.out[0]
	k := w.last()
	sum := make([]float64, k) //mem:ok ref is the definition: it is clear before it is small
	for r := range dy.rows() {
		clear(sum)
		for j, d := range dy.row(r) {
			for i, a := range w.row(j) {
				sum[i] += float64(float64(d) * float64(a))
			}
		}
		for i, s := range sum {
			dx.f[r*k+i] = T(acc.at(r*k+i) + s)
		}
	}
	return nil
}

func matMulDW[T real](c *call[T]) error {
	dy, x, acc, dw := &c.in[0], &c.in[1], c.opt(2), &c.out[0]
	f, k := dy.last(), x.last()
	for j := range f {
		var start []T
		if acc.on {
			start = acc.row(j)
		}
		sum := newTotal(k, start)
		for r := range dy.rows() {
			d := float64(dy.f[r*f+j])
			for i, a := range x.row(r) {
				sum.sum[i] += float64(d * float64(a))
			}
			sum.next()
		}
		sum.into(dw.row(j))
	}
	return nil
}

func biasGrad[T real](c *call[T]) error {
	dy, acc, db := &c.in[0], c.opt(1), &c.out[0]
	sum := newTotal(dy.last(), acc.f)
	for r := range dy.rows() {
		for j, d := range dy.row(r) {
			sum.sum[j] += float64(d)
		}
		sum.next()
	}
	sum.into(db.f)
	return nil
}
