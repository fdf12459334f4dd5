package tokenizer

import "unicode/utf8"

// rightGroups cuts runs of numbers into groups of three counted from the right: 1234567 is 1, 234, 567.
//
// In llama.cpp's way (joined), what precedes the first group of a run stays in one piece with it; patterns that follow cut there
// again, but see that piece's beginning and end.
type rightGroups struct{ joined bool }

func (g rightGroups) next(s []byte) (int, bool) {
	from := 0 // where the first run of numbers begins
	for from < len(s) {
		t, m := traitsOf(s[from:])
		if t&isNumber != 0 {
			break
		}
		from += m
	}
	if from == len(s) || from > 0 && !g.joined {
		return from, false
	}
	count, end := 0, from
	ends := [3]int{} // of the first three numbers
	for end < len(s) {
		t, m := traitsOf(s[end:])
		if t&isNumber == 0 {
			break
		}
		end += m
		if count < 3 {
			ends[count] = end
		}
		count++
	}
	if r := count % 3; r > 0 {
		return ends[r-1], true
	}
	return ends[2], true
}

// aheadGroups is `(?=(\d{3})+(?!\d))`, which cuts before each group of three ASCII digits counted from the right.
type aheadGroups struct{}

func (aheadGroups) next(s []byte) (int, bool) {
	digits := func(at int) int {
		n := at
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n - at
	}
	for at := 0; at < len(s); {
		d := digits(at)
		if d == 0 {
			_, n := utf8.DecodeRune(s[at:])
			at += n
			continue
		}
		if at == 0 {
			switch {
			case d%3 > 0 && d > 3:
				return d % 3, true
			case d > 3:
				return 3, true
			case d == 3:
				at = 3
			default:
				at = d
			}
			continue
		}
		if d < 3 {
			at += d
			continue
		}
		return at + d%3, true
	}
	return len(s), false
}
