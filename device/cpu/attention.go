package cpu

import (
	"math"
	"unsafe"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// wide is HeadDim rounded up to whole panels: what lies in workspace as rows for a product's right side.
func wide(a graph.AttentionSpec) int { return (a.HeadDim + panel - 1) / panel * panel }

// panel is at least the set's FlashWidth, and a multiple of it.
const panel = kernel.PanelCols

// attentionParts is how a thread's workspace divides in the forward pass. Columns are the queries of a tile and a key/value head.
func attentionParts(a graph.AttentionSpec, rows int) []int {
	cols, w := (a.Heads/a.KVHeads*min(rows, tileRows)+panel-1)/panel*panel, wide(a)
	return []int{
		cols * w, cols * a.HeadDim, // queries and unnormalised outputs, as columns
		3 * cols, cols, cols, // their states, their first and last positions
		keyBlock * panel,           // scores
		keyBlock * w, keyBlock * w, // keys and values, gathered or prepared
		panel * w,                            // rows of queries or outputs
		a.HeadDim,                            // a row of the output
		kernel.FlashHalfLen(panel, keyBlock), // probabilities in bf16
	}
}

func attentionNeeds(_ *compile.Instr, a graph.AttentionSpec, rows int) int64 {
	return 4 * int64(takes(attentionParts(a, rows)...))
}

// exponent turns scores into exponents of two: it takes their scale where no softcap has.
func exponent(a graph.AttentionSpec) float32 {
	if a.Softcap > 0 {
		return math.Log2E
	}
	return float32(float64(a.Scale()) * math.Log2E)
}

// bindAttention works on one tile of rows and one key/value head at a time. Every row and query head of the group is a column
// of a panel that passes over the keys, a block at a time: see kernel.FlashPanel.
func bindAttention(b *binder, o graph.Attention) step {
	q, k, v, sinks, out, lse := b.inF(0), b.pool(b.in.In[1]), b.pool(b.in.In[2]), b.in32(6), b.outF(0), b.out32(1)
	p := b.paged(o.AttentionSpec, 3, b.inType(1).Shape.Dims[0])
	parts := attentionParts(o.AttentionSpec, p.rows.Len(b.x.Bounds))
	group, hd := o.Heads/o.KVHeads, o.HeadDim
	c, softcap := exponent(o.AttentionSpec), float32(o.Softcap)
	half := b.s.set.FlashHalf() && q.t == dtype.BF16 && k.plain.t == dtype.BF16 && v.plain.t == dtype.BF16
	return p.perTile(func(s *Session, t *tile, g, worker int) {
		w := s.carver(worker)
		queries, outs, states := w.take(parts[0]), w.take(parts[1]), w.take(parts[2])
		los, his := int32s(w.take(parts[3])), int32s(w.take(parts[4]))
		scores, keys, vals, buf, one := w.take(parts[5]), w.take(parts[6]), w.take(parts[7]), w.take(parts[8]), w.take(parts[9])
		pairs, wd := w.take(parts[10]), wide(o.AttentionSpec)
		rows, width := int(t.n), s.set.FlashWidth()
		cols := group * rows
		at := func(i int) kernel.FlashPanel { // the panel from column i on
			return kernel.FlashPanel{Queries: queries[i*wd:], Out: outs[i*hd:], State: states[3*i:], Lo: los[i:], Hi: his[i:], Cols: min(width, cols-i), Half: half, Scale: o.Scale(), Cap: softcap}
		}
		head := func(i int) (r, h int) { return i % rows, g*group + i/rows } // of column i
		for i := 0; i < cols; i += width {
			pn := at(i)
			n := pn.Cols
			pn.Reset(s.set, hd)
			for j := range n {
				r, h := head(i + j)
				if at := p.headAt(t, r, h); half {
					copy(uint16s(buf)[j*hd:(j+1)*hd], q.h[at:])
				} else {
					q.get(s, at, buf[j*hd:(j+1)*hd])
				}
				pn.Hi[j] = p.pos[int(t.row)+r]
				pn.Lo[j] = int32(p.First(int(pn.Hi[j])))
			}
			for j := n; j < width; j++ {
				pn.Lo[j], pn.Hi[j] = 0, math.MaxInt32
			}
			if half {
				s.set.FlashRight(pn.Queries, kernel.RowMajorBF16(uint16s(buf), n, hd, hd).T())
			} else {
				s.set.FlashPack(pn.Queries, rowMajor(buf, n, hd))
			}
		}
		for pos := p.start(t); pos <= int(t.last); pos += keyBlock {
			n := min(keyBlock, int(t.last)+1-pos)
			var km, vm kernel.Mat
			var kl, vl kernel.FlashLeft
			if half {
				room := keyBlock * wd / 2
				kl = s.set.FlashLeft(keys[:room], p.halves(k.plain, int(t.seq), pos, n, g, uint16s(keys[room:])))
				vl = s.set.FlashLeft(vals[:room], p.halves(v.plain, int(t.seq), pos, n, g, uint16s(vals[room:])).T())
			} else {
				km, vm = p.stored(s, &k, int(t.seq), pos, n, g, keys), p.stored(s, &v, int(t.seq), pos, n, g, vals)
			}
			for i := 0; i < cols; i += width {
				pn := at(i)
				from, to := pos+n, pos // what a column sees of the block
				for j := range pn.Cols {
					from, to = min(from, int(pn.Lo[j])), max(to, int(pn.Hi[j])+1)
				}
				// Sums have lanes by position: from stays at the first.
				from, to = max(from-pos, 0)/panel*panel, min(to-pos, n)
				switch {
				case from >= to:
				case half:
					s.set.FlashForwardHalf(&pn, scores, pairs, kl, vl, c, pos, from, to)
				default:
					s.set.FlashForward(&pn, scores, km.Slice(from, to, 0, hd), vm.Slice(from, to, 0, hd), c, pos+from)
				}
			}
		}
		for i := 0; i < cols; i += width {
			pn := at(i)
			s.set.FlashRows(buf, &pn, hd)
			for j := range pn.Cols {
				r, h := head(i + j)
				top, sum, to := pn.State[j], float64(pn.State[width+j]), p.headAt(t, r, h)
				if sinks != nil {
					sum += math.Exp2(float64(sinks[h])*math.Log2E - float64(top))
				}
				norm := float32(1 / sum)
				if out.narrow() {
					s.set.FlashRow(one, norm, &pn, buf, j)
					out.put(s, to, one)
				} else {
					s.set.FlashRow(out.f[to:to+hd], norm, &pn, buf, j)
				}
				if lse != nil {
					lse[(int(t.row)+r)*p.Heads+h] = float32((float64(top) + math.Log2(sum)) * math.Ln2)
				}
			}
		}
	})
}

// uint16s is x seen as twice as many uint16s.
func uint16s(x []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}

// int32s is x seen as int32s.
func int32s(x []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// bytesOf is x seen as bytes.
func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
