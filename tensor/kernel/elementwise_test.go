package kernel

import (
	"fmt"
	"math"
	"testing"
)

// elementwise is a kernel of which each output element depends on the inputs at its own index alone.
type elementwise struct {
	name    string
	in, out int
	// run reads in and writes out; an accumulating kernel first copies inputs to outputs.
	run func(s Set, out, in [][]float32)
	// bound is the allowed error of output o against the generic kernel, of which want is the result;
	// nil where sets agree bit for bit.
	bound func(o int, want float64, in []float64) float64
}

var adam = AdamW{LR: 3e-4, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, Correction1: 0.271, Correction2: 0.142625, GradScale: 0.37}

const (
	ulp  = 0x1p-23
	tiny = 0x1p-120
)

var kernels = []elementwise{
	{"Add", 2, 1, func(s Set, o, x [][]float32) { s.Add(o[0], x[0], x[1]) }, nil},
	{"Mul", 2, 1, func(s Set, o, x [][]float32) { s.Mul(o[0], x[0], x[1]) }, nil},
	{"Axpy", 2, 1, func(s Set, o, x [][]float32) { copy(o[0], x[0]); s.Axpy(o[0], 1.7, x[1]) }, nil},
	{"Scale", 1, 1, func(s Set, o, x [][]float32) { s.Scale(o[0], -0.3, x[0]) }, nil},
	{"normMul", 2, 1, func(s Set, o, x [][]float32) { s.t.normMul(o[0], x[0], x[1], 0.7) }, nil},
	{"normSub", 3, 1, func(s Set, o, x [][]float32) { s.t.normSub(o[0], x[0], x[1], x[2], 0.7, 0.2) }, nil},
	{"subMul", 2, 1, func(s Set, o, x [][]float32) { s.t.subMul(o[0], x[0], x[1], 0.3) }, nil},
	{"RMSNormGradWeight", 3, 1, func(s Set, o, x [][]float32) {
		copy(o[0], x[0])
		s.RMSNormGradWeight(o[0], x[1], x[2], 0.7)
	}, nil},
	{"LayerNormGradWeight", 4, 2, func(s Set, o, x [][]float32) {
		copy(o[0], x[0])
		copy(o[1], x[1])
		s.LayerNormGradWeight(o[0], o[1], x[2], x[3], 0.1, 0.7)
	}, nil},
	{"AdamW", 4, 3, func(s Set, o, x [][]float32) {
		for i := range 3 {
			copy(o[i], x[i])
		}
		for i, v := range o[2] {
			if v < 0 { // a second moment is not negative
				o[2][i] = -v
			}
		}
		s.AdamW(o[0], o[1], o[2], x[3], adam)
	}, nil},
	{"SGD", 3, 2, func(s Set, o, x [][]float32) {
		copy(o[0], x[0])
		copy(o[1], x[1])
		s.SGD(o[0], o[1], x[2], 0.1, 0.9, 0.01, 0.5)
	}, nil},
	{"Gelu", 1, 1, func(s Set, o, x [][]float32) { s.Gelu(o[0], x[0]) },
		func(_ int, _ float64, x []float64) float64 { return 4*ulp*math.Abs(x[0]) + tiny }},
	{"GeluGrad", 2, 1, func(s Set, o, x [][]float32) { s.GeluGrad(o[0], x[0], x[1]) },
		func(_ int, _ float64, x []float64) float64 { return 8*ulp*math.Abs(x[0]) + tiny }},
	{"Exp", 1, 1, func(s Set, o, x [][]float32) { s.Exp(o[0], x[0]) },
		func(_ int, want float64, _ []float64) float64 { return ulp*want + 0x1p-126 }},
	{"ExpShift", 1, 1, func(s Set, o, x [][]float32) { s.ExpShift(o[0], x[0], 1.3) },
		func(_ int, want float64, _ []float64) float64 { return ulp*want + 0x1p-126 }},
	{"Silu", 1, 1, func(s Set, o, x [][]float32) { s.Silu(o[0], x[0]) },
		func(_ int, want float64, _ []float64) float64 { return 4*ulp*math.Abs(want) + tiny }},
	{"SwiGLU", 2, 1, func(s Set, o, x [][]float32) { s.SwiGLU(o[0], x[0], x[1]) },
		func(_ int, want float64, x []float64) float64 {
			return 5*ulp*math.Abs(want) + tiny*math.Abs(x[1]) + tiny
		}},
	{"SwiGLUGrad", 3, 2, func(s Set, o, x [][]float32) { s.SwiGLUGrad(o[0], o[1], x[0], x[1], x[2]) },
		func(o int, want float64, x []float64) float64 {
			if o == 1 {
				return 6*ulp*math.Abs(want) + tiny*math.Abs(x[0]) + tiny
			}
			return 8*ulp*math.Abs(x[0]*x[2]) + tiny
		}},
	{"GeluTanh", 1, 1, func(s Set, o, x [][]float32) { s.GeluTanh(o[0], x[0]) },
		func(_ int, _ float64, x []float64) float64 { return 4*ulp*math.Abs(x[0]) + tiny }},
	{"GeluTanhGrad", 2, 1, func(s Set, o, x [][]float32) { s.GeluTanhGrad(o[0], x[0], x[1]) },
		func(_ int, _ float64, x []float64) float64 { return 16*ulp*math.Abs(x[0]) + tiny }},
}

func buffers(n, count, off int) ([]guarded, [][]float32) {
	g, v := make([]guarded, count), make([][]float32, count)
	for i := range g {
		g[i] = newGuarded(n, off+i)
		v[i] = g[i].v
	}
	return g, v
}

func window(x [][]float32, i, j int) [][]float32 {
	w := make([][]float32, len(x))
	for k := range x {
		w[k] = x[k][i:j]
	}
	return w
}

// eachKernel runs f for every elementwise kernel and set.
func eachKernel(t *testing.T, f func(t *testing.T, s Set, k elementwise)) {
	for _, k := range kernels {
		for _, s := range Sets() {
			t.Run(k.name+"/"+s.Name(), func(t *testing.T) { f(t, s, k) })
		}
	}
}

// compare checks a set's outputs against the generic kernel's.
func (k elementwise) compare(t *testing.T, what string, got, want, in [][]float32) {
	t.Helper()
	for o := range got {
		if k.bound == nil {
			if i := diffBits(got[o], want[o]); i >= 0 {
				t.Fatalf("%s: output %d at %d: got %v, want %v", what, o, i, got[o][i], want[o][i])
			}
			continue
		}
		x := make([]float64, len(in))
		for i, w := range want[o] {
			for j := range in {
				x[j] = float64(in[j][i])
			}
			g, w := float64(got[o][i]), float64(w)
			if math.IsNaN(g) && math.IsNaN(w) || g == w {
				continue
			}
			if b := k.bound(o, w, x); !(math.Abs(g-w) <= b) {
				t.Fatalf("%s: output %d at %d of %v: got %v, want %v ± %v", what, o, i, x, g, w, b)
			}
		}
	}
}

func TestElementwise(t *testing.T) {
	eachKernel(t, func(t *testing.T, s Set, k elementwise) {
		r := newRand()
		for n := range 68 {
			for off := range 4 {
				_, in := buffers(n, k.in, off)
				for i := range in {
					copy(in[i], random(r, n))
				}
				g, out := buffers(n, k.out, 3-off)
				k.run(s, out, in)
				what := fmt.Sprintf("n %d offset %d", n, off)
				for i := range g {
					g[i].check(t, what)
				}
				_, want := buffers(n, k.out, 0)
				k.run(Generic(), want, in)
				k.compare(t, what, out, want, in)
			}
		}
	})
}

// TestElementwiseSplits: an element's bits do not depend on where a slice is cut.
func TestElementwiseSplits(t *testing.T) {
	eachKernel(t, func(t *testing.T, s Set, k elementwise) {
		r := newRand()
		const n = 43
		_, in := buffers(n, k.in, 1)
		for i := range in {
			copy(in[i], random(r, n))
		}
		_, want := buffers(n, k.out, 0)
		k.run(s, want, in)
		for i := range n + 1 {
			for j := i; j <= n; j++ {
				_, out := buffers(j-i, k.out, 2)
				k.run(s, out, window(in, i, j))
				for o := range out {
					if d := diffBits(out[o], want[o][i:j]); d >= 0 {
						t.Fatalf("[%d:%d] output %d at %d: got %v, want %v", i, j, o, d, out[o][d], want[o][i+d])
					}
				}
			}
		}
	})
}

// TestElementwiseSpecial feeds NaN, infinities, zeros, denormals and the ends of the range.
func TestElementwiseSpecial(t *testing.T) {
	inf := float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), math.Float32frombits(0x7fc00002), math.Float32frombits(0xffc12345),
		inf, -inf, 1, -1, 0x1p-149, -0x1p-149, 0x1p-127, 0x1p-126, -0x1p-126, 1e30, -1e30, 3e38, -3e38,
		88.7, 88.73, 89, 90, -87.3, -88, -100, -103.9, -104, -105, 16, -16, 40, -40, 1e-20, -1e-20}
	eachKernel(t, func(t *testing.T, s Set, k elementwise) {
		r := newRand()
		n := len(special)
		for which := range k.in { // one input is special, the others are ordinary
			for shift := range 8 {
				_, in := buffers(n+shift, k.in, 0)
				for i := range in {
					copy(in[i], random(r, n+shift))
				}
				copy(in[which][shift:], special)
				_, out := buffers(n+shift, k.out, 0)
				_, want := buffers(n+shift, k.out, 0)
				k.run(s, out, in)
				k.run(Generic(), want, in)
				skipOverflow(out, want, in)
				k.compare(t, fmt.Sprintf("input %d special", which), out, want, in)
			}
		}
	})
}

// skipOverflow makes equal the outputs whose inputs are finite and above 1e18: there an intermediate
// product in float32 may overflow where float64's does not.
func skipOverflow(got, want, in [][]float32) {
	for o := range got {
		for i := range got[o] {
			big := 0
			for j := range in {
				if a := math.Abs(float64(in[j][i])); a > 1e18 && !math.IsInf(a, 0) {
					big++
				}
			}
			if len(in) > 1 && big > 0 && (got[o][i] != got[o][i] || math.IsInf(float64(got[o][i]), 0)) {
				got[o][i] = want[o][i]
			}
		}
	}
}

// TestElementwiseInPlace: the first output may be any input of the kernels documented so.
func TestElementwiseInPlace(t *testing.T) {
	inPlace := map[string][]int{"Add": {0, 1}, "Mul": {0, 1}, "Scale": {0}, "Exp": {0}, "ExpShift": {0}, "Silu": {0},
		"SwiGLU": {0, 1}, "SwiGLUGrad": {0, 1, 2}, "Gelu": {0}, "GeluGrad": {0, 1}, "GeluTanh": {0}, "GeluTanhGrad": {0, 1}, "subMul": {0}, "normSub": {0, 1}, "normMul": {0}}
	eachKernel(t, func(t *testing.T, s Set, k elementwise) {
		r := newRand()
		for _, which := range inPlace[k.name] {
			for _, n := range []int{1, 7, 8, 29} {
				_, in := buffers(n, k.in, 0)
				for i := range in {
					copy(in[i], random(r, n))
				}
				_, want := buffers(n, k.out, 0)
				k.run(s, want, in)
				_, out := buffers(n, k.out, 0)
				out[0] = in[which]
				k.run(s, out, in)
				for o := range out {
					if i := diffBits(out[o], want[o]); i >= 0 {
						t.Fatalf("in place of input %d, n %d, output %d at %d: got %v, want %v", which, n, o, i, out[o][i], want[o][i])
					}
				}
			}
		}
	})
}

// TestExpUlp sweeps the whole range of the exponential.
func TestExpUlp(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		const n = 1 << 12
		x, out := make([]float32, n), make([]float32, n)
		worst, at := 0.0, float32(0)
		for lo := float32(-104.5); lo < 89; lo += 0.5 {
			for i := range x {
				x[i] = lo + float32(i)*(0.5/n)
			}
			s.Exp(out, x)
			for i, v := range x {
				want := math.Exp(float64(v))
				if want >= 0x1.ffffffp127 {
					if !math.IsInf(float64(out[i]), 1) {
						t.Fatalf("exp(%v) got %v, want +Inf", v, out[i])
					}
					continue
				}
				if want < 0x1p-126 {
					if out[i] != 0 && math.Abs(float64(out[i])-want) > 0x1p-149 {
						t.Fatalf("exp(%v) got %v, want 0 or %v", v, out[i], want)
					}
					continue
				}
				_, e := math.Frexp(want)
				unit := math.Exp2(float64(e - 24))
				if d := math.Abs(float64(out[i])-want) / unit; d > worst {
					worst, at = d, v
				}
			}
		}
		t.Logf("worst error %.3f ulp at %v", worst, at)
		if worst > 1 {
			t.Errorf("worst error got %.3f ulp at %v, want at most 1", worst, at)
		}
	})
}

func BenchmarkElementwise(b *testing.B) {
	const n = 4096
	for _, k := range kernels {
		for _, s := range Sets() {
			b.Run(fmt.Sprintf("%s/%d/%s", k.name, n, s.Name()), func(b *testing.B) {
				r := newRand()
				_, in := buffers(n, k.in, 0)
				for i := range in {
					copy(in[i], random(r, n))
				}
				_, out := buffers(n, k.out, 0)
				b.SetBytes(4 * n * int64(k.in+k.out))
				for b.Loop() {
					k.run(s, out, in)
				}
				b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelem/s")
			})
		}
	}
}
