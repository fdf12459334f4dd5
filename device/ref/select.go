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
