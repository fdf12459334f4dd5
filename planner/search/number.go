package search

import (
	"math"
	"strconv"
	"strings"
)

// Number writes x for people: rounded to so many digits, as a decimal with commas between thousands, never with an exponent. Whole digits
// before the point that rounding leaves open are zeros.
func Number(x float64, digits int) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', max(0, digits-1), 64), 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	whole, part, _ := strings.Cut(strconv.FormatFloat(rounded, 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if part != "" {
		return whole + "." + part
	}
	return whole
}
