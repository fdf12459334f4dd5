package kernel

func subMulGeneric(dx, dy, y []float32, d float32) {
	for i := range dx {
		dx[i] = (dy[i] - d) * y[i]
	}
}
