package kernel

import "math"

// derive returns the constants of a step that all elements share.
func (p AdamW) derive() (decay, step, root, c1, c2 float32) {
	decay = 1 - float32(p.LR*p.WeightDecay)
	step = p.LR / p.Correction1
	root = float32(1 / math.Sqrt(float64(p.Correction2)))
	return decay, step, root, 1 - p.Beta1, 1 - p.Beta2
}

func adamWGeneric(w, m, v, g []float32, p AdamW) {
	decay, step, root, c1, c2 := p.derive()
	for i := range w {
		gi := float32(g[i] * p.GradScale)
		mi := float32(p.Beta1*m[i]) + float32(c1*gi)
		vi := float32(p.Beta2*v[i]) + float32(float32(c2*gi)*gi)
		m[i], v[i] = mi, vi
		d := float32(float32(math.Sqrt(float64(vi)))*root) + p.Eps
		w[i] = float32(decay*w[i]) - float32(step*mi)/d
	}
}
