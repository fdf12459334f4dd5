package quant

import (
	"strings"
	"testing"

	"loadline/tensor/dtype"
)

// Every block type is a format of the same name and sizes, and back.
func TestTypesOfTensors(t *testing.T) {
	blocks := 0
	for d := dtype.F32; !strings.HasPrefix(d.String(), "dtype("); d++ {
		f, ok := Of(d)
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
