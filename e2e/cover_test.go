package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// axis is a dimension of combinations: what is varied, and its values.
type axis struct {
	name   string
	values []string
}

// cover chooses combinations of values so that each pair of values of two axes that is in any allowed combination is in a chosen one,
// where the first lead axes count as one: each combination of their values meets each value of the others. It takes again and again the
// combination that shows most pairs for the first time, the first among equals.
func cover(axes []axis, lead int, allowed func(c []int) bool) [][]int {
	type pair [4]int
	pairs := func(c []int, f func(p pair)) {
		first := 0
		for a := range lead {
			first = first*len(axes[a].values) + c[a]
		}
		for a := lead; a < len(c); a++ {
			f(pair{0, first, a, c[a]})
			for b := a + 1; b < len(c); b++ {
				f(pair{a, c[a], b, c[b]})
			}
		}
	}
	var all [][]int
	missing := map[pair]bool{}
	for c := make([]int, len(axes)); ; {
		if allowed(c) {
			all = append(all, append([]int(nil), c...))
			pairs(c, func(p pair) { missing[p] = true })
		}
		i := len(c) - 1
		for i >= 0 && c[i] == len(axes[i].values)-1 {
			c[i] = 0
			i--
		}
		if i < 0 {
			break
		}
		c[i]++
	}
	var out [][]int
	for len(missing) > 0 {
		best, most := 0, 0
		for i, c := range all {
			n := 0
			pairs(c, func(p pair) {
				if missing[p] {
					n++
				}
			})
			if n > most {
				best, most = i, n
			}
		}
		pairs(all[best], func(p pair) { delete(missing, p) })
		out = append(out, all[best])
	}
	return out
}

// named joins the values of a combination.
func named(axes []axis, c []int) string {
	s := make([]string, len(c))
	for i, v := range c {
		s[i] = axes[i].values[v]
	}
	return strings.Join(s, " · ")
}

// table lists combinations, a line each, under the names of their axes.
func table(axes []axis, chosen [][]int) string {
	widths := make([]int, len(axes))
	for i, a := range axes {
		widths[i] = len(a.name)
		for _, v := range a.values {
			widths[i] = max(widths[i], len(v))
		}
	}
	var b strings.Builder
	line := func(cell func(i int) string) {
		for i := range axes {
			fmt.Fprintf(&b, "%-*s  ", widths[i], cell(i))
		}
		b.WriteByte('\n')
	}
	line(func(i int) string { return axes[i].name })
	for _, c := range chosen {
		line(func(i int) string { return axes[i].values[c[i]] })
	}
	return b.String()
}

// The cover has each pair that is allowed, and nothing that is not.
func TestCover(t *testing.T) {
	axes := []axis{{"a", []string{"0", "1", "2"}}, {"b", []string{"0", "1"}}, {"c", []string{"0", "1", "2", "3"}}, {"d", []string{"0", "1"}}}
	allowed := func(c []int) bool { return !(c[0] == 2 && c[2] > 1) }
	seen := map[string]bool{}
	chosen := cover(axes, 2, allowed)
	for _, c := range chosen {
		if !allowed(c) {
			t.Errorf("%s is chosen and not allowed", named(axes, c))
		}
		for i := range c {
			for j := range i {
				seen[fmt.Sprint(i, c[i], j, c[j])] = true
				if j == 1 {
					seen[fmt.Sprint(c[:2], i, c[i])] = true
				}
			}
		}
	}
	// Pairs: ab 6, ac 12 − 2, ad 6, bc 8, bd 4, cd 8; triples: abc 24 − 4, abd 12.
	if len(seen) != 42+32 {
		t.Errorf("got %d pairs and triples, want 74", len(seen))
	}
	if len(chosen) > 28 {
		t.Errorf("got %d combinations, want 28 at most", len(chosen))
	}
}
