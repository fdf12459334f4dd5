package kernel

func ropeGeneric(out, x, cos, sin []float32) {
	h := len(cos)
	for i, c := range cos {
		a, b := x[i], x[i+h]
		out[i] = float32(a*c) - float32(b*sin[i])
		out[i+h] = float32(b*c) + float32(a*sin[i])
	}
}
