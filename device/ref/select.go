package ref

func selectRows[T real](c *call[T]) error {
	x, rows, y := &c.in[0], &c.in[1], &c.out[0]
	for i, id := range rows.i {
		r, err := index("row", id, x.rows())
		if err != nil {
			return err
		}
		copy(y.row(i), x.row(r))
	}
	return nil
}

func selectColumns[T real](c *call[T]) error {
	x, order, y := &c.in[0], &c.in[1], &c.out[0]
	for k, id := range order.i {
		from, err := index("column", id, x.last())
		if err != nil {
			return err
		}
		for r := range x.rows() {
			y.row(r)[k] = x.row(r)[from]
		}
	}
	return nil
}
