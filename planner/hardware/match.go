package hardware

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loadline/internal/edits"
	"loadline/mem"
)

var (
	word       = regexp.MustCompile(`[a-z]+|\d+(?:\.\d+)?`)
	sxm        = regexp.MustCompile(`sxm\d`)
	sizeWord   = regexp.MustCompile(`(?:\b|_)(\d+) ?g(?:i?b)?\b`)
	beginWord  = regexp.MustCompile(`[a-z0-9.+]+`)
	vendorWord = []string{"nvidia", "geforce", "tesla", "quadro", "amd", "radeon", "instinct", "intel", "google", "apple", "huawei", "aws", "gpu", "generation"}
)

// words splits a name where letters and digits meet, so that "RTX4090" is "RTX 4090", and takes a size of memory out
// of it, in GB, or 0.
func words(name string) (out []string, gigabytes string) {
	name = sxm.ReplaceAllString(strings.ToLower(name), "sxm")
	name = sizeWord.ReplaceAllStringFunc(name, func(s string) string {
		gigabytes = sizeWord.FindStringSubmatch(s)[1]
		return " "
	})
	for _, w := range beginWord.FindAllString(name, -1) {
		if !slices.Contains(vendorWord, w) {
			out = append(out, word.FindAllString(w, -1)...)
		}
	}
	return out, gigabytes
}

// missing counts the words of a that b does not have, each used once.
func missing(a, b []string) int {
	b = slices.Clone(b)
	n := 0
	for _, w := range a {
		if i := slices.Index(b, w); i >= 0 {
			b = slices.Delete(b, i, i+1)
		} else {
			n++
		}
	}
	return n
}

// misspelt is a word of which nothing is right, as distance counts.
const misspelt = 10

// distance is how far the words of a that b does not have are from the most alike of b: for each, four times its share of wrong letters.
func distance(a, b []string) (n int) {
	for _, w := range a {
		if slices.Contains(b, w) {
			continue
		}
		least := misspelt
		for _, x := range b {
			least = min(least, misspelt*edits.Distance(w, x)/max(len(w), len(x)))
		}
		n += 4 * least
	}
	return n
}

// UnknownError is a name that no card has.
type UnknownError struct {
	Name    string
	Nearest string
}

// Error says which name, and the nearest.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("hardware: no card is called %q; the nearest is %q", e.Name, e.Nearest)
}

// Find returns the card that a name means: all its words are the card's. Of several, the one with fewest words more,
// then SXM, then the most memory.
func (t *Table) Find(name string) (Card, error) {
	want, size := words(name)
	type match struct {
		card Card
		rank []int
	}
	var found []match
	nearest, least := "", 1<<30
	for _, c := range t.cards {
		have, named := words(c.Name)
		lack := missing(want, have)
		if size != "" && size != named && size != strconv.Itoa(int(c.Memory/mem.GiB)) {
			lack++
		}
		if lack == 0 && hasModel(want) {
			notSXM := 1
			if slices.Contains(have, "sxm") {
				notSXM = 0
			}
			found = append(found, match{c, []int{missing(have, want), notSXM, -int(c.Memory >> 20)}})
		}
		if d := 4*misspelt*(lack-missing(want, have)) + distance(want, have) + misspelt*missing(have, want); d < least {
			nearest, least = c.Name, d
		}
	}
	if len(found) == 0 {
		return Card{}, &UnknownError{Name: name, Nearest: nearest}
	}
	best := slices.MinFunc(found, func(a, b match) int {
		for i := range a.rank {
			if c := cmp.Compare(a.rank[i], b.rank[i]); c != 0 {
				return c
			}
		}
		return 0
	})
	return best.card, nil
}

// hasModel tells whether a name says which card it is: with letters, or as people say "4090".
func hasModel(want []string) bool {
	for _, w := range want {
		if w[0] >= 'a' || len(w) >= 4 {
			return true
		}
	}
	return false
}
