package ref

import "loadline/graph"

func combine[T real](c *call[T], o graph.Combine) error {
	y, weights, place, out := &c.in[0], &c.in[1], &c.in[3], &c.out[0]
	sum := make([]float64, y.last()) //mem:ok ref is the definition: it is clear before it is small
	for t := range out.rows() {
		clear(sum)
		for n := range o.TopK {
			p, err := index("place", place.i[t*o.TopK+n], y.rows())
			if err != nil {
				return err
			}
			w := float64(weights.f[t*o.TopK+n])
			for i, a := range y.row(p) {
				sum[i] += float64(w * float64(a))
			}
		}
		store64(out.row(t), sum)
	}
	return nil
}

func combineGrad[T real](c *call[T], o graph.CombineGrad) error {
	do, y, weights, place, dy, dw := &c.in[0], &c.in[1], &c.in[2], &c.in[4], &c.out[0], &c.out[1]
	for t := range do.rows() {
		d := do.row(t)
		for n := range o.TopK {
			p, err := index("place", place.i[t*o.TopK+n], y.rows())
			if err != nil {
				return err
			}
			dw.f[t*o.TopK+n] = T(dot(d, y.row(p)))
			w, out := float64(weights.f[t*o.TopK+n]), dy.row(p)
			for i, a := range d {
				out[i] = T(w * float64(a))
			}
		}
	}
	return nil
}
