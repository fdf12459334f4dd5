package tier

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestKnownOrderDistance(t *testing.T) {
	p := NewKnownOrder(4, []int{0, 1, 0, 2}, false)
	const never = math.MaxInt64
	for i, step := range []struct {
		touch int
		want  [4]int64
	}{{-1, [4]int64{0, 1, 3, never}}, {0, [4]int64{1, 0, 2, never}}, {1, [4]int64{0, never, 1, never}}, {2, [4]int64{never, never, never, never}}} {
		if step.touch >= 0 {
			p.Touch(step.touch) // the last one leaves out a use of 0
		}
		for id, want := range step.want {
			if got := p.Distance(id); got != want {
				t.Errorf("step %d: distance of %d: got %d, want %d", i, id, got, want)
			}
		}
	}
	p.Touch(3) // not in the order: nothing changes
	p = NewKnownOrder(3, []int{0, 1, 2}, true)
	for range 2 {
		p.Touch(0)
		p.Touch(1)
		if p.Distance(2) != 0 || p.Distance(0) != 1 || p.Distance(1) != 2 {
			t.Errorf("cyclic: got %d %d %d, want 1 2 0", p.Distance(0), p.Distance(1), p.Distance(2))
		}
		p.Touch(2)
	}
}

func TestKnownOrderAgainstScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const items = 6
		order := rapid.SliceOfN(rapid.IntRange(0, items-1), 1, 30).Draw(t, "order")
		cyclic := rapid.Bool().Draw(t, "cyclic")
		p := NewKnownOrder(items, order, cyclic)
		for now := range 3 * len(order) {
			if now == len(order) && !cyclic {
				return
			}
			for id := range items {
				want := int64(math.MaxInt64)
				for d := range len(order) {
					if at := now + d; (cyclic || at < len(order)) && order[at%len(order)] == id {
						want = int64(d)
						break
					}
				}
				if got := p.Distance(id); got != want {
					t.Fatalf("at %d: distance of %d: got %d, want %d", now, id, got, want)
				}
			}
			p.Touch(order[now%len(order)])
		}
	})
}

func TestLRUDistance(t *testing.T) {
	p := NewLRU(3)
	p.Touch(0)
	p.Touch(1)
	p.Touch(0)
	p.Hint(2)
	if p.Distance(2) != 0 || p.Distance(0) != 1 || p.Distance(1) != 2 {
		t.Errorf("got %d %d %d, want 1 2 0", p.Distance(0), p.Distance(1), p.Distance(2))
	}
}
