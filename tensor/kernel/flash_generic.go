package kernel

import "math"

// flash is the kernels of attention in one set.
type flash struct {
	product func(p flashProduct)
	// softmax is FlashForward's part between the products, the first key being at position at.
	softmax func(n int, s []float32, c float32, at int, state []float32, lo, hi []int32, masked bool)
	probs   func(rows, n int, p, d []float32, ld int, c, scale float32, lse, delta []float32, lo, hi []int32, masked bool)
}

var genericFlash = flash{flashProductGeneric, flashSoftmaxGeneric, flashProbsGeneric}

var minusInf = float32(math.Inf(-1))

func flashProductGeneric(p flashProduct) {
	for i := range p.m {
		row := p.c[i*p.ldc:][:p.n]
		switch p.mode {
		case flashStore:
			clear(row)
		case flashScale:
			for j := range row {
				row[j] *= p.f[j]
			}
		}
		at, step := i*p.lda, 1
		if p.cols {
			at, step = i, p.lda
		}
		for k := range p.k {
			x := p.a[at+k*step]
			for j, y := range p.b[k*p.ldb:][:p.n] {
				row[j] += float32(x * y)
			}
		}
	}
}

// exp2 is 2 to the power of x, 0 below 2⁻¹²⁵.
func exp2(x float32) float32 {
	if x < -125 {
		return 0
	}
	return float32(math.Exp2(float64(x)))
}

func flashSoftmaxGeneric(n int, s []float32, c float32, at int, state []float32, lo, hi []int32, masked bool) {
	const w = tileN
	for i := range w {
		top := minusInf
		for j := range n {
			x := &s[j*w+i]
			if masked && (at+j < int(lo[i]) || at+j > int(hi[i])) {
				*x = minusInf
			}
			top = max(top, *x)
		}
		m := max(state[i], float32(c*top))
		shift := m
		if m == minusInf {
			shift = 0
		}
		f := exp2(state[i] - shift)
		var sum [4]float32
		for j := range n {
			x := &s[j*w+i]
			*x = exp2(float32(*x*c) - shift)
			sum[j%4] += *x
		}
		state[i], state[2*w+i] = m, f
		state[w+i] = float32(state[w+i]*f) + ((sum[0] + sum[2]) + (sum[1] + sum[3]))
	}
}

func flashProbsGeneric(rows, n int, p, d []float32, ld int, c, scale float32, lse, delta []float32, lo, hi []int32, masked bool) {
	for i := range rows {
		x, y := p[i*ld:][:n], d[i*ld:][:n]
		for j := range x {
			if masked && (int32(j) < lo[i] || int32(j) > hi[i]) {
				x[j], y[j] = 0, 0
				continue
			}
			x[j] = exp2(float32(x[j]*c) - lse[i])
			y[j] = x[j] * (float32(y[j]*scale) - delta[i])
		}
	}
}
