package cpu

import (
	"math"

	"loadline/graph"
)

// clamped is the operands of gpt-oss's activation within their limits, and σ(alpha·g).
func clamped(gate, up float32, alpha float64, limit float32) (g, u, s float32) {
	g, u = min(gate, limit), min(max(up, -limit), limit)
	return g, u, float32(1 / (1 + math.Exp(-alpha*float64(g))))
}

func bindClampedGLU(b *binder, o graph.ClampedGLU) step {
	gate, up, out := b.inF(0), b.inF(1), b.outF(0)
	alpha, limit := o.Alpha, float32(o.Limit)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		to, x, y := out.room(lo, hi, &c), gate.load(s, lo, hi, &c), up.load(s, lo, hi, &c)
		for i := range to {
			g, u, sig := clamped(x[i], y[i], alpha, limit)
			to[i] = (u + 1) * float32(g*sig)
		}
		out.store(s, lo, hi, to)
	})
}

func bindClampedGLUGrad(b *binder, o graph.ClampedGLUGrad) step {
	da, gate, up, dgate, dup := b.inF(0), b.inF(1), b.inF(2), b.outF(0), b.outF(1)
	alpha, limit := o.Alpha, float32(o.Limit)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		dg, du := dgate.room(lo, hi, &c), dup.room(lo, hi, &c)
		d, x, y := da.load(s, lo, hi, &c), gate.load(s, lo, hi, &c), up.load(s, lo, hi, &c)
		for i := range dg {
			g, u, sig := clamped(x[i], y[i], alpha, limit)
			v, inside, within := d[i], x[i] <= limit, u == y[i] // results may lie in the places of operands
			dg[i], du[i] = 0, 0
			if inside {
				dg[i] = float32(v*(u+1)) * sig * float32(1+alpha*float64(g)*float64(1-sig))
			}
			if within {
				du[i] = v * float32(g*sig)
			}
		}
		dgate.store(s, lo, hi, dg)
		dup.store(s, lo, hi, du)
	})
}
