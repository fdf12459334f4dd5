package tokenizer

import (
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// runeSet is a set of characters.
type runeSet struct {
	ascii  [utf8.RuneSelf]bool
	plane  [planeRunes / 64]uint64 // a bit for each character below planeRunes: 8 KiB
	ranges []rune                  // pairs: first and last, in order
}

// planeRunes is how many characters the first plane of Unicode has.
const planeRunes = 1 << 16

func newRuneSet(ranges []rune) *runeSet {
	s := &runeSet{ranges: slices.Clone(ranges)}
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], planeRunes-1); r++ {
			s.plane[r>>6] |= 1 << (r & 63)
			if r < utf8.RuneSelf {
				s.ascii[r] = true
			}
		}
	}
	return s
}

// wide looks up a character past ASCII.
func (s *runeSet) wide(r rune) bool {
	if r < planeRunes {
		return s.plane[r>>6]>>(r&63)&1 != 0
	}
	lo, hi := 0, len(s.ranges)/2
	for lo < hi {
		if mid := (lo + hi) / 2; s.ranges[2*mid+1] < r {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(s.ranges)/2 && s.ranges[2*lo] <= r
}

// begins returns the length of the character that begins p, which is not empty, if it is in the set, else 0.
func (s *runeSet) begins(p []byte) int {
	if c := p[0]; c < utf8.RuneSelf {
		if s.ascii[c] {
			return 1
		}
		return 0
	}
	r, n := utf8.DecodeRune(p)
	if !s.wide(r) {
		return 0
	}
	return n
}

// replacedRuns writes runs of characters of a set as a text: what replacedPattern does for `C+` and `C{n,}`, several times as fast.
type replacedRuns struct {
	set   *runeSet
	least int // characters in a row
	to    []byte
}

// newReplacedRuns reads such a pattern of Go's regexp; nil for others.
func newReplacedRuns(pattern string, to []byte) normalizer {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || re.Flags&syntax.NonGreedy != 0 || len(re.Sub) != 1 {
		return nil
	}
	n := replacedRuns{least: 1, to: to}
	switch {
	case re.Op == syntax.OpPlus:
	case re.Op == syntax.OpRepeat && re.Min > 0 && re.Max < 0:
		n.least = re.Min
	default:
		return nil
	}
	switch c := re.Sub[0]; {
	case c.Op == syntax.OpCharClass:
		n.set = newRuneSet(c.Rune)
	case c.Op == syntax.OpLiteral && len(c.Rune) == 1 && c.Flags&syntax.FoldCase == 0:
		n.set = newRuneSet([]rune{c.Rune[0], c.Rune[0]})
	default:
		return nil
	}
	return n
}

func (n replacedRuns) normalize(dst, src []byte, _ edges) []byte {
	from := 0 // src[from:at] is neither written nor replaced
	for at := 0; at < len(src); {
		m := n.set.begins(src[at:])
		if m == 0 {
			_, m = utf8.DecodeRune(src[at:])
			at += m
			continue
		}
		start, count := at, 0
		for m > 0 {
			at += m
			count++
			if m = 0; at < len(src) {
				m = n.set.begins(src[at:])
			}
		}
		if count >= n.least {
			dst = append(append(dst, src[from:start]...), n.to...)
			from = at
		}
	}
	return append(dst, src[from:]...)
}
