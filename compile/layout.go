package compile

import (
	"cmp"
	"slices"

	"loadline/graph"
	"loadline/mem"
)

// layout gives every buffer of the arena an offset in its tier and sets the arenas' sizes and the liveness bounds.
//
// Offsets come from first-fit over buffers in a fixed order (Pisarchyk & Lee, arXiv 2001.03288): largest first reaches
// the bound in regular programs. Where it does not, orders by lifetime and by area are tried as well, then the order is
// improved by moving the buffer that made the peak forward, a bounded number of times. The best wins; ties keep the first.
func layout(p *Program) {
	for t := range mem.Tier(mem.NumTiers) {
		var ids []int32
		for i := range p.Buffers {
			if b := &p.Buffers[i]; !b.Persistent() && b.Tier == t {
				ids = append(ids, int32(i))
			}
		}
		if len(ids) == 0 {
			continue
		}
		p.Bound[t] = bound(p, ids)
		p.Arena[t] = place(p, ids, p.Bound[t])
	}
}

// bound is the largest sum of bytes alive at one instruction.
func bound(p *Program, ids []int32) int64 {
	d := make([]int64, len(p.Instrs)+1)
	for _, i := range ids {
		b := &p.Buffers[i]
		d[b.First] += b.Bytes
		d[b.Last+1] -= b.Bytes
	}
	var sum, best int64
	for _, x := range d {
		sum += x
		best = max(best, sum)
	}
	return best
}

// improveMoves bounds the hill climbing of place.
const improveMoves = 60

// place chooses offsets for ids and returns the arena's size.
func place(p *Program, ids []int32, bound int64) int64 {
	w := &placer{p: p, offset: make([]int64, len(p.Buffers))}
	span := func(i int32) int64 { return int64(p.Buffers[i].Last - p.Buffers[i].First + 1) }
	keys := []func(i int32) int64{
		func(i int32) int64 { return p.Buffers[i].Bytes },
		span,
		func(i int32) int64 { return p.Buffers[i].Bytes * span(i) },
	}
	var best []int64
	var order []int32
	size := int64(-1)
	for _, key := range keys {
		o := slices.Clone(ids)
		slices.SortStableFunc(o, func(a, b int32) int {
			return cmp.Or(cmp.Compare(key(b), key(a)), cmp.Compare(p.Buffers[b].Bytes, p.Buffers[a].Bytes))
		})
		n, _ := w.firstFit(o)
		if size < 0 || n < size {
			size, best, order = n, slices.Clone(w.offset), o
		}
		if size <= bound {
			break
		}
	}
	for k := 0; k < improveMoves && size > bound && len(order) < 4000; k++ {
		_, top := w.firstFit(order)
		o := slices.Clone(order)
		x := o[top]
		to := top * (k%4 + 1) / 5 // try several distances in turn
		o = slices.Insert(slices.Delete(o, top, top+1), to, x)
		if n, _ := w.firstFit(o); n <= size {
			if n < size {
				best = slices.Clone(w.offset)
			}
			size, order = n, o
		}
	}
	for _, i := range ids {
		p.Buffers[i].Offset = best[i]
	}
	return size
}

// placer is the scratch of firstFit.
type placer struct {
	p      *Program
	offset []int64
	active []int32 // placed buffers, by offset
	at     [][]int32
}

// firstFit places buffers in order, each at the lowest offset where it overlaps none that lives at the same time. It
// returns the size and the place in order of the first buffer that reached it.
func (w *placer) firstFit(order []int32) (size int64, top int) {
	bs := w.p.Buffers
	placed := w.active[:0]
	for k, i := range order {
		b := &bs[i]
		var at int64
		for _, j := range placed { // ascending offsets
			o := &bs[j]
			if o.First > b.Last || b.First > o.Last {
				continue
			}
			if w.offset[j]-at >= b.Bytes {
				break
			}
			at = max(at, w.offset[j]+o.Bytes)
		}
		w.offset[i] = at
		if at+b.Bytes > size {
			size, top = at+b.Bytes, k
		}
		pos, _ := slices.BinarySearchFunc(placed, at, func(j int32, x int64) int {
			return cmp.Or(cmp.Compare(w.offset[j], x), -1)
		})
		placed = slices.Insert(placed, pos, i)
	}
	w.active = placed
	return graph.RoundUp(size), top
}
