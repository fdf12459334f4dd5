package tier

import (
	"slices"
	"testing"

	"loadline/mem"
)

func TestKeep(t *testing.T) {
	for _, c := range []struct {
		items    []Use
		capacity mem.Bytes
		want     []bool
	}{
		{nil, 100, []bool{}},
		{[]Use{{10, 1}, {10, 1}, {10, 1}}, 20, []bool{false, true, true}},
		{[]Use{{10, 1}, {10, 1}, {10, 1}, {10, 1}, {10, 1}, {10, 1}}, 39, []bool{false, true, false, true, false, true}},
		{[]Use{{10, 1}, {40, 1}, {10, 2}}, 50, []bool{false, true, true}},
		{[]Use{{10, 1}, {40, 1}, {10, 2}}, 49, []bool{true, false, true}}, // what does not fit makes room for what does
		{[]Use{{10, 1}}, 9, []bool{false}},
		{[]Use{{10, 1}, {5, 1}}, 1000, []bool{true, true}},
	} {
		if got := Keep(c.items, c.capacity); !slices.Equal(got, c.want) {
			t.Errorf("%v in %d: got %v, want %v", c.items, c.capacity, got, c.want)
		}
	}
}

// TestKeepIsNearlyBelady lets a pool that knows the order, with the same bytes, fetch what it likes.
func TestKeepIsNearlyBelady(t *testing.T) {
	const n, size, rounds = 20, 64, 50
	var order []int
	sizes := make([]mem.Bytes, n)
	items := make([]Use, n)
	for i := range n {
		order, sizes[i], items[i] = append(order, i), size, Use{size, 1}
	}
	for places := 2; places < n; places++ {
		p, err := New(mem.NewLedger(mem.Limits{}), Options{
			Sizes: sizes, Purpose: mem.Weights, Home: NewMemStore(make([]byte, n*size)), Device: mem.Bytes(places * size),
			Policy: NewKnownOrder(n, order, true),
		})
		if err != nil {
			t.Fatal(err)
		}
		for range rounds {
			for _, id := range order {
				if _, err := p.Get(id); err != nil {
					t.Fatal(err)
				}
				p.Release(id)
			}
		}
		missed := 0
		for _, stays := range Keep(items, mem.Bytes((places-1)*size)) {
			if !stays {
				missed++
			}
		}
		least := float64(p.Stats().Misses) / rounds
		if f := float64(missed); f > least+1+float64(n)/rounds || f < least-float64(n)/rounds {
			t.Errorf("%d places: got %d fetches a round, Belady's policy %.2f", places, missed, least)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
