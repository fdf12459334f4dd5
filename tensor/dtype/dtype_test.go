package dtype

import (
	"strings"
	"testing"
)

func TestNamesAreParsed(t *testing.T) {
	for i := range numTypes {
		if got, err := Parse(i.String()); err != nil || got != i {
			t.Errorf("Parse(%q): got %v, %v", i, got, err)
		}
	}
	if _, err := Parse("iq2_xxs"); err == nil || !strings.Contains(err.Error(), "iq2_xxs") {
		t.Errorf("a type that is not known: got %v, want its name", err)
	}
}

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		t            Type
		n, want      int64
		rows, packed int64 // of rows of n elements
	}{
		{F32, 3, 12, 0, 0}, {I4, 3, 2, 0, 0}, {BF16, 5, 10, 0, 0},
		{Q4_0, 64, 36, 17, 2 * 2 * 288}, {Q8_0, 33, 68, 16, 2 * 544}, {Q4_K, 512, 288, 1, 2 * 2368}, {Q6_K, 256, 210, 48, 3 * 3360},
	} {
		if got := c.t.Bytes(c.n); got != c.want {
			t.Errorf("%v: %d elements take %d bytes, want %d", c.t, c.n, got, c.want)
		}
		if c.t.Block() != (c.rows > 0) || (c.t.Bits() == 0) != c.t.Block() {
			t.Errorf("%v: block %v, %d bits", c.t, c.t.Block(), c.t.Bits())
		}
		if c.rows > 0 {
			if got := c.t.PackedBytes(c.rows, c.n); got != c.packed {
				t.Errorf("%v: %d rows of %d take %d bytes packed, want %d", c.t, c.rows, c.n, got, c.packed)
			}
		}
	}
	for i := range numTypes {
		if i.Block() && i.Float() {
			t.Errorf("%v is a float", i)
		}
	}
}
