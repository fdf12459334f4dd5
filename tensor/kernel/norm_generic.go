package kernel

func normMulGeneric(out, x, w []float32, s float32) {
	for i := range out {
		out[i] = float32(x[i]*s) * w[i]
	}
}

func normSubGeneric(dx, dy, x, w []float32, r, k float32) {
	for i := range dx {
		dx[i] = (float32(dy[i]*w[i]) - float32(x[i]*k)) * r
	}
}

func mulAddGeneric(dw, dy, x []float32, r float32) {
	for i := range dw {
		dw[i] += float32(float32(dy[i]*x[i]) * r)
	}
}
