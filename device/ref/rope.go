package ref

import (
	"math"

	"loadline/graph"
)

func rope[T real](c *call[T], o graph.Rope) error {
	x, pos, y := &c.in[0], &c.in[1], &c.out[0]
	turned, half := o.Width(), o.Width()/2
	angles, m := o.Frequencies(), o.Factor()
	for r := range x.rows() {
		for h := range o.Heads {
			in, out := x.row(r)[h*o.HeadDim:], y.row(r)[h*o.HeadDim:]
			copy(out[turned:o.HeadDim], in[turned:o.HeadDim])
			for i := range half {
				sin, cos := math.Sincos(float64(pos.i[r]) * angles[i])
				sin, cos = m*sin, m*cos
				if o.Inverse {
					sin = -sin
				}
				a, b := float64(in[i]), float64(in[i+half])
				out[i] = T(float64(a*cos) - float64(b*sin))
				out[i+half] = T(float64(b*cos) + float64(a*sin))
			}
		}
	}
	return nil
}
