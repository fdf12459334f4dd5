package kernel

// AdamW holds the constants of one AdamW step.
type AdamW struct {
	LR          float32 // learning rate of this step
	Beta1       float32 // decay of the first moment
	Beta2       float32 // decay of the second moment
	Eps         float32 // added to the root of the corrected second moment
	WeightDecay float32 // decoupled: w shrinks by LR*WeightDecay
	Correction1 float32 // 1 - Beta1^t
	Correction2 float32 // 1 - Beta2^t
	GradScale   float32 // multiplies the gradient first: clipping and averaging
}

// AdamW updates weights w and moments m, v by gradient g, exact:
//
//	decay, step := 1-p.LR*p.WeightDecay, p.LR/p.Correction1
//	root := float32(1 / math.Sqrt(float64(p.Correction2)))
//	for i := range w {
//		gi := g[i] * p.GradScale
//		m[i] = p.Beta1*m[i] + (1-p.Beta1)*gi
//		v[i] = p.Beta2*v[i] + (1-p.Beta2)*gi*gi
//		w[i] = decay*w[i] - step*m[i]/(sqrt(v[i])*root+p.Eps)
//	}
//
// Every operation is in float32 and rounds by itself. Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization", 2019, algorithm 2.
func (s Set) AdamW(w, m, v, g []float32, p AdamW) {
	want("AdamW", len(w), len(m), len(v), len(g))
	s.t.adamW(w, m, v, g, p)
}

// SGD updates weights w by gradient g with momentum buffer m (nil: none), exact:
//
//	for i := range w {
//		gi := g[i]*gradScale + weightDecay*w[i]
//		m[i] = momentum*m[i] + gi
//		w[i] -= lr * m[i] // lr * gi without a buffer
//	}
func (s Set) SGD(w, m, g []float32, lr, momentum, weightDecay, gradScale float32) {
	want("SGD", len(w), len(g))
	if m != nil {
		want("SGD", len(w), len(m))
	}
	for i := range w {
		gi := float32(g[i]*gradScale) + float32(weightDecay*w[i])
		if m != nil {
			gi += float32(momentum * m[i])
			m[i] = gi
		}
		w[i] -= float32(lr * gi)
	}
}
