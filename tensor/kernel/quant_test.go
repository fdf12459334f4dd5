package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"loadline/tensor/quant"
)

// quantTypes are the formats that GemmQuant takes.
var quantTypes = []quant.Type{quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q8_0, quant.Q2_K, quant.Q3_K, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL, quant.IQ4_XS, quant.MXFP4}

// randomWeights returns rows of a file of n rows of k elements, any codes and scales.
func randomWeights(r *rand.Rand, t quant.Type, n, k int) []byte {
	p := make([]byte, n*k/t.BlockElems()*t.BlockBytes())
	x := make([]float32, t.BlockElems())
	for b := 0; b < len(p); b += t.BlockBytes() {
		block := p[b : b+t.BlockBytes()]
		for i := range x {
			x[i] = float32(r.NormFloat64()) / 30
		}
		if err := quant.Encode(block, t, x); err != nil {
			panic(err)
		}
		scales := bytes.Clone(block)
		for i := range block { // any codes, with the scales that were found
			block[i] = byte(r.Uint32())
		}
		keep := map[quant.Type][][2]int{quant.Q4_0: {{0, 2}}, quant.Q4_1: {{0, 4}}, quant.Q5_0: {{0, 2}}, quant.Q5_1: {{0, 4}}, quant.Q8_0: {{0, 2}},
			quant.Q2_K: {{80, 84}}, quant.Q3_K: {{108, 110}}, quant.Q4_K: {{0, 4}}, quant.Q5_K: {{0, 4}}, quant.Q6_K: {{208, 210}}, quant.IQ4_NL: {{0, 2}}, quant.IQ4_XS: {{0, 2}}, quant.MXFP4: {{0, 1}}}
		for _, part := range keep[t] {
			copy(block[part[0]:part[1]], scales[part[0]:])
		}
	}
	return p
}

func packedWeights(t quant.Type, src []byte, n, k int) QuantWeights {
	w := QuantWeights{Type: t, N: n, K: k, Data: bytes.Repeat([]byte{0xcd}, QuantWeightsLen(t, n, k))}
	w.Pack(src, 0)
	return w
}

// TestPackedWeights unpacks panels: every element is what the format says, to the bit, and rows beyond N are zeros.
func TestPackedWeights(t *testing.T) {
	r := newRand()
	for _, typ := range quantTypes {
		n, k := 21, 512
		src := randomWeights(r, typ, n, k)
		want := make([]float32, n*k)
		quant.Decode(want, typ, src)
		w := packedWeights(typ, src, n, k)
		p, _ := panelOf(typ)
		for row := range 32 {
			for step := range k / QuantGroup {
				var u unpacked
				block := step * QuantGroup / p.elems
				u.unpack(typ, w.panel(row, p)[block*p.bytes:][:p.bytes], step%(p.elems/QuantGroup))
				for i, code := range u.codes[row%16] {
					part := 0
					if u.halves {
						part = i / 16
					}
					got := float32(u.scale[part][row%16]*float32(int32(code)-u.zero)) + u.min[part][row%16]
					if row >= n {
						if got != 0 {
							t.Fatalf("%v: row %d beyond the matrix has %v", typ, row, got)
						}
					} else if w := want[row*k+step*QuantGroup+i]; got != w {
						t.Fatalf("%v: row %d, element %d: got %v, want %v", typ, row, step*QuantGroup+i, got, w)
					}
				}
			}
		}
		parts := QuantWeights{Type: typ, N: n, K: k, Data: make([]byte, len(w.Data))}
		rowBytes := len(src) / n
		parts.Pack(src[16*rowBytes:], 16)
		parts.Pack(src[:16*rowBytes], 0)
		if !bytes.Equal(parts.Data, w.Data) {
			t.Errorf("%v: packed in parts it differs", typ)
		}
	}
}

// TestFMA32 compares with the exact sum where float64's alone would be rounded twice.
func TestFMA32(t *testing.T) {
	r := newRand()
	for range 200000 {
		x, y := float32(r.NormFloat64()), float32(r.NormFloat64())
		z := float32(r.NormFloat64() * math.Ldexp(1, r.IntN(60)-30))
		if r.IntN(4) == 0 { // a sum that ends near the middle of two floats
			z = -x * y * (1 + float32(r.IntN(3))*0x1p-24)
		}
		got := fma32(x, y, z)
		// math.FMA rounds the exact sum to float64 once; the sign of what is lost then decides halves.
		s := math.FMA(float64(x), float64(y), float64(z))
		want := float32(s)
		if float64(want) != s {
			lost := exactLoss(x, y, z, s)
			lo, hi := math.Nextafter32(want, float32(math.Inf(-1))), math.Nextafter32(want, float32(math.Inf(1)))
			for _, other := range []float32{lo, hi} {
				if (float64(want)+float64(other))/2 == s && lost != 0 && (lost > 0) == (other > want) {
					want = other
					break
				}
			}
		}
		if got != want {
			t.Fatalf("fma32(%v, %v, %v) = %v, want %v", x, y, z, got, want)
		}
	}
	for _, c := range [][4]float32{{0, 1, 0, 0}, {float32(math.Inf(1)), 1, 1, float32(math.Inf(1))}, {1e30, 1e30, 0, float32(math.Inf(1))}, {1, -1, 1, 0}} {
		if got := fma32(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("fma32(%v) = %v, want %v", c[:3], got, c[3])
		}
	}
	if got := fma32(float32(math.NaN()), 1, 1); got == got {
		t.Errorf("fma32(NaN) = %v", got)
	}
	// 1 + 2⁻²³ and a little less than half of 2⁻²³: float64 rounds that to the half, which float32 then rounds to even, up.
	if got, want := fma32(0x1.000002p-24, 0x1.fffffcp-1, 0x1.000002p0), float32(0x1.000002p0); got != want {
		t.Errorf("got %b, want %b", got, want)
	}
}

// exactLoss is the sign of x·y + z − s.
func exactLoss(x, y, z float32, s float64) float64 {
	p := float64(x) * float64(y)
	v := s - p
	return (p - (s - v)) + (float64(z) - v)
}

// TestQuantizeRows compares every set with the generic one, and that with its definition.
func TestQuantizeRows(t *testing.T) {
	r := newRand()
	const rows, k, ld = 3, 320, 333
	x := random(r, rows*ld)
	copy(x[64:96], make([]float32, 32))
	for i := range 32 {
		x[i+96] = float32(i%5-2) * 1e-45
		x[i+128] *= 1e30
		x[i+160] = 0.5 + float32(i) // halves
	}
	want := make([]byte, QuantizedLen(rows, k))
	Generic().QuantizeRows(want, x, rows, k, ld)
	for row := range rows {
		for g := range k / QuantGroup {
			p := want[QuantizedLen(row, k)+g*quantGroupBytes:]
			v := x[row*ld+g*QuantGroup:][:QuantGroup]
			d := float64(float(p[32:]))
			sum := 0
			for i, v := range v {
				q := int8(p[i])
				sum += int(q)
				if e := math.Abs(float64(q)*d - float64(v)); e > d*0.5001 && d > 1e-37 {
					t.Fatalf("row %d, group %d, element %d: %v is %d times %v", row, g, i, v, q, d)
				}
			}
			if int(int32At(p[40:])+int32At(p[44:])) != -8*sum || int(int32At(p[48:])) != -8*sum || float(p[36:]) != float(p[32:])*float32(sum) || float(p[52:]) != float(p[32:])*float32(int32At(p[40:])/-8) || float(p[56:]) != float(p[32:])*float32(int32At(p[44:])/-8) {
				t.Fatalf("row %d, group %d: sums % x of %d", row, g, p[32:60], sum)
			}
		}
	}
	eachSet(t, func(t *testing.T, s Set) {
		for shift := range 3 { // of where the rows begin
			in := append(make([]float32, shift), x...)[shift:]
			got := append(make([]byte, len(want)), 0xee)
			s.QuantizeRows(got[:len(want)], in, rows, k, ld)
			if got[len(want)] != 0xee {
				t.Fatal("wrote beyond the end")
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("byte %d of group %d: got %#x, want %#x", i%quantGroupBytes, i/quantGroupBytes, got[i], want[i])
				}
			}
		}
		odd := make([]float32, 32)
		odd[7] = float32(math.NaN())
		p := make([]byte, quantGroupBytes)
		s.QuantizeRows(p, odd, 1, 32, 32)
		if d := float(p[32:]); d == d {
			t.Errorf("the scale of a NaN is %v", d)
		}
		odd[7] = float32(math.Inf(-1))
		s.QuantizeRows(p, odd, 1, 32, 32)
		if d := float(p[32:]); !math.IsInf(float64(d), 1) {
			t.Errorf("the scale of -Inf is %v", d)
		}
	})
}

// TestGemmQuant compares every set with the generic one bit for bit, and that with a sum in float64.
func TestGemmQuant(t *testing.T) {
	r := newRand()
	for _, typ := range quantTypes {
		for _, d := range [][3]int{{1, 16, 256}, {1, 40, 512}, {2, 16, 256}, {3, 33, 256}, {5, 16, 768}, {8, 17, 256}, {9, 32, 512}, {23, 50, 256}, {16, 16, 512}, {37, 200, 768}, {35, 24, 2304}} {
			m, n, k := d[0], d[1], d[2]
			if typ.BlockElems() == 32 {
				k -= 32 * (m % 3)
			}
			src := randomWeights(r, typ, n, k)
			w := packedWeights(typ, src, n, k)
			x := random(r, m*k)
			a := make([]byte, QuantizedLen(m, k))
			Generic().QuantizeRows(a, x, m, k, k)
			ldc := n + m%4
			want := filled(m*ldc, guard)
			Generic().GemmQuant(RowMajor(want, m, n, ldc), a, nil, w, 0, nil)
			checkQuant(t, typ, want, a, src, m, n, k, ldc)
			for _, s := range Sets() {
				var near []byte
				if form := s.NearForm(typ); form > 0 {
					near = make([]byte, NearLen(m, k))
					s.NearRows(near, a, m, k, form)
				}
				for i := range 3 {
					var rows, work []byte
					if i > 0 {
						work = make([]byte, QuantWork)
					}
					if i > 1 {
						rows = near
					}
					got := filled(m*ldc, guard)
					s.GemmQuant(RowMajor(got, m, n, ldc), a, rows, w, 0, work)
					if i := diffBits(got, want); i >= 0 {
						t.Fatalf("%s %v %v, %d bytes of work, %d of near rows: row %d, column %d: got %v, want %v", s.Name(), typ, d, len(work), len(rows), i/ldc, i%ldc, got[i], want[i])
					}
				}
				for row := range m { // one row alone, and columns from 16 on
					alone := filled(ldc, guard)
					s.GemmQuant(RowMajor(alone, 1, n, ldc), a[QuantizedLen(row, k):QuantizedLen(row+1, k)], nil, w, 0, nil)
					if i := diffBits(alone, want[row*ldc:(row+1)*ldc]); i >= 0 {
						t.Fatalf("%s %v %v: row %d alone, column %d: got %v, want %v", s.Name(), typ, d, row, i, alone[i], want[row*ldc+i])
					}
				}
				if n > 16 {
					part := make([]float32, m*(n-16))
					s.GemmQuant(RowMajor(part, m, n-16, n-16), a, nil, w, 16, make([]byte, QuantWork))
					for i, v := range part {
						if v != want[i/(n-16)*ldc+16+i%(n-16)] {
							t.Fatalf("%s %v %v: columns from 16 on differ at %d", s.Name(), typ, d, i)
						}
					}
				}
			}
		}
	}
}

// TestGemmHalf compares every set with the generic one bit for bit, and that with a sum in float64.
func TestGemmHalf(t *testing.T) {
	r := newRand()
	for _, typ := range []quant.Type{quant.F16, quant.BF16} {
		for _, d := range [][3]int{{1, 16, 1}, {1, 150, 67}, {2, 33, 40}, {6, 20, 33}, {7, 16, 5}, {9, 70, 64}, {17, 48, 3}, {150, 104, 530}} {
			m, n, k := d[0], d[1], d[2]
			x, lda := random(r, m*(k+3)), k+3
			values := random(r, n*k)
			src := make([]byte, 2*n*k)
			if err := quant.Encode(src, typ, values); err != nil {
				t.Fatal(err)
			}
			quant.Decode(values, typ, src)
			w := packedWeights(typ, src, n, k)
			ldc := n + m%4
			want := filled(m*ldc, guard)
			Generic().GemmHalf(RowMajor(want, m, n, ldc), RowMajor(x, m, k, lda), w, 0, nil)
			for row := range m {
				for col := range n {
					sum, size := 0.0, 0.0
					for i := range k {
						p := float64(values[col*k+i]) * float64(x[row*lda+i])
						sum += p
						size += math.Abs(p)
					}
					if e := math.Abs(float64(want[row*ldc+col]) - sum); e > float64(k)*0x1p-23*size {
						t.Fatalf("%v %v: row %d, column %d: got %v, want %v", typ, d, row, col, want[row*ldc+col], sum)
					}
				}
			}
			for _, s := range Sets() {
				for _, work := range [][]byte{nil, make([]byte, QuantWork)} {
					got := filled(m*ldc, guard)
					s.GemmHalf(RowMajor(got, m, n, ldc), RowMajor(x, m, k, lda), w, 0, work)
					if i := diffBits(got, want); i >= 0 {
						t.Fatalf("%s %v %v, %d bytes of work: row %d, column %d: got %v, want %v", s.Name(), typ, d, len(work), i/ldc, i%ldc, got[i], want[i])
					}
				}
				alone := filled(ldc, guard)
				s.GemmHalf(RowMajor(alone, 1, n, ldc), RowMajor(x[(m-1)*lda:], 1, k, lda), w, 0, nil)
				if i := diffBits(alone, want[(m-1)*ldc:]); i >= 0 {
					t.Fatalf("%s %v %v: the last row alone, column %d: got %v, want %v", s.Name(), typ, d, i, alone[i], want[(m-1)*ldc+i])
				}
			}
		}
	}
}

func filled(n int, x float32) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = x
	}
	return s
}

// checkQuant compares with the sum over what weights and activations mean, within 2⁻²² of the sum of magnitudes a group.
func checkQuant(t *testing.T, typ quant.Type, got []float32, a, src []byte, m, n, k, ldc int) {
	t.Helper()
	w := make([]float32, n*k)
	quant.Decode(w, typ, src)
	for row := range m {
		for col := range ldc {
			if col >= n {
				if got[row*ldc+col] != guard {
					t.Fatalf("%v: wrote beyond the columns", typ)
				}
				continue
			}
			sum, size := 0.0, 0.0
			for i := range k {
				p := a[QuantizedLen(row, k)+i/QuantGroup*quantGroupBytes:]
				x := float64(float(p[32:])) * float64(int8(p[i%QuantGroup])) * float64(w[col*k+i])
				sum += x
				size += math.Abs(x)
			}
			// Minima are added apart, so a row's terms may be larger than their products.
			if e := math.Abs(float64(got[row*ldc+col]) - sum); e > 0x1p-18*size+1e-6 {
				t.Fatalf("%v: row %d, column %d: got %v, want %v", typ, row, col, got[row*ldc+col], sum)
			}
		}
	}
}

// TestGemmGrouped compares every set with the generic one bit for bit, and that with a sum in float64.
func TestGemmGrouped(t *testing.T) {
	r := newRand()
	for _, d := range [][5]int{{4, 1, 16, 32, 32}, {4, 3, 40, 256, 128}, {8, 9, 17, 192, 64}, {4, 15, 33, 96, 96}, {8, 1, 48, 128, 128}, {8, 6, 16, 64, 32}} {
		bits, m, n, k, group := d[0], d[1], d[2], d[3], d[4]
		w := GroupedWeights{Bits: bits, Group: group, N: n, K: k, Data: make([]byte, GroupedLen(bits, n, k, group))}
		values := make([]float64, n*k)
		for row := range n {
			codes, scales, zeros := make([]uint8, k), random(r, k/group), make([]float32, k/group)
			for g := range zeros {
				zeros[g] = float32(r.IntN(1 << bits))
			}
			for i := range codes {
				codes[i] = uint8(r.IntN(1 << bits))
				values[row*k+i] = float64(scales[i/group]) * (float64(codes[i]) - float64(zeros[i/group]))
			}
			w.PackRow(row, codes, scales, zeros)
		}
		x, a := random(r, m*k), make([]byte, QuantizedLen(m, k))
		Generic().QuantizeRows(a, x, m, k, k)
		ldc := n + 1
		want := filled(m*ldc, guard)
		Generic().GemmGrouped(RowMajor(want, m, n, ldc), a, w, 0)
		for row := range m {
			for col := range n {
				sum, size := 0.0, 0.0
				for i := range k {
					p := a[QuantizedLen(row, k)+i/QuantGroup*quantGroupBytes:]
					v := float64(float(p[32:])) * float64(int8(p[i%QuantGroup]))
					sum += v * values[col*k+i]
					size += math.Abs(v) * math.Abs(values[col*k+i])
				}
				if e := math.Abs(float64(want[row*ldc+col]) - sum); e > 0x1p-17*size+1e-6 {
					t.Fatalf("%v: row %d, column %d: got %v, want %v", d, row, col, want[row*ldc+col], sum)
				}
			}
			if want[row*ldc+n] != guard {
				t.Fatalf("%v: wrote beyond the columns", d)
			}
		}
		for _, s := range Sets() {
			got := filled(m*ldc, guard)
			s.GemmGrouped(RowMajor(got, m, n, ldc), a, w, 0)
			if i := diffBits(got, want); i >= 0 {
				t.Fatalf("%s %v: row %d, column %d: got %v, want %v", s.Name(), d, i/ldc, i%ldc, got[i], want[i])
			}
			alone := filled(ldc, guard)
			s.GemmGrouped(RowMajor(alone, 1, n, ldc), a[QuantizedLen(m-1, k):], w, 0)
			if i := diffBits(alone, want[(m-1)*ldc:]); i >= 0 {
				t.Fatalf("%s %v: the last row alone, column %d: got %v, want %v", s.Name(), d, i, alone[i], want[(m-1)*ldc+i])
			}
			if got := testing.AllocsPerRun(3, func() { s.GemmGrouped(RowMajor(alone, 1, n, ldc), a[QuantizedLen(m-1, k):], w, 0) }); got != 0 {
				t.Errorf("%s %v: %v allocations", s.Name(), d, got)
			}
		}
	}
	if CanGroup(3, 128, 32) || CanGroup(4, 128, 48) || CanGroup(4, 96, 64) || !CanGroup(8, 128, 128) {
		t.Error("CanGroup is wrong")
	}
}

// TestQuantAllocates asserts that nothing is allocated.
func TestQuantAllocates(t *testing.T) {
	r := newRand()
	work := make([]byte, QuantWork)
	for _, typ := range quantTypes {
		m, n, k := 19, 21, 256
		w := packedWeights(typ, randomWeights(r, typ, n, k), n, k)
		x, a, c := random(r, m*k), make([]byte, QuantizedLen(m, k)), make([]float32, m*n)
		for _, s := range Sets() {
			if got := testing.AllocsPerRun(3, func() {
				s.QuantizeRows(a, x, m, k, k)
				s.GemmQuant(RowMajor(c, m, n, n), a, nil, w, 0, work)
			}); got != 0 {
				t.Errorf("%s %v: %v allocations", s.Name(), typ, got)
			}
		}
	}
	w := packedWeights(quant.F16, make([]byte, 2*70*9), 70, 9)
	x, c := random(r, 20*9), make([]float32, 20*70)
	for _, s := range Sets() {
		for _, m := range []int{1, 2, 20} {
			if got := testing.AllocsPerRun(3, func() { s.GemmHalf(RowMajor(c, m, 70, 70), RowMajor(x, m, 9, 9), w, 0, work) }); got != 0 {
				t.Errorf("%s F16 of %d rows: %v allocations", s.Name(), m, got)
			}
		}
	}
}

// TestQuantPanics shows calls that no caller may make.
func TestQuantPanics(t *testing.T) {
	w := QuantWeights{Type: quant.Q4_0, N: 32, K: 64, Data: make([]byte, QuantWeightsLen(quant.Q4_0, 32, 64))}
	a, c := make([]byte, QuantizedLen(1, 64)), make([]float32, 32)
	s := Generic()
	for name, f := range map[string]func(){
		"row length": func() { QuantWeightsLen(quant.Q4_K, 16, 128) },
		"format":     func() { QuantWeightsLen(quant.IQ1_S, 16, 256) },
		"rows of A":  func() { s.GemmQuant(RowMajor(c, 1, 32, 32), a[:64], nil, w, 0, nil) },
		"columns":    func() { s.GemmQuant(RowMajor(c, 1, 32, 32), a, nil, w, 16, nil) },
		"odd start":  func() { s.GemmQuant(RowMajor(c, 1, 16, 16), a, nil, w, 8, nil) },
		"odd end":    func() { s.GemmQuant(RowMajor(c, 1, 20, 20), a, nil, w, 0, nil) },
		"short weights": func() {
			s.GemmQuant(RowMajor(c, 1, 32, 32), a, nil, QuantWeights{quant.Q4_0, 32, 64, w.Data[:100]}, 0, nil)
		},
		"pack past N":     func() { w.Pack(make([]byte, 48*36), 0) },
		"pack part":       func() { w.Pack(make([]byte, 36), 0) },
		"quantize length": func() { s.QuantizeRows(a, make([]float32, 63), 1, 64, 64) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: got no panic", name)
				}
			}()
			f()
		}()
	}
	if CanQuant(quant.Q4_K, 128) || CanQuant(quant.IQ1_S, 256) || !CanQuant(quant.Q6_K, 512) {
		t.Error("CanQuant is wrong")
	}
}

// BenchmarkPlainRead reads as many bytes as the weights of BenchmarkGemmQuant in Q4_0: the bound of a single row.
func BenchmarkPlainRead(b *testing.B) {
	x := make([]float32, 4096*4096*18/32/4)
	for _, s := range Sets()[1:] {
		b.Run(s.Name(), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				s.Max(x)
			}
		})
	}
}

// BenchmarkPack measures the rearranging of weights at load: bytes are of the file's.
func BenchmarkPack(b *testing.B) {
	r := newRand()
	for _, typ := range append(quantTypes, quant.F16) {
		const n, k = 512, 1024
		src := make([]byte, n*k/typ.BlockElems()*typ.BlockBytes())
		for i := range src {
			src[i] = byte(r.Uint32())
		}
		w := packedWeights(typ, src, n, k)
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				w.Pack(src, 0)
			}
		})
	}
}

// BenchmarkGemmQuant measures rows × a matrix of 4096 × 4096: bytes are of packed weights, once a call.
func BenchmarkGemmQuant(b *testing.B) {
	r := newRand()
	for _, typ := range quantTypes {
		const n, k = 4096, 4096
		w := packedWeights(typ, randomWeights(r, typ, n, k), n, k)
		for _, m := range []int{1, 8, 64} {
			x := random(r, m*k)
			a := make([]byte, QuantizedLen(m, k))
			Generic().QuantizeRows(a, x, m, k, k)
			c := make([]float32, m*n)
			for _, s := range Sets()[1:] {
				work := make([]byte, QuantWork)
				b.Run(fmt.Sprintf("%dx4096x4096/%v/%s", m, typ, s.Name()), func(b *testing.B) {
					b.SetBytes(int64(len(w.Data)))
					for b.Loop() {
						s.GemmQuant(RowMajor(c, m, n, n), a, nil, w, 0, work)
					}
					b.ReportMetric(2*float64(m)*n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOP/s")
				})
			}
		}
	}
}

// TestPackedLengths holds the lengths that plans count to those of the panels.
func TestPackedLengths(t *testing.T) {
	for _, typ := range quantTypes {
		d, ok := typ.DType()
		if !ok {
			t.Fatalf("%v is no type of tensors", typ)
		}
		for _, n := range []int{1, 15, 16, 17, 160} {
			for _, k := range []int{256, 768} {
				if got, want := d.PackedBytes(int64(n), int64(k)), int64(QuantWeightsLen(typ, n, k)); got != want {
					t.Errorf("%v: (%d,%d) is planned as %d bytes, want %d", typ, n, k, got, want)
				}
			}
		}
	}
}

// TestPackFrom fills weights in pieces of any length, as Pack does, and reads rows back as the format has them.
func TestPackFrom(t *testing.T) {
	r := newRand()
	for _, typ := range append([]quant.Type{quant.F16, quant.BF16}, quantTypes...) {
		n, k := 21, 512
		var src []byte
		if typ.BlockElems() == 1 {
			src = make([]byte, 2*n*k)
			for i := range src {
				src[i] = byte(r.Uint32()) &^ (byte(i%2) << 6) // finite
			}
		} else {
			src = randomWeights(r, typ, n, k)
		}
		want := packedWeights(typ, src, n, k)
		got := QuantWeights{Type: typ, N: n, K: k, Data: make([]byte, len(want.Data))}
		for at := 0; at < len(src); {
			piece := min(len(src)-at, (1+r.IntN(40))*typ.BlockBytes())
			got.PackFrom(src[at:at+piece], at)
			at += piece
		}
		if !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%v: packed in pieces it differs", typ)
		}
		rows := make([]float32, n*k)
		quant.Decode(rows, typ, src)
		row := make([]float32, k)
		for i := range n {
			got.Row(row, i)
			for j, x := range row {
				if w := rows[i*k+j]; math.Float32bits(x) != math.Float32bits(w) {
					t.Fatalf("%v: row %d, element %d: got %v, want %v", typ, i, j, x, w)
				}
			}
		}
	}
}

// TestGroupedPackFrom fills weights in pieces, as PackRow does, and holds the lengths that plans count to those of the panels.
func TestGroupedPackFrom(t *testing.T) {
	r := newRand()
	for _, bits := range []int{4, 8} {
		for _, group := range []int{32, 64, 128} {
			g := quant.Group{Bits: bits, Elems: group}
			n, k := 21, 256
			want := GroupedWeights{Bits: bits, Group: group, N: n, K: k, Data: make([]byte, GroupedLen(bits, n, k, group))}
			got := want
			got.Data = make([]byte, len(want.Data))
			if d, ok := g.DType(); !ok || d.PackedBytes(int64(n), int64(k)) != int64(len(want.Data)) {
				t.Errorf("%v: planned as %d bytes, want %d", d, d.PackedBytes(int64(n), int64(k)), len(want.Data))
			}
			var src []byte
			for row := range n {
				codes, scales, zeros := make([]uint8, k), make([]float32, k/group), make([]float32, k/group)
				for i := range codes {
					codes[i] = uint8(r.Uint32()) & uint8(1<<bits-1)
				}
				for i := range scales {
					scales[i], zeros[i] = r.Float32(), float32(r.IntN(1<<bits))
					block := make([]byte, g.Bytes())
					g.Put(block, codes[i*group:(i+1)*group], scales[i], zeros[i])
					src = append(src, block...)
				}
				want.PackRow(row, codes, scales, zeros)
			}
			for at := 0; at < len(src); {
				piece := min(len(src)-at, (1+r.IntN(20))*g.Bytes())
				got.PackFrom(src[at:at+piece], at)
				at += piece
			}
			if !bytes.Equal(got.Data, want.Data) {
				t.Errorf("%v: packed in pieces it differs", g)
			}
		}
	}
}
