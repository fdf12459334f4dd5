package ref

import (
	"math"

	"loadline/graph"
)

func rope[T real](c *call[T], o graph.Rope) error {
	x, pos, y := &c.in[0], &c.in[1], &c.out[0]
	half := o.HeadDim / 2
	for r := range x.rows() {
		for h := range o.Heads {
			in, out := x.row(r)[h*o.HeadDim:], y.row(r)[h*o.HeadDim:]
			for i := range half {
				angle := float64(pos.i[r]) * math.Pow(o.Theta, -2*float64(i)/float64(o.HeadDim))
				sin, cos := math.Sincos(angle)
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
