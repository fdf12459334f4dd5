package quant

import (
	"math"
	"strings"
	"testing"

	"loadline/model/safetensors"
)

// layer is the tensors of one name in linear.safetensors.
type layer struct {
	t    *testing.T
	f    *safetensors.File
	name string
}

func openLayers(t *testing.T) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open("testdata/linear.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func (l layer) bytes(name string) []byte {
	l.t.Helper()
	p := loadGolden(l.t, l.f, l.name+"."+name)
	if len(p) == 0 {
		l.t.Fatalf("%s.%s is not in the golden file", l.name, name)
	}
	return p
}

func (l layer) elems(name string) Elems {
	l.t.Helper()
	i, _ := l.f.Tensor(l.name + "." + name)
	typ, err := Parse(string(i.DType))
	if err != nil {
		l.t.Fatal(err)
	}
	return Elems{typ, l.bytes(name)}
}

func (l layer) shape(name string) (rows, cols int) {
	i, _ := l.f.Tensor(l.name + "." + name)
	return int(i.Shape[0]), int(i.Shape[1])
}

// want compares rows of W with the reference, rounded to its type.
func (l layer) want(n, k int, row func(dst []float32, n int)) {
	l.t.Helper()
	want := l.elems("values")
	got := make([]float32, k)
	p := make([]byte, want.Type.BlockBytes())
	for r := range n {
		row(got, r)
		for i, x := range got {
			if err := Encode(p, want.Type, []float32{x}); err != nil {
				l.t.Fatal(err)
			}
			if v, w := (Elems{want.Type, p}).At(0), want.At(r*k+i); !same(v, w) {
				l.t.Fatalf("%s: element (%d,%d): got %v, want %v", l.name, r, i, v, w)
			}
		}
	}
}

// wantCodes compares a row's codes, scales and zero points with the decoded row.
func wantCodes(t *testing.T, name string, n, k, group int, order []int32, row func(dst []float32, n int), codes func(codes []uint8, scales, zeros []float32, n int)) {
	t.Helper()
	c, s, z, want := make([]uint8, k), make([]float32, ceil(k, group)), make([]float32, ceil(k, group)), make([]float32, k)
	for r := range n {
		row(want, r)
		codes(c, s, z, r)
		for i, code := range c {
			if got := s[i/group] * (float32(code) - z[i/group]); got != want[at(order, i)] {
				t.Fatalf("%s: row %d, element %d: got %v, want %v", name, r, i, got, want[at(order, i)])
			}
		}
	}
}

func TestGPTQGolden(t *testing.T) {
	f := openLayers(t)
	for _, c := range []struct {
		name        string
		bits, group int
		v1, named   bool // named: the zeros do not tell the version, so the checkpoint's word is taken
	}{{"gptq4v1", 4, 32, true, false}, {"gptq4v2", 4, 32, false, true}, {"gptq3v1", 3, 32, true, true}, {"gptq2v2", 2, 64, false, false}, {"gptq8v1", 8, 32, true, true}} {
		l := layer{t, f, c.name}
		n, k := l.shape("values")
		g := &GPTQ{Bits: c.bits, N: n, K: k, GroupSize: c.group, QWeight: l.bytes("qweight"), QZeros: l.bytes("qzeros"), Scales: l.elems("scales"), GIdx: l.bytes("g_idx")}
		declared := map[bool]string{true: "gptq", false: "gptq_v2"}[c.v1 == c.named] // a lie where it is not needed
		g.V1 = GPTQVersion1(g.QZeros, n, c.bits, declared)
		if g.V1 != c.v1 {
			t.Errorf("%s: version 1 is %v", c.name, g.V1)
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		l.want(n, k, g.DecodeRow)
		order := make([]int32, k)
		if err := GroupOrder(order, g.GIdx, make([]int32, k/c.group), c.group); err != nil {
			t.Fatal(err)
		}
		wantCodes(t, c.name, n, k, c.group, order, g.DecodeRow, func(codes []uint8, scales, zeros []float32, row int) { g.Codes(codes, scales, zeros, row, order) })
	}
	if err := GroupOrder(make([]int32, 2), make([]byte, 8), make([]int32, 2), 1); err == nil { // both of group 0
		t.Error("groups of two and none: got no error")
	}
	if !GPTQVersion1(make([]byte, 4), 8, 4, "") || GPTQVersion1(make([]byte, 4), 8, 4, "gptq_v2") {
		t.Error("zeros that do not tell")
	}
}

func TestAWQGolden(t *testing.T) {
	l := layer{t, openLayers(t), "awq"}
	n, k := l.shape("values")
	a := &AWQ{N: n, K: k, GroupSize: 64, QWeight: l.bytes("qweight"), QZeros: l.bytes("qzeros"), Scales: l.elems("scales")}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	l.want(n, k, a.DecodeRow)
	wantCodes(t, "awq", n, k, 64, nil, a.DecodeRow, a.Codes)
}

func TestPackedIntGolden(t *testing.T) {
	f := openLayers(t)
	for _, c := range []struct {
		name        string
		bits, group int
		zero        bool
	}{{"packed4", 4, 32, false}, {"packed4z", 4, 64, true}, {"packed8c", 8, 0, false}, {"packed3z", 3, 32, true}} {
		l := layer{t, f, c.name}
		n, k := l.shape("values")
		p := &PackedInt{Bits: c.bits, N: n, K: k, GroupSize: c.group, Packed: l.bytes("packed"), Scale: l.elems("scale")}
		if c.zero {
			p.Zero = l.bytes("zero")
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		l.want(n, k, p.DecodeRow)
		group := c.group
		if group == 0 {
			group = k
		}
		wantCodes(t, c.name, n, k, group, nil, p.DecodeRow, func(codes []uint8, scales, zeros []float32, row int) { p.Codes(codes, scales, zeros, row, nil) })
	}
}

// TestPackedIntOrder gives each element the group that its index says.
func TestPackedIntOrder(t *testing.T) {
	p := &PackedInt{Bits: 4, N: 1, K: 8, GroupSize: 4, Packed: []byte{0x99, 0x99, 0x99, 0x99}, Scale: Elems{F32, make([]byte, 8)}, GIdx: make([]byte, 32)}
	encodeF32(p.Scale.Data, []float32{2, 3})
	for i := range 8 {
		p.GIdx[4*i] = byte(i % 2)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 8)
	p.DecodeRow(got, 0)
	for i, x := range got {
		if want := float32(2 + i%2); x != want {
			t.Errorf("element %d: got %v, want %v", i, x, want)
		}
	}
}

func TestScaledGolden(t *testing.T) {
	f := openLayers(t)
	for _, c := range []struct {
		name     string
		kind     Byte
		row, col int
	}{{"fp8block", ByteF8E4M3, 16, 32}, {"fp8channel", ByteF8E4M3, 1, 64}, {"fp8e5m2", ByteF8E5M2, 8, 64}} {
		l := layer{t, f, c.name}
		n, k := l.shape("values")
		s := &Scaled{Byte: c.kind, N: n, K: k, RowBlock: c.row, ColBlock: c.col, Weight: l.bytes("weight"), Scale: l.elems("scale")}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		l.want(n, k, s.DecodeRow)
		if c.kind == ByteF8E4M3 {
			groups := ceil(k, c.col)
			codes, scales := make([]uint8, k), make([]float32, groups)
			l.want(n, k, func(dst []float32, row int) {
				s.Codes(codes, scales, make([]float32, groups), row)
				for i, code := range codes {
					dst[i] = Group{8, 32, TableE4M3}.Value(code, scales[i/c.col], 0)
				}
			})
		}
	}
	for name, kind := range map[string]Byte{"e4m3": ByteF8E4M3, "e5m2": ByteF8E5M2} {
		l := layer{t, f, name}
		want := l.elems("values")
		for i, x := range l.bytes("weight") {
			if got, w := kind.value(x), want.At(i); !same(got, w) {
				t.Errorf("%s %#x: got %v, want %v", name, x, got, w)
			}
		}
	}
	s := &Scaled{Byte: ByteInt8, N: 1, K: 2, RowBlock: 1, ColBlock: 2, Weight: []byte{0xff, 5}, Scale: Elems{F16, []byte{0, 0x40}}, Zero: []byte{0xfe}}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	codes, scales, zeros := make([]uint8, 2), make([]float32, 1), make([]float32, 1)
	if s.Codes(codes, scales, zeros, 0); codes[0] != 127 || codes[1] != 133 || scales[0] != 2 || zeros[0] != 126 {
		t.Errorf("int8: got codes %v, scales %v and zeros %v", codes, scales, zeros)
	}
	got := make([]float32, 2)
	if s.DecodeRow(got, 0); got[0] != 2 || got[1] != 14 { // 2·(−1+2), 2·(5+2)
		t.Errorf("int8: got %v", got)
	}
}

func TestNF4Golden(t *testing.T) {
	f := openLayers(t)
	for _, name := range []string{"nf4", "nf4double", "fp4"} {
		l := layer{t, f, name}
		n, k := l.shape("values")
		q := &NF4{Count: n * k, BlockSize: 64, Codes: l.bytes("codes"), Map: l.elems("quant_map")}
		if name == "nf4double" {
			q.Nested, q.NestedMap, q.NestedAbsmax, q.NestedBlockSize = l.bytes("absmax"), l.elems("nested_quant_map"), l.elems("nested_absmax"), 256
			q.Offset = l.elems("offset").At(0)
		} else {
			q.Absmax = l.elems("absmax")
		}
		if err := q.Check(); err != nil {
			t.Fatal(err)
		}
		l.want(n, k, func(dst []float32, row int) { q.Decode(dst, row*k) })
		if q.Normal() != (name != "fp4") {
			t.Errorf("%s: the values are nf4's: got %v", name, q.Normal())
		}
		if q.Normal() {
			codes, scales := make([]uint8, k), make([]float32, k/64)
			l.want(n, k, func(dst []float32, row int) {
				q.CodesFrom(codes, scales, row*k)
				for i, code := range codes {
					dst[i] = Group{4, 64, TableNF4}.Value(code, scales[i/64], 0)
				}
			})
		}
	}
}

func TestDecodeMX4(t *testing.T) {
	codes, scales := make([]byte, 16), []byte{128}
	codes[0], codes[15] = 0x7b, 0xf1 // −1.5 and 6, 0.5 and −6, twice
	got := make([]float32, 32)
	DecodeMX4(got, codes, scales)
	if got[0] != -3 || got[1] != 12 || got[30] != 1 || got[31] != -12 || got[5] != 0 {
		t.Errorf("got %v", got)
	}
}

// TestLayersRefuse shows tensors that do not fit their layer.
func TestLayersRefuse(t *testing.T) {
	one := Elems{F32, make([]byte, 4)}
	for _, c := range []struct {
		layer interface{ Check() error }
		want  string
	}{
		{&GPTQ{Bits: 4, N: 0, K: 8, GroupSize: 8}, "a matrix of 0 × 8"},
		{&GPTQ{Bits: 4, N: math.MaxInt, K: math.MaxInt, GroupSize: 8}, "a matrix of"},
		{&GPTQ{Bits: 9, N: 8, K: 8, GroupSize: 8}, "9 bits, want 1 to 8"},
		{&GPTQ{Bits: 4, N: 8, K: 8}, "groups of 0 elements"},
		{&GPTQ{Bits: 4, N: 8, K: 8, GroupSize: 8, QWeight: make([]byte, 28)}, "qweight has 28 elements, want 32"},
		{&GPTQ{Bits: 4, N: 8, K: 8, GroupSize: 8, QWeight: make([]byte, 32), QZeros: make([]byte, 4), Scales: Elems{I8, make([]byte, 8)}}, "scales has -1 elements, want 8"},
		{&GPTQ{Bits: 4, N: 1, K: 8, GroupSize: 8, QWeight: make([]byte, 4), QZeros: make([]byte, 4), Scales: one, GIdx: []byte{255, 255, 255, 255, 28: 0, 31: 0}}, "element 0 is of group -1 of 1"},
		{&GPTQ{Bits: 4, N: 1, K: 8, GroupSize: 8, QWeight: make([]byte, 4), QZeros: make([]byte, 4), Scales: one, GIdx: make([]byte, 31)}, "g_idx has 31 bytes, want 32"},
		{&AWQ{N: 12, K: 8, GroupSize: 8}, "want a multiple of 8 rows"},
		{&AWQ{N: 8, K: 8, GroupSize: 8, QWeight: make([]byte, 32)}, "qzeros has 0 elements, want 4"},
		{&PackedInt{Bits: 4, N: 1, K: 8, GroupSize: -1}, "groups of -1"},
		{&PackedInt{Bits: 4, N: 1, K: 8, Packed: make([]byte, 4)}, "weight_scale has 0 elements, want 1"},
		{&PackedInt{Bits: 4, N: 1, K: 8, Packed: make([]byte, 4), Scale: one, Zero: make([]byte, 3)}, "weight_zero_point has 3 bytes"},
		{&PackedInt{Bits: 4, N: 1, K: 8, Packed: make([]byte, 4), Scale: one, GIdx: make([]byte, 3)}, "weight_g_idx has 3 bytes"},
		{&PackedInt{Bits: 4, N: 1, K: 8, Packed: make([]byte, 4), Scale: one, GIdx: append([]byte{1}, make([]byte, 31)...)}, "of group 1 of 1"},
		{&Scaled{N: 1, K: 8, ColBlock: 8}, "blocks of 0 × 8"},
		{&Scaled{N: 1, K: 8, RowBlock: 1, ColBlock: 8, Weight: make([]byte, 7), Scale: one}, "weight has 7 elements, want 8"},
		{&Scaled{N: 1, K: 8, RowBlock: 1, ColBlock: 8, Weight: make([]byte, 8), Scale: one, Zero: []byte{}}, "weight_zero_point has 0"},
		{&NF4{Count: 8}, "8 elements in blocks of 0"},
		{&NF4{Count: 8, BlockSize: 8, Codes: make([]byte, 4), Map: one}, "quant_map has 1 elements, want 16"},
		{&NF4{Count: 8, BlockSize: 8, Codes: make([]byte, 4), Map: Elems{F32, make([]byte, 64)}}, "absmax has 0 elements, want 1"},
		{&NF4{Count: 8, BlockSize: 8, Codes: make([]byte, 4), Map: Elems{F32, make([]byte, 64)}, Nested: []byte{1}}, "nested blocks of 0"},
	} {
		if err := c.layer.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}
