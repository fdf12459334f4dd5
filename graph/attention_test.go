package graph

import (
	"math"
	"testing"
)

// TestAttentionCounts: multiply-adds are those of the positions that rows see, to half a position a row, and bytes those of
// the keys and values that any row reaches.
func TestAttentionCounts(t *testing.T) {
	const context = 200
	for _, window := range []int{0, 1, 7, 100, 200, 1000} {
		s := AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 8, Block: 20, Context: context, Window: window}
		var pairs float64
		for pos := range context {
			pairs += float64(pos - s.First(pos) + 1)
		}
		bounds := Bounds{Rows: context}
		q, k := F(R(1), D(32)), F(D(5*context), D(16))
		table, ids := I(D(1), D(10)), I(R(1))
		in := []Type{q, k, k, table, ids, ids}
		out := Attention{s}.Outputs(in)
		got, want := Attention{s}.FLOPs(bounds, in, out), 2*2*32*pairs
		if math.Abs(got-want) > 2*2*32*context/2 {
			t.Errorf("window %d: %v FLOPs, want %v", window, got, want)
		}
		reach := 5 * context
		if window > 0 {
			reach = min(reach, context+window-1)
		}
		moved := Attention{s}.Traffic(bounds, in, out)
		bytes := float64(2*q.Bytes(bounds)+out[1].Bytes(bounds)+table.Bytes(bounds)+2*ids.Bytes(bounds)) + 2*float64(reach*16*4)
		if math.Abs(moved-bytes) > 1 {
			t.Errorf("window %d: %v bytes, want %v", window, moved, bytes)
		}
	}
}
