package search

import (
	"math"
	"testing"
)

// TestNumber checks rounding and commas.
func TestNumber(t *testing.T) {
	for _, c := range []struct {
		x      float64
		digits int
		want   string
	}{
		{27744.3, 4, "27,740"}, {1070.4, 3, "1,070"}, {449900, 6, "449,900"}, {999.96, 4, "1,000"}, {0, 3, "0"}, {-27744.3, 4, "-27,740"}, {-999, 3, "-999"}, {123456789, 9, "123,456,789"},
		{0.0123456, 3, "0.0123"}, {0.00001234, 3, "0.0000123"}, {54.781, 4, "54.78"}, {1e15, 3, "1,000,000,000,000,000"}, {math.Inf(1), 3, "+Inf"},
	} {
		if got := Number(c.x, c.digits); got != c.want {
			t.Errorf("%g in %d digits: got %s, want %s", c.x, c.digits, got, c.want)
		}
	}
}
