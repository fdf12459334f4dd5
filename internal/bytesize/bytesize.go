// Package bytesize reads and writes sizes in bytes as people type them: "512MiB", "24GB", "1.5 GiB", "4096".
//
// Units ending in iB are powers of 1024 and those ending in B powers of 1000, as in IEC 80000-13. A bare number is bytes and must
// be whole. Single letters ("24G") are refused, since readers disagree about what they mean. Sizes are never negative when parsed.
package bytesize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units lists what Parse accepts, longest suffix first where one ends in another.
var units = [...]struct {
	suffix string
	bytes  int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"pib", 1 << 50},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"pb", 1e15},
	{"b", 1},
}

// Parse returns the bytes that s names. Letter case and spaces around the number do not matter; a fraction needs a unit and is
// rounded to the nearest byte.
func Parse(s string) (int64, error) {
	bad := func(why string) (int64, error) {
		return 0, fmt.Errorf("size %q: %s; want a whole number of bytes or a number with a unit, such as 512MiB or 24GB", s, why)
	}
	number, unit, hasUnit := strings.ToLower(strings.TrimSpace(s)), int64(1), false
	if number == "" {
		return bad("it is empty")
	}
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit, hasUnit = strings.TrimSpace(rest), u.bytes, true
			break
		}
	}
	if strings.HasPrefix(number, "-") {
		return bad("it is negative")
	}
	whole, fraction, hasPoint := strings.Cut(number, ".")
	if !digits(whole) || hasPoint && !digits(fraction) {
		return bad("not a size")
	}
	if hasPoint && (!hasUnit || unit == 1) {
		return bad("a fraction of a byte")
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return bad("too large")
	}
	n *= unit
	if hasPoint {
		f, err := strconv.ParseFloat("0."+fraction, 64)
		if err != nil {
			return bad("not a size")
		}
		part := int64(math.Round(f * float64(unit)))
		if n > math.MaxInt64-part {
			return bad("too large")
		}
		n += part
	}
	return n, nil
}

// Format returns n in the largest power of 1024 that it reaches, with at most two decimals: "1.5 GiB", "96 MiB", "512 B".
func Format(n int64) string {
	if n > -1024 && n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	const prefixes = "KMGTPE"
	v, i := float64(n)/1024, 0
	// 1023.995 would print as 1024 of the smaller unit.
	for math.Abs(v) >= 1023.995 && i < len(prefixes)-1 {
		v, i = v/1024, i+1
	}
	text := strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0")
	return strings.TrimSuffix(text, ".") + " " + prefixes[i:i+1] + "iB"
}

// digits reports whether s is one or more decimal digits and nothing else.
func digits(s string) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}
