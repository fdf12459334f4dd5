package quant

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"loadline/tensor/dtype"
)

// Every block type is a format of the same name and sizes, and back.
func TestTypesOfTensors(t *testing.T) {
	blocks := 0
	for d := dtype.F32; !strings.HasPrefix(d.String(), "dtype("); d++ {
		f, ok := Of(d)
		if g, grouped := GroupOf(d); grouped {
			back, _ := g.DType()
			if ok || back != d || d.BlockElems() != g.Elems || d.Bytes(int64(g.Elems)) != int64(g.Bytes()) || d.String() != fmt.Sprintf("%s%d_%d", map[Table]string{Integers: "g", TableE4M3: "f", TableNF4: "nf"}[g.Table], g.Bits, g.Elems) {
				t.Errorf("%v: got %v, which is %v", d, g, back)
			}
			continue
		}
		if ok != (d.Block() || d == dtype.F32 || d == dtype.F16 || d == dtype.BF16) {
			t.Errorf("%v is a format: got %v", d, ok)
		}
		if !ok {
			continue
		}
		if d.Block() {
			blocks++
		}
		if back, ok := f.DType(); !ok || back != d {
			t.Errorf("%v: got %v, which is stored as %v", d, f, back)
		}
		n := int64(3 * f.BlockElems())
		if got, want := d.Bytes(n), int64(3*f.BlockBytes()); strings.ToUpper(d.String()) != f.String() || d.BlockElems() != f.BlockElems() || got != want {
			t.Errorf("%v: blocks of %d in %d bytes, %v has %d in %d", d, d.BlockElems(), got/3, f, f.BlockElems(), want/3)
		}
	}
	if blocks != 13 {
		t.Errorf("got %d block types, want 13", blocks)
	}
	if d, ok := IQ2_XXS.DType(); ok {
		t.Errorf("IQ2_XXS: got %v, want none", d)
	}
}

// What Put writes Get reads.
func TestGroupsOfCodes(t *testing.T) {
	for _, x := range groups {
		g := x.group
		codes, got, block := make([]uint8, g.Elems), make([]uint8, g.Elems), make([]byte, g.Bytes())
		for i := range codes {
			codes[i] = uint8(i*37+11) & uint8(1<<g.Bits-1)
		}
		want := float32(7)
		if g.Table != Integers {
			want = 0
		}
		g.Put(block, codes, 0.25, want)
		if scale, zero := g.Get(got, block); scale != 0.25 || zero != want || !slices.Equal(got, codes) {
			t.Errorf("%v: got %v, %v and %v, want %v", g, scale, zero, got, codes)
		}
	}
	if d, ok := (Group{4, 256, Integers}).DType(); ok {
		t.Errorf("groups of 256: got %v, want none", d)
	}
}
