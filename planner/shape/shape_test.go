package shape

import (
	"math"
	"testing"
)

// TestCards checks every card against the count that its makers publish.
func TestCards(t *testing.T) {
	cards, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(cards.Names()) < 60 {
		t.Errorf("got %d cards, want at least 60", len(cards.Names()))
	}
	for _, name := range cards.Names() {
		s, ok := cards.ByName(name)
		if !ok {
			t.Fatalf("card %s is not found by its name", name)
		}
		if e := float64(s.Params())/float64(s.PublishedParams) - 1; math.Abs(e) > 0.005 {
			t.Errorf("%s: got %d parameters, want %d (%+.2f%%)", name, s.Params(), s.PublishedParams, 100*e)
		}
	}
}
