package ref

func embedding[T real](c *call[T]) error {
	tokens, table, y := &c.in[0], &c.in[1], &c.out[0]
	for r, id := range tokens.i {
		v, err := index("token", id, table.dims[0])
		if err != nil {
			return err
		}
		copy(y.row(r), table.row(v))
	}
	return nil
}

func embeddingGrad[T real](c *call[T]) error {
	tokens, dy, acc, dw := &c.in[0], &c.in[1], c.opt(2), &c.out[0]
	d := dy.last()
	sum := newTotal(len(dw.f), acc.f)
	for r, id := range tokens.i {
		v, err := index("token", id, dw.dims[0])
		if err != nil {
			return err
		}
		for i, a := range dy.row(r) {
			sum.sum[v*d+i] += float64(a)
		}
		sum.next()
	}
	sum.into(dw.f)
	return nil
}
