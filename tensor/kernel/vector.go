package kernel

// Add is exact and in place:
//
//	for i := range out { out[i] = x[i] + y[i] }
func (s Set) Add(out, x, y []float32) {
	want("Add", len(out), len(x), len(y))
	s.t.add(out, x, y)
}

// Mul is exact and in place:
//
//	for i := range out { out[i] = x[i] * y[i] }
func (s Set) Mul(out, x, y []float32) {
	want("Mul", len(out), len(x), len(y))
	s.t.mul(out, x, y)
}

// Axpy is exact (two roundings):
//
//	for i := range y { y[i] += float32(a * x[i]) }
func (s Set) Axpy(y []float32, a float32, x []float32) {
	want("Axpy", len(y), len(x))
	s.t.axpy(y, a, x)
}

// Scale is exact and in place:
//
//	for i := range out { out[i] = a * x[i] }
func (s Set) Scale(out []float32, a float32, x []float32) {
	want("Scale", len(out), len(x))
	s.t.scale(out, a, x)
}
