package kernel

// Rope rotates one head of one position, in place, pairing element i with i+n/2 ("rotate_half"). cos and
// sin hold n/2 values of the position's angles; Its gradient is RopeGrad, the inverse
// rotation. Exact:
//
//	h := len(x) / 2
//	for i := range h {
//		a, b := x[i], x[i+h]
//		out[i] = float32(a*cos[i]) - float32(b*sin[i])
//		out[i+h] = float32(b*cos[i]) + float32(a*sin[i])
//	}
//
// Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
func (s Set) Rope(out, x, cos, sin []float32) {
	want("Rope", len(out), len(x), 2*len(cos), 2*len(sin))
	s.t.rope(out, x, cos, sin, 1)
}

// RopeGrad is Rope's inverse rotation with the same tables:
//
//	out[i] = float32(a*cos[i]) + float32(b*sin[i])
//	out[i+h] = float32(b*cos[i]) - float32(a*sin[i])
func (s Set) RopeGrad(out, x, cos, sin []float32) {
	want("RopeGrad", len(out), len(x), 2*len(cos), 2*len(sin))
	s.t.rope(out, x, cos, sin, -1)
}
