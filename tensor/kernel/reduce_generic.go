package kernel

import "math"

func dotGeneric(x, y []float32) float32 {
	var l [32]float32
	for i := range x {
		l[i%32] += float32(x[i] * y[i])
	}
	for h := 16; h > 0; h /= 2 {
		for i := range h {
			l[i] += l[i+h]
		}
	}
	return l[0]
}

// lanes is the sixteen running sums of the float64 reductions.
type lanes [16]float64

func (l *lanes) fold() float64 {
	for h := 8; h > 0; h /= 2 {
		for i := range h {
			l[i] += l[i+h]
		}
	}
	return l[0]
}

func sumGeneric(x []float32) float64 {
	var l lanes
	for i, v := range x {
		l[i%16] += float64(v)
	}
	return l.fold()
}

func sumSquaresGeneric(x []float32) float64 { return sumMulGeneric(x, x) }

func sumMulGeneric(x, y []float32) float64 {
	var l lanes
	for i, v := range x {
		l[i%16] += float64(v) * float64(y[i]) // fused or not, the product is exact
	}
	return l.fold()
}

// sumMul3Generic is the sum of float64(x)*float64(y)*float64(z), each product rounded to float64.
func sumMul3Generic(x, y, z []float32) float64 {
	var l lanes
	for i, v := range x {
		l[i%16] += float64(float64(v) * float64(y[i]) * float64(z[i]))
	}
	return l.fold()
}

func maxGeneric(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m || v != v {
			m = v
		}
	}
	return m
}
