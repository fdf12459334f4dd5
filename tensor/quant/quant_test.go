package quant

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"loadline/model/safetensors"
)

// loadGolden returns the tensor of that name in golden.safetensors, and nil if there is none.
func loadGolden(t *testing.T, f *safetensors.File, name string) []byte {
	t.Helper()
	i, ok := f.Tensor(name)
	if !ok {
		return nil
	}
	p := make([]byte, i.Bytes)
	if err := f.ReadInto(name, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func openGolden(t *testing.T) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open("testdata/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func floats(p []byte) []float32 {
	x := make([]float32, len(p)/4)
	decodeF32(x, p)
	return x
}

// same tells whether two floats have the same bits, or are both NaN.
func same(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b }

// TestDecodeGolden compares what blocks mean with gguf-py, bit for bit.
func TestDecodeGolden(t *testing.T) {
	f := openGolden(t)
	for typ := range Type(numTypes) {
		if !typ.CanDecode() || typ == F32 {
			continue
		}
		src, want := loadGolden(t, f, typ.String()+".blocks"), floats(loadGolden(t, f, typ.String()+".values"))
		if len(want) < 2*typ.BlockElems() {
			t.Errorf("%v: the golden file has %d values of it", typ, len(want))
			continue
		}
		got := make([]float32, len(want))
		Decode(got, typ, src)
		for i := range got {
			if !same(got[i], want[i]) {
				t.Errorf("%v: block %d, element %d: got %v, want %v", typ, i/typ.BlockElems(), i%typ.BlockElems(), got[i], want[i])
				break
			}
		}
	}
}

// TestEncodeGolden compares blocks with those of gguf-py and ggml, byte for byte.
func TestEncodeGolden(t *testing.T) {
	f := openGolden(t)
	for typ := range Type(numTypes) {
		if !typ.CanEncode() || typ == F32 || typ == F16 {
			continue
		}
		src, want := floats(loadGolden(t, f, typ.String()+".input")), loadGolden(t, f, typ.String()+".encoded")
		if len(src) < 1024 {
			t.Errorf("%v: the golden file has %d elements to encode", typ, len(src))
			continue
		}
		got := bytes.Repeat([]byte{0xa5}, len(want))
		if err := Encode(got, typ, src); err != nil {
			t.Errorf("%v: %v", typ, err)
			continue
		}
		n := typ.BlockBytes()
		bad := 0
		for b := 0; b < len(got)/n; b++ {
			if g, w := got[n*b:n*b+n], want[n*b:n*b+n]; !bytes.Equal(g, w) {
				if bad++; bad == 1 {
					t.Errorf("%v: block %d:\n got % x\nwant % x\n of %v", typ, b, g, w, src[typ.BlockElems()*b:typ.BlockElems()*(b+1)])
				}
			}
		}
		if bad > 1 {
			t.Errorf("%v: %d of %d blocks differ", typ, bad, len(got)/n)
		}
	}
}

// TestEncodeStays encodes what was decoded: values that a format has are kept, where its encoder meets the largest exactly.
func TestEncodeStays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, typ := range []Type{F32, F16, BF16, Q8_0, Q4_0, Q5_0} {
		src := make([]float32, 4096)
		for i := range src {
			src[i] = float32(rng.NormFloat64())
		}
		p, again := make([]byte, len(src)/typ.BlockElems()*typ.BlockBytes()), make([]float32, len(src))
		for range 3 {
			if err := Encode(p, typ, src); err != nil {
				t.Fatal(err)
			}
			Decode(again, typ, p)
			copy(src, again)
		}
		q := make([]byte, len(p))
		if err := Encode(q, typ, src); err != nil {
			t.Fatal(err)
		}
		Decode(again, typ, q)
		for i := range src {
			if d := abs(again[i] - src[i]); d > abs(src[i])*2e-3 {
				t.Fatalf("%v: element %d: %v has become %v", typ, i, src[i], again[i])
			}
		}
	}
}

// TestEncodeRefuses shows elements that no block can have, and ones of any magnitude that must not break an encoder.
func TestEncodeRefuses(t *testing.T) {
	inf := float32(math.Inf(1))
	for typ := range Type(numTypes) {
		if !typ.CanEncode() || typ.BlockElems() == 1 {
			continue
		}
		src, dst := make([]float32, 2*superElems), make([]byte, 2*superElems/typ.BlockElems()*typ.BlockBytes())
		for _, bad := range []float32{inf, -inf, float32(math.NaN())} {
			clear(src)
			src[5] = bad
			if err := Encode(dst, typ, src); err == nil || !strings.Contains(err.Error(), "element 5 is") {
				t.Errorf("%v: %v: got %v", typ, bad, err)
			}
		}
		for _, large := range []float32{-math.MaxFloat32, 1e9, maxElem} {
			for i := range src {
				src[i] = large * (float32(i%32+1) / 32)
			}
			got := make([]float32, len(src))
			err := Encode(dst, typ, src)
			Decode(got, typ, dst)
			if err == nil && (typ == MXFP4 || large == maxElem) {
				for i := range got {
					if !(abs(got[i]-src[i]) <= abs(large)/4) {
						t.Errorf("%v: %v is read as %v", typ, src[i], got[i])
						break
					}
				}
			} else if err == nil || !strings.Contains(err.Error(), "too large for "+typ.String()) {
				t.Errorf("%v of %v: got %v", typ, large, err)
			}
		}
		for _, small := range []float32{0, 1e-45, -1e-45, 1e-38, 1e-30, 1e-20, 1e-14, 6e-8} {
			for i := range src {
				src[i] = small * float32(i%3-1)
			}
			got := make([]float32, len(src))
			if err := Encode(dst, typ, src); err != nil {
				t.Errorf("%v of %v: %v", typ, small, err)
			}
			Decode(got, typ, dst)
			for i := range got {
				if !(abs(got[i]-src[i]) <= max(2*abs(small), 6e-8)) {
					t.Errorf("%v: %v is read as %v", typ, src[i], got[i])
					break
				}
			}
		}
	}
	if err := Encode(make([]byte, bytesIQ1_S), IQ1_S, make([]float32, superElems)); err == nil {
		t.Error("IQ1_S: got no error")
	}
}

// TestRandomBlocks decodes any bytes: no index of a grid or a table is outside it.
func TestRandomBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for typ := range Type(numTypes) {
		if !typ.CanDecode() {
			continue
		}
		p, dst := make([]byte, typ.BlockBytes()), make([]float32, typ.BlockElems())
		for range 500 {
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			Decode(dst, typ, p)
		}
	}
}

func TestTypes(t *testing.T) {
	for typ := range Type(numTypes + 3) {
		if !typ.Known() {
			if !strings.Contains(typ.String(), "type ") {
				t.Errorf("got %v", typ)
			}
			continue
		}
		if got, err := Parse(strings.ToLower(typ.String())); err != nil || got != typ {
			t.Errorf("Parse(%v) = %v, %v", typ, got, err)
		}
		if n, ok := typ.Bytes(int64(3 * typ.BlockElems())); !ok || n != int64(3*typ.BlockBytes()) {
			t.Errorf("%v: Bytes = %d, %v", typ, n, ok)
		}
		if f := typ.Fallback(); !f.Known() || f != typ && f.BlockElems() != smallElems {
			t.Errorf("%v falls back to %v", typ, f)
		}
	}
	if _, err := Parse("Q9"); err == nil {
		t.Error("Parse(Q9): got no error")
	}
	if _, ok := F64.Bytes(math.MaxInt64 / 4); ok {
		t.Error("F64.Bytes of 2⁶¹ elements fits an int64")
	}
	if _, ok := F64.Bytes(-1); ok {
		t.Error("Bytes of -1 elements")
	}
}

func TestFallbackOfWideRows(t *testing.T) {
	want := map[Type]Type{Q2_K: IQ4_NL, Q3_K: IQ4_NL, Q4_K: Q5_0, Q5_K: Q5_1, Q6_K: Q8_0, IQ4_XS: IQ4_NL, Q4_0: Q4_0, F16: F16}
	for from, to := range want {
		if got := from.Fallback(); got != to {
			t.Errorf("%v: got %v, want %v", from, got, to)
		}
	}
}

func TestRoundAway(t *testing.T) {
	for _, c := range [][2]float32{{0.5, 1}, {-0.5, -1}, {1.5, 2}, {2.5, 3}, {0.49999997, 0}, {-126.5, -127}, {0, 0}} {
		if got := roundAway(c[0]); got != c[1] {
			t.Errorf("roundAway(%v) = %v, want %v", c[0], got, c[1])
		}
	}
}

func TestSwapBytes(t *testing.T) {
	p := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	for typ, want := range map[Type][]byte{F32: {4, 3, 2, 1, 8, 7, 6, 5}, F16: {2, 1, 4, 3, 6, 5, 8, 7}, F64: {8, 7, 6, 5, 4, 3, 2, 1}, I8: p} {
		got := bytes.Clone(p)
		if err := SwapBytes(typ, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: got %v, %v, want %v", typ, got, err, want)
		}
	}
	block := make([]byte, bytesQ6_K)
	binary.BigEndian.PutUint16(block[208:], 0x3c00)
	if err := SwapBytes(Q6_K, block); err != nil || half(block[208:]) != 1 {
		t.Errorf("Q6_K: scale is %v, %v", half(block[208:]), err)
	}
	if err := SwapBytes(IQ2_XS, make([]byte, bytesIQ2_XS)); err == nil {
		t.Error("IQ2_XS: got no error")
	}
}
