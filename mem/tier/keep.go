package tier

import (
	"cmp"
	"slices"

	"loadline/mem"
)

// Use is an item of a cyclic known order: its bytes, and how often one round uses it.
type Use struct {
	Bytes mem.Bytes
	Times int
}

// Keep chooses the items that stay in memory where every round uses all items in the same order, and the others pass through
// buffers that hold one at a time. capacity bounds the bytes of what stays. A byte that stays saves a byte for each use, so those
// used most often go first, then the largest, whose buffers would be the largest as well. Of equal items of which not all can stay, those
// that do are spread over the round, so that while one that stays is used, one that passes through can be fetched.
//
// For N items of one size in C places, one of them the buffer, that is C−1 hits a round. The best that knows the future
// (L. A. Belady, IBM Systems Journal 5(2), 1966: what KnownOrder does) moves what stays along with the order and hits
// N·(C−1)/(N−1), less than one more.
func Keep(items []Use, capacity mem.Bytes) []bool {
	order := make([]int, len(items)) //mem:ok a few words an item, before memory is mapped
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(-cmp.Compare(items[a].Times, items[b].Times), -cmp.Compare(items[a].Bytes, items[b].Bytes))
	})
	keep := make([]bool, len(items)) //mem:ok a byte an item, before memory is mapped
	for len(order) > 0 {
		like := items[order[0]]
		n := 1
		for n < len(order) && items[order[n]] == like {
			n++
		}
		stay := n
		if like.Bytes > 0 {
			stay = int(max(min(capacity/like.Bytes, mem.Bytes(n)), 0))
		}
		for k, i := range order[:n] {
			keep[i] = k*stay/n < (k+1)*stay/n
		}
		capacity -= mem.Bytes(stay) * like.Bytes
		order = order[n:]
	}
	return keep
}
