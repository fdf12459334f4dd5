package ref

import "loadline/graph"

func dropout[T real](c *call[T], o graph.Dropout) error {
	x, seed, y := &c.in[0], &c.in[1], &c.out[0]
	scale := 1 / (1 - float64(o.P))
	for r := range x.rows() {
		out := y.row(r)
		for i, a := range x.row(r) {
			out[i] = 0
			if o.Keep(seed.i[0], int(seed.i[1])+r, i) {
				out[i] = T(float64(a) * scale)
			}
		}
	}
	return nil
}
