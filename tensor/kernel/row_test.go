package kernel

import (
	"math"
	"slices"
	"testing"
)

// rowSizes are every short length and a few long ones.
func rowSizes() []int {
	var n []int
	for i := range 68 {
		n = append(n, i)
	}
	return append(n, 127, 576, 1000)
}

func TestReductions(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		for _, n := range rowSizes() {
			for off := range 4 {
				_, in := buffers(n, 3, off)
				for i := range in {
					copy(in[i], random(r, n))
				}
				x, y, z := in[0], in[1], in[2]
				var sum, abs, sq, dot, dotAbs, tri, triAbs float64
				largest := float32(math.Inf(-1))
				for i, v := range x {
					a, b, c := float64(v), float64(y[i]), float64(z[i])
					sum, abs, sq, dot, dotAbs = sum+a, abs+math.Abs(a), sq+a*a, dot+a*b, dotAbs+math.Abs(a*b)
					tri, triAbs = tri+a*b*c, triAbs+math.Abs(a*b*c)
					largest = max(largest, v)
				}
				g := Generic()
				for _, c := range []struct {
					name           string
					got, ref, want float64
					bound          float64
					exact          bool
				}{
					{"Sum", s.Sum(x), g.Sum(x), sum, 0x1p-50 * abs * float64(n), true},
					{"SumSquares", s.SumSquares(x), g.SumSquares(x), sq, 0x1p-50 * sq * float64(n), true},
					{"SumMul", s.SumMul(x, y), g.SumMul(x, y), dot, 0x1p-50 * dotAbs * float64(n), true},
					{"sumMul3", s.t.sumMul3(x, y, z), g.t.sumMul3(x, y, z), tri, 0x1p-50 * triAbs * float64(n), true},
					{"Dot", float64(s.Dot(x, y)), 0, dot, (float64(n)/32 + 6) * ulp * dotAbs, false},
					{"Max", float64(s.Max(x)), float64(largest), float64(largest), 0, true},
				} {
					if !(math.Abs(c.got-c.want) <= c.bound) && c.got != c.want {
						t.Fatalf("%s n %d offset %d: got %v, want %v ± %v", c.name, n, off, c.got, c.want, c.bound)
					}
					if c.exact && math.Float64bits(c.got) != math.Float64bits(c.ref) {
						t.Fatalf("%s n %d offset %d: got %v, want the generic bits %v", c.name, n, off, c.got, c.ref)
					}
				}
			}
		}
	})
}

func TestReductionsSpecial(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachSet(t, func(t *testing.T, s Set) {
		for n := 1; n < 68; n++ {
			for i := range n {
				x, one := make([]float32, n), make([]float32, n)
				for j := range x {
					x[j], one[j] = -1, 1
				}
				for _, v := range []float32{nan, inf, 5} {
					x[i] = v
					for name, got := range map[string]float64{
						"Max": float64(s.Max(x)), "Sum": s.Sum(x) + float64(n-1), "Dot": float64(s.Dot(x, one)) + float64(n-1),
						"SumMul": s.SumMul(one, x) + float64(n-1),
					} {
						if want := float64(v); got != want && got == got || math.IsNaN(got) != math.IsNaN(want) {
							t.Fatalf("%s with %v at %d of %d: got %v, want %v", name, v, i, n, got, want)
						}
					}
				}
			}
			den := make([]float32, n)
			for j := range den {
				den[j] = 0x1p-149
			}
			if got, want := s.Sum(den), float64(n)*0x1p-149; got != want {
				t.Fatalf("Sum of %d denormals: got %v, want %v", n, got, want)
			}
			if got := s.Max(den); got != 0x1p-149 {
				t.Fatalf("Max of denormals: got %v", got)
			}
		}
	})
}

// rowCase is a row of length n with the operands of the norms, as float32 and float64.
type rowCase struct {
	dy, x, w, b     []float32
	dyD, xD, wD, bD []float64
}

func widen(x []float32) []float64 {
	d := make([]float64, len(x))
	for i, v := range x {
		d[i] = float64(v)
	}
	return d
}

func newRow(n, seed int) rowCase {
	r := newRand()
	for range seed {
		r.Uint64()
	}
	c := rowCase{dy: random(r, n), x: random(r, n), w: random(r, n), b: random(r, n)}
	c.dyD, c.xD, c.wD, c.bD = widen(c.dy), widen(c.x), widen(c.w), widen(c.b)
	return c
}

// near checks got against want within tol of the largest |want|, or of a larger term that cancelled.
func near(t *testing.T, what string, got []float32, want []float64, tol float64, terms ...float64) {
	t.Helper()
	size := slices.Max(append(terms, 0))
	for _, w := range want {
		size = max(size, math.Abs(w))
	}
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w) <= tol*size) {
			t.Fatalf("%s of %d at %d: got %v, want %v ± %v", what, len(want), i, got[i], w, tol*size)
		}
	}
}

// central is the gradient of f at x by central differences.
func central(f func(x []float64) float64, x []float64) []float64 {
	g := make([]float64, len(x))
	for i, v := range x {
		h := 1e-5 * max(1, math.Abs(v))
		x[i] = v + h
		hi := f(x)
		x[i] = v - h
		lo := f(x)
		x[i] = v
		g[i] = (hi - lo) / (2 * h)
	}
	return g
}

// against sums y·dy, the function whose gradient a backward kernel gives.
func against(dy []float64, f func(x []float64) []float64) func(x []float64) float64 {
	return func(x []float64) float64 {
		s := 0.0
		for i, v := range f(x) {
			s += v * dy[i]
		}
		return s
	}
}

const gradTol = 2e-6 // float32 rounding and the differences' own error

func rmsNorm64(x, w []float64, eps float64) []float64 {
	q := 0.0
	for _, v := range x {
		q += v * v
	}
	r := 1 / math.Sqrt(q/float64(len(x))+eps)
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v * r * w[i]
	}
	return y
}

func layerNorm64(x, w, b []float64, eps float64) []float64 {
	var mean, q float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		q += (v - mean) * (v - mean)
	}
	r := 1 / math.Sqrt(q/float64(len(x))+eps)
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v-mean)*r*w[i] + b[i]
	}
	return y
}

func softmax64(x []float64) []float64 {
	m, s := slices.Max(x), 0.0
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = math.Exp(v - m)
		s += y[i]
	}
	for i := range y {
		y[i] /= s
	}
	return y
}

func TestRMSNorm(t *testing.T) {
	const eps = 1e-5
	eachSet(t, func(t *testing.T, s Set) {
		for _, n := range rowSizes() {
			c := newRow(n, n)
			g, out := buffers(n, 3, n%4)
			rstd := s.RMSNorm(out[0], c.x, c.w, eps)
			s.RMSNormGrad(out[1], c.dy, c.x, c.w, rstd)
			s.RMSNormGradWeight(zeroed(out[2]), c.dy, c.x, rstd)
			for i := range g {
				g[i].check(t, "RMSNorm")
			}
			if n == 0 {
				continue
			}
			near(t, "RMSNorm", out[0], rmsNorm64(c.xD, c.wD, eps), 4*ulp)
			near(t, "RMSNormGrad", out[1], central(against(c.dyD, func(x []float64) []float64 { return rmsNorm64(x, c.wD, eps) }), c.xD), gradTol, math.Abs(c.dyD[0]*c.wD[0])*float64(rstd))
			near(t, "RMSNormGradWeight", out[2], central(against(c.dyD, func(w []float64) []float64 { return rmsNorm64(c.xD, w, eps) }), c.wD), gradTol)

			_, want := buffers(n, 2, 0)
			if r := Generic().RMSNorm(want[0], c.x, c.w, eps); r != rstd {
				t.Fatalf("rstd of %d got %v, want the generic %v", n, rstd, r)
			}
			Generic().RMSNormGrad(want[1], c.dy, c.x, c.w, rstd)
			if !sameBits(out[0], want[0]) || !sameBits(out[1], want[1]) {
				t.Fatalf("RMSNorm of %d differs from the generic bits", n)
			}
			s.RMSNormGrad(c.dy, c.dy, c.x, c.w, rstd)
			s.RMSNorm(c.x, c.x, c.w, eps)
			if !sameBits(c.x, want[0]) || !sameBits(c.dy, want[1]) {
				t.Fatalf("RMSNorm of %d in place differs", n)
			}
		}
	})
}

func zeroed(x []float32) []float32 {
	clear(x)
	return x
}

func TestLayerNorm(t *testing.T) {
	const eps = 1e-5
	eachSet(t, func(t *testing.T, s Set) {
		for _, n := range rowSizes()[2:] {
			c := newRow(n, n)
			g, out := buffers(n, 4, n%4)
			mean, rstd := s.LayerNorm(out[0], c.x, c.w, c.b, eps)
			s.LayerNormGrad(out[1], c.dy, c.x, c.w, mean, rstd)
			s.LayerNormGradWeight(zeroed(out[2]), zeroed(out[3]), c.dy, c.x, mean, rstd)
			for i := range g {
				g[i].check(t, "LayerNorm")
			}
			near(t, "LayerNorm", out[0], layerNorm64(c.xD, c.wD, c.bD, eps), 16*ulp)
			if n > 2 { // of two values the gradient is almost zero, and its differences are noise
				near(t, "LayerNormGrad", out[1], central(against(c.dyD, func(x []float64) []float64 { return layerNorm64(x, c.wD, c.bD, eps) }), c.xD), 10*gradTol)
			}
			near(t, "LayerNormGradWeight", out[2], central(against(c.dyD, func(w []float64) []float64 { return layerNorm64(c.xD, w, c.bD, eps) }), c.wD), 10*gradTol)
			near(t, "LayerNormGradWeight bias", out[3], c.dyD, 0)
			s.LayerNorm(c.x, c.x, c.w, c.b, eps)
			if !sameBits(c.x, out[0]) {
				t.Fatalf("LayerNorm of %d in place differs", n)
			}
			zero := make([]float32, n)
			s.LayerNorm(out[1], narrow(c.xD), c.w, nil, eps)
			s.LayerNorm(out[2], narrow(c.xD), c.w, zero, eps)
			for i := range out[1] {
				if out[1][i] != out[2][i] {
					t.Fatalf("LayerNorm without a bias at %d: got %v, want %v", i, out[1][i], out[2][i])
				}
			}
		}
	})
}

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func TestSoftmax(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		for _, n := range rowSizes()[1:] {
			c := newRow(n, n)
			g := newGuarded(n, n%4)
			copy(g.v, c.x)
			largest, logSum := s.Softmax(g.v)
			g.check(t, "Softmax")
			want := softmax64(c.xD)
			sum := 0.0
			for i, w := range want {
				if d := math.Abs(float64(g.v[i]) - w); d > (4+slices.Max(c.xD)-c.xD[i])*ulp*w {
					t.Fatalf("Softmax of %d at %d: got %v, want %v", n, i, g.v[i], w)
				}
				sum += math.Exp(c.xD[i] - slices.Max(c.xD))
			}
			if largest != slices.Max(c.x) || math.Abs(float64(logSum)-math.Log(sum)) > 4*ulp*max(1, math.Log(sum)) {
				t.Fatalf("Softmax of %d: got %v, %v, want %v, %v", n, largest, logSum, slices.Max(c.x), math.Log(sum))
			}
			again := make([]float32, n) // the saved log-sum-exp gives the row back
			s.ExpShift(again, c.x, largest+logSum)
			near(t, "ExpShift", again, want, 64*ulp)

			dx := newGuarded(n, 1)
			s.SoftmaxGrad(dx.v, c.dy, g.v)
			dx.check(t, "SoftmaxGrad")
			if n > 1 {
				num := central(against(c.dyD, softmax64), c.xD)
				for i, w := range num {
					if d := math.Abs(float64(dx.v[i]) - w); d > 1e-6*slices.Max(c.dyD)+1e-6 && d > 1e-5*math.Abs(w) {
						t.Fatalf("SoftmaxGrad of %d at %d: got %v, want %v", n, i, dx.v[i], w)
					}
				}
			}
		}
	})
}

func TestSoftmaxSpecial(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachSet(t, func(t *testing.T, s Set) {
		if m, l := s.Softmax(nil); !math.IsInf(float64(m), -1) || l != 0 {
			t.Errorf("empty row: got %v, %v", m, l)
		}
		for n := 1; n < 40; n++ {
			x := make([]float32, n)
			for i := range x {
				x[i] = -inf
			}
			if m, l := s.Softmax(x); m != -inf || l != 0 || slices.Max(x) != 0 || slices.Min(x) != 0 {
				t.Fatalf("masked row of %d: got %v, %v, %v", n, m, l, x)
			}
			for i := range x {
				x[i] = -inf
			}
			x[n/2] = 700 // the only key that is not masked
			if m, l := s.Softmax(x); m != 700 || l != 0 || x[n/2] != 1 || slices.Min(x[:n/2+1]) != x[0] {
				t.Fatalf("row of %d with one key: got %v, %v, %v", n, m, l, x)
			}
			for _, bad := range []float32{nan, inf} {
				for i := range x {
					x[i] = 1
				}
				x[n-1] = bad
				s.Softmax(x)
				if x[n-1] == x[n-1] {
					t.Fatalf("row of %d with %v: got %v, want NaN", n, bad, x)
				}
			}
		}
	})
}

func TestRope(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		for h := range 68 {
			x := random(r, 2*h)
			cos, sin := make([]float32, h), make([]float32, h)
			want := make([]float64, 2*h)
			for i := range h {
				c, n := math.Cos(float64(i*h)), math.Sin(float64(i*h))
				cos[i], sin[i] = float32(c), float32(n)
				want[i] = float64(x[i])*c - float64(x[i+h])*n
				want[i+h] = float64(x[i+h])*c + float64(x[i])*n
			}
			g := newGuarded(2*h, h%4)
			s.Rope(g.v, x, cos, sin)
			g.check(t, "Rope")
			near(t, "Rope", g.v, want, 4*ulp)
			ref := make([]float32, 2*h)
			Generic().Rope(ref, x, cos, sin)
			if !sameBits(g.v, ref) {
				t.Fatalf("Rope of %d differs from the generic bits", 2*h)
			}
			back := newGuarded(2*h, 1)
			s.RopeGrad(back.v, g.v, cos, sin)
			back.check(t, "RopeGrad")
			near(t, "RopeGrad", back.v, widen(x), 4*ulp)
			s.Rope(x, x, cos, sin)
			if !sameBits(x, ref) {
				t.Fatalf("Rope of %d in place differs", 2*h)
			}
		}
	})
}

// TestActivationGradients checks the backward kernels by central differences of the float64 functions.
func TestActivationGradients(t *testing.T) {
	silu := func(g float64) float64 { return g / (1 + math.Exp(-g)) }
	gelu := func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }
	geluTanh := func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	slope := func(f func(float64) float64, x float64) float64 { return (f(x+1e-5) - f(x-1e-5)) / 2e-5 }
	eachSet(t, func(t *testing.T, s Set) {
		const n = 1000
		c := newRow(n, 5)
		want := map[string][]float64{}
		for i := range n {
			x, u, d := c.xD[i], c.wD[i], c.dyD[i]
			for name, v := range map[string]float64{
				"Silu": silu(x), "SwiGLU": silu(x) * u, "SwiGLUGrad gate": d * u * slope(silu, x), "SwiGLUGrad up": d * silu(x),
				"Gelu": gelu(x), "GeluGrad": d * slope(gelu, x), "GeluTanh": geluTanh(x), "GeluTanhGrad": d * slope(geluTanh, x),
			} {
				want[name] = append(want[name], v)
			}
		}
		got := func(f func(out []float32)) []float32 {
			out := make([]float32, n)
			f(out)
			return out
		}
		dgate, dup := make([]float32, n), make([]float32, n)
		s.SwiGLUGrad(dgate, dup, c.dy, c.x, c.w)
		for name, out := range map[string][]float32{
			"Silu": got(func(o []float32) { s.Silu(o, c.x) }), "SwiGLU": got(func(o []float32) { s.SwiGLU(o, c.x, c.w) }),
			"SwiGLUGrad gate": dgate, "SwiGLUGrad up": dup,
			"Gelu": got(func(o []float32) { s.Gelu(o, c.x) }), "GeluGrad": got(func(o []float32) { s.GeluGrad(o, c.dy, c.x) }),
			"GeluTanh": got(func(o []float32) { s.GeluTanh(o, c.x) }), "GeluTanhGrad": got(func(o []float32) { s.GeluTanhGrad(o, c.dy, c.x) }),
		} {
			near(t, name, out, want[name], gradTol)
		}
	})
}

// TestOptimisers follows three steps of each optimiser in float64.
func TestOptimisers(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		const n, lr, b1, b2, eps, wd, scale = 37, 1e-2, 0.9, 0.999, 1e-8, 0.1, 0.5
		r := newRand()
		w, m, v := random(r, n), make([]float32, n), make([]float32, n)
		sw, sm, plain := slices.Clone(w), make([]float32, n), slices.Clone(w)
		wD, mD, vD := widen(w), make([]float64, n), make([]float64, n)
		swD, smD, plainD := widen(w), make([]float64, n), widen(w)
		for step := 1; step <= 3; step++ {
			g := random(r, n)
			c1, c2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
			s.AdamW(w, m, v, g, AdamW{LR: lr, Beta1: b1, Beta2: b2, Eps: eps, WeightDecay: wd, Correction1: float32(c1), Correction2: float32(c2), GradScale: scale})
			s.SGD(sw, sm, g, lr, b1, wd, scale)
			s.SGD(plain, nil, g, lr, b1, wd, scale)
			for i := range g {
				d := float64(g[i]) * scale
				mD[i] = b1*mD[i] + (1-b1)*d
				vD[i] = b2*vD[i] + (1-b2)*d*d
				wD[i] -= lr * wd * wD[i]
				wD[i] -= lr * (mD[i] / c1) / (math.Sqrt(vD[i]/c2) + eps)
				smD[i] = b1*smD[i] + d + wd*swD[i]
				swD[i] -= lr * smD[i]
				plainD[i] -= lr * (d + wd*plainD[i])
			}
		}
		near(t, "AdamW", w, wD, 4e-6) // 1-0.999 in float32 is off by 5e-5 relative, which the correction shares
		near(t, "SGD with momentum", sw, swD, 8*ulp)
		near(t, "SGD", plain, plainD, 8*ulp)
	})
}

func TestRowAllocs(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		c := newRow(100, 1)
		got := testing.AllocsPerRun(10, func() {
			rstd := s.RMSNorm(c.x, c.x, c.w, 1e-5)
			s.RMSNormGrad(c.dy, c.dy, c.x, c.w, rstd)
			s.Softmax(c.b)
			s.AdamW(c.x, c.w, c.b, c.dy, adam)
			s.Rope(c.x, c.x, c.w[:50], c.w[50:])
			s.SwiGLUGrad(c.x, c.w, c.dy, c.x, c.w)
			c.x[0] = s.Dot(c.x, c.w) + float32(s.Sum(c.x)) + s.Max(c.x)
		})
		if got != 0 {
			t.Errorf("row kernels allocate %v times, want 0", got)
		}
	})
}
