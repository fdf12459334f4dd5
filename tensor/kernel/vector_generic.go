package kernel

func addGeneric(out, x, y []float32) {
	for i := range out {
		out[i] = x[i] + y[i]
	}
}

func mulGeneric(out, x, y []float32) {
	for i := range out {
		out[i] = x[i] * y[i]
	}
}

func axpyGeneric(y []float32, a float32, x []float32) {
	for i := range y {
		y[i] += float32(a * x[i])
	}
}

func scaleGeneric(out []float32, a float32, x []float32) {
	for i := range out {
		out[i] = a * x[i]
	}
}
