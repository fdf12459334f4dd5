package kernel

func ropeGeneric(out, x, cos, sin []float32, sign float32) {
	h := len(cos)
	for i, c := range cos {
		a, b, s := x[i], x[i+h], sign*sin[i]
		out[i] = float32(a*c) - float32(b*s)
		out[i+h] = float32(b*c) + float32(a*s)
	}
}
