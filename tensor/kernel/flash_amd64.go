//go:build amd64 && !purego

package kernel

//go:generate go -C gen run . -set avx2 -part flash -out ../flash_avx2_amd64.s -stubs ../flash_avx2_amd64.go -pkg kernel
//go:generate go -C gen run . -set avx512 -part flash -out ../flash_avx512_amd64.s -stubs ../flash_avx512_amd64.go -pkg kernel

var (
	avx2Flash   = flash{flashProductAVX2, flashSoftmax2, flashProbs2}
	avx512Flash = flash{flashProductAVX512, flashSoftmax512, flashProbs512}
)

// check panics where an operand is shorter than the product reaches; it returns the first factor.
func (p flashProduct) check() *float32 {
	last := (p.m-1)*p.lda + p.k - 1
	if p.cols {
		last = p.m - 1 + (p.k-1)*p.lda
	}
	if p.k > 0 {
		_, _ = p.a[last], p.b[(p.k-1)*p.ldb+p.n-1]
	}
	_ = p.c[(p.m-1)*p.ldc+p.n-1]
	if p.mode != flashScale {
		return nil
	}
	_ = p.f[p.n-1]
	return &p.f[0]
}

func flashProductAVX2(p flashProduct) {
	f := p.check()
	switch {
	case p.n == tileN && p.cols:
		flashColsAVX2(p.m, p.k, &p.a[0], 4*p.lda, &p.b[0], 4*p.ldb, &p.c[0], 4*p.ldc, p.mode, f)
	case p.n == tileN:
		flashRowsAVX2(p.m, p.k, &p.a[0], 4*p.lda, &p.b[0], 4*p.ldb, &p.c[0], 4*p.ldc, p.mode, f)
	case p.cols:
		flashColsHalfAVX2(p.m, p.k, &p.a[0], 4*p.lda, &p.b[0], 4*p.ldb, &p.c[0], 4*p.ldc, p.mode, f)
	default:
		flashRowsHalfAVX2(p.m, p.k, &p.a[0], 4*p.lda, &p.b[0], 4*p.ldb, &p.c[0], 4*p.ldc, p.mode, f)
	}
}

func flashProductAVX512(p flashProduct) {
	f := p.check()
	switch {
	case p.n == tileN512 && p.cols:
		flashColsAVX512(p.m, p.k, &p.a[0], 4*p.lda, &p.b[0], 4*p.ldb, &p.c[0], 4*p.ldc, p.mode, f)
	case p.n == tileN512:
		flashRowsAVX512(p.m, p.k, &p.a[0], 4*p.lda, &p.b[0], 4*p.ldb, &p.c[0], 4*p.ldc, p.mode, f)
	case p.cols:
		flashColsHalfAVX512(p.m, p.k, &p.a[0], 4*p.lda, &p.b[0], 4*p.ldb, &p.c[0], 4*p.ldc, p.mode, f)
	default:
		flashRowsHalfAVX512(p.m, p.k, &p.a[0], 4*p.lda, &p.b[0], 4*p.ldb, &p.c[0], 4*p.ldc, p.mode, f)
	}
}

func flashSoftmax2(n int, s []float32, c float32, at int, state []float32, lo, hi []int32, masked bool) {
	_, _, _, _ = s[n*tileN-1], state[3*tileN-1], lo[tileN-1], hi[tileN-1]
	if masked {
		flashSoftmaxAVX2(n, &s[0], c, int32(at), &state[0], &lo[0], &hi[0])
		return
	}
	flashSoftmaxAVX2(n, &s[0], c, int32(at), &state[0], nil, nil)
}

func flashSoftmax512(n int, s []float32, c float32, at int, state []float32, lo, hi []int32, masked bool) {
	_, _, _, _ = s[n*tileN512-1], state[3*tileN512-1], lo[tileN512-1], hi[tileN512-1]
	if masked {
		flashSoftmaxAVX512(n, &s[0], c, int32(at), &state[0], &lo[0], &hi[0])
		return
	}
	flashSoftmaxAVX512(n, &s[0], c, int32(at), &state[0], nil, nil)
}

func flashProbs2(rows, n int, p, d []float32, ld int, c, scale float32, lse, delta []float32, lo, hi []int32, masked bool) {
	if masked {
		flashProbsAVX2(rows, n/8, &p[0], &d[0], 4*ld, c, scale, &lse[0], &delta[0], &lo[0], &hi[0])
		return
	}
	flashProbsAVX2(rows, n/8, &p[0], &d[0], 4*ld, c, scale, &lse[0], &delta[0], nil, nil)
}

func flashProbs512(rows, n int, p, d []float32, ld int, c, scale float32, lse, delta []float32, lo, hi []int32, masked bool) {
	if masked {
		flashProbsAVX512(rows, n/16, &p[0], &d[0], 4*ld, c, scale, &lse[0], &delta[0], &lo[0], &hi[0])
		return
	}
	flashProbsAVX512(rows, n/16, &p[0], &d[0], 4*ld, c, scale, &lse[0], &delta[0], nil, nil)
}
