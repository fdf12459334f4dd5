package cpu

import (
	"math"
	"unsafe"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor/kernel"
)

// wide is HeadDim rounded up to whole panels: what lies in workspace as rows for a product's right side.
func wide(a graph.AttentionSpec) int { return (a.HeadDim + panel - 1) / panel * panel }

// panel is at least the set's FlashWidth, and a multiple of it.
const panel = kernel.PanelCols

// attentionParts is how a thread's workspace divides in the forward pass. Columns are the queries of a tile and a key/value head.
func attentionParts(a graph.AttentionSpec, rows int) []int {
	cols := (a.Heads/a.KVHeads*min(rows, tileRows) + panel - 1) / panel * panel
	return []int{
		cols * a.HeadDim, cols * a.HeadDim, // queries and unnormalised outputs, as columns
		3 * cols, cols, cols, // their states, their first and last positions
		keyBlock * panel,                           // scores
		keyBlock * a.HeadDim, keyBlock * a.HeadDim, // gathered keys and values
		max(panel*a.HeadDim, kernel.FlashPackLen(panel, wide(a))), // rows of queries or outputs
		a.HeadDim, // a row of the output
	}
}

func attentionNeeds(_ *compile.Instr, a graph.AttentionSpec, rows int) int64 {
	return 4 * int64(takes(attentionParts(a, rows)...))
}

// bindAttention works on one tile of rows and one key/value head at a time. Every row and query head of the group is a column
// of a panel that passes over the keys, a block at a time: see kernel.FlashPanel.
func bindAttention(b *binder, o graph.Attention) step {
	q, k, v, out, lse := b.inF(0), b.inF(1), b.inF(2), b.outF(0), b.out32(1)
	p := b.paged(o.AttentionSpec, 3, b.inType(1).Shape.Dims[0])
	parts := attentionParts(o.AttentionSpec, p.rows.Len(b.x.Bounds))
	group, hd := o.Heads/o.KVHeads, o.HeadDim
	c := float32(float64(o.Scale()) * math.Log2E)
	return p.perTile(func(s *Session, t *tile, g, worker int) {
		w := s.carver(worker)
		queries, outs, states := w.take(parts[0]), w.take(parts[1]), w.take(parts[2])
		los, his := int32s(w.take(parts[3])), int32s(w.take(parts[4]))
		scores, keys, vals, buf, one := w.take(parts[5]), w.take(parts[6]), w.take(parts[7]), w.take(parts[8]), w.take(parts[9])
		rows, width := int(t.n), s.set.FlashWidth()
		cols := group * rows
		at := func(i int) kernel.FlashPanel { // the panel from column i on
			return kernel.FlashPanel{Queries: queries[i*hd:], Out: outs[i*hd:], State: states[3*i:], Lo: los[i:], Hi: his[i:], Cols: min(width, cols-i)}
		}
		head := func(i int) (r, h int) { return i % rows, g*group + i/rows } // of column i
		for i := 0; i < cols; i += width {
			pn := at(i)
			n := pn.Cols
			pn.Reset(s.set, hd)
			for j := range n {
				r, h := head(i + j)
				q.get(s, p.headAt(t, r, h), buf[j*hd:(j+1)*hd])
				pn.Hi[j] = p.pos[int(t.row)+r]
				pn.Lo[j] = int32(p.First(int(pn.Hi[j])))
			}
			for j := n; j < width; j++ {
				pn.Lo[j], pn.Hi[j] = 0, math.MaxInt32
			}
			s.set.FlashPack(pn.Queries, rowMajor(buf, n, hd))
		}
		for pos := p.start(t); pos <= int(t.last); pos += keyBlock {
			n := min(keyBlock, int(t.last)+1-pos)
			km, vm := p.keys(s, k, int(t.seq), pos, n, g, keys), p.keys(s, v, int(t.seq), pos, n, g, vals)
			for i := 0; i < cols; i += width {
				pn := at(i)
				from, to := pos+n, pos // what a column sees of the block
				for j := range pn.Cols {
					from, to = min(from, int(pn.Lo[j])), max(to, int(pn.Hi[j])+1)
				}
				// Sums have lanes by position: from stays at the first.
				if from, to = max(from-pos, 0)/panel*panel, min(to-pos, n); from < to {
					s.set.FlashForward(&pn, scores, km.Slice(from, to, 0, hd), vm.Slice(from, to, 0, hd), c, pos+from)
				}
			}
		}
		for i := 0; i < cols; i += width {
			pn := at(i)
			s.set.FlashRows(buf, &pn, hd)
			for j := range pn.Cols {
				r, h := head(i + j)
				top, sum, to := pn.State[j], pn.State[width+j], p.headAt(t, r, h)
				if out.narrow() {
					s.set.FlashRow(one, 1/sum, &pn, buf, j)
					out.put(s, to, one)
				} else {
					s.set.FlashRow(out.f[to:to+hd], 1/sum, &pn, buf, j)
				}
				if lse != nil {
					lse[(int(t.row)+r)*p.Heads+h] = float32((float64(top) + math.Log2(float64(sum))) * math.Ln2)
				}
			}
		}
	})
}

// int32s is x seen as int32s.
func int32s(x []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

const (
	gradRows = 64            // rows of a tile at once in the backward pass
	gradLD   = keyBlock + 16 // between its rows: more than a block, so that they lie in different sets of the cache
)

// attentionGradParts is how a thread's workspace divides in the backward pass.
func attentionGradParts(a graph.AttentionSpec, rows int, narrow bool) []int {
	sums, w := 0, wide(a)
	if narrow || w != a.HeadDim {
		sums = a.Heads / a.KVHeads * min(rows, a.Context) * w
	}
	return []int{
		gradRows * gradLD, gradRows * gradLD, // probabilities, their gradients
		kernel.FlashPackLen(keyBlock, a.HeadDim), kernel.FlashPackLen(keyBlock, a.HeadDim), // keys and values, as columns
		keyBlock * w, keyBlock * w, keyBlock * w, keyBlock * w, // gathered keys, values, dk, dv
		gradRows * w, gradRows * w, // gathered queries, output gradients
		gradRows, gradRows, gradRows, // of rows: the log of the denominator, the first and last key seen
		sums,                                           // query gradients of a sequence
		(a.HeadDim + 15) &^ 15, (a.HeadDim + 15) &^ 15, // rows
	}
}

func attentionGradNeeds(in *compile.Instr, a graph.AttentionSpec, rows int) int64 {
	return 4 * int64(takes(attentionGradParts(a, rows, anyNarrow(in))...))
}

// bindAttentionGrad works on one sequence and one key/value head at a time: for every block of keys, the group's query
// heads ascending, their rows ascending. With P = exp(Scale·scores−lse) and dS = P·Scale·(dO·Vᵀ − Σ dO·O): dV = Pᵀ·dO,
// dK = dSᵀ·Q, dQ = dS·K.
func bindAttentionGrad(b *binder, o graph.AttentionGrad) step {
	do, q, k, v, y, lse := b.inF(0), b.inF(1), b.inF(2), b.inF(3), b.inF(4), b.in32(5)
	dq, dk, dv, delta := b.outF(0), b.outF(1), b.outF(2), b.scratch32()
	pool := b.inType(2)
	p := b.paged(o.AttentionSpec, 6, pool.Shape.Dims[0])
	narrow := anyNarrow(b.in)
	parts := attentionGradParts(o.AttentionSpec, b.inType(0).Shape.Lead(b.x.Bounds), narrow)
	group, hd, w := o.Heads/o.KVHeads, o.HeadDim, wide(o.AttentionSpec)
	scale := o.Scale()
	c := float32(float64(scale) * math.Log2E)
	return p.perRun(func(s *Session, run []tile, g, worker int) {
		cv := s.carver(worker)
		pr, ds, kt, vt := cv.take(parts[0]), cv.take(parts[1]), cv.take(parts[2]), cv.take(parts[3])
		kb, vb, dkb, dvb, qb, dob := cv.take(parts[4]), cv.take(parts[5]), cv.take(parts[6]), cv.take(parts[7]), cv.take(parts[8]), cv.take(parts[9])
		lse2, lo, hi, sums := cv.take(parts[10]), int32s(cv.take(parts[11])), int32s(cv.take(parts[12])), cv.take(parts[13])
		rowA, rowB := cv.take(parts[14]), cv.take(parts[15])
		last := &run[len(run)-1]
		end, seq, first := int(last.last)+1, int(run[0].seq), int(run[0].row)
		length, all := int(last.row+last.n)-first, p.rows.Len(s.b)
		// dqAt is rows of head h from row on: in place, or where they are summed.
		dqAt := func(row, rows, h int) kernel.Mat {
			if len(sums) > 0 {
				return kernel.RowMajor(sums[((h-g*group)*length+row-first)*w:], rows, hd, w)
			}
			return kernel.RowMajor(dq.f[(row*p.Heads+h)*hd:], rows, hd, p.Heads*hd)
		}
		for h := g * group; h < (g+1)*group; h++ {
			for row := first; row < first+length; row++ {
				at := (row*p.Heads + h) * hd
				a, b := carver(rowA), carver(rowB)
				delta[h*all+row] = scale * float32(s.set.SumMul(do.load(s, at, at+hd, &a), y.load(s, at, at+hd, &b)))
				d := dqAt(row, 1, h)
				clear(d.Data[:hd])
			}
		}
		for at := p.start(&run[0]); at < end; at += keyBlock {
			n := min(keyBlock, end-at)
			km, vm := p.block(s, k, seq, at, n, g, kb), p.block(s, v, seq, at, n, g, vb)
			dkm, dvm := p.block(s, dk, seq, at, n, g, dkb), p.block(s, dv, seq, at, n, g, dvb)
			s.set.FlashPack(kt, km)
			s.set.FlashPack(vt, vm)
			for h := g * group; h < (g+1)*group; h++ {
				for i := range run {
					t := &run[i]
					from, to := p.see(t, at, n)
					for row, to := int(t.row)+from, int(t.row)+to; row < to; row += gradRows {
						rows := min(gradRows, to-row)
						x := gradTile{spec: &p.AttentionSpec, at: at, pos: p.pos[row:][:rows], lo: lo, hi: hi, lse: lse2[:rows], delta: delta[h*all+row:][:rows], c: c, scale: scale}
						for r := range rows {
							x.lse[r] = float32(float64(lse[(row+r)*p.Heads+h]) * math.Log2E)
						}
						nc := min(n, int(x.pos[rows-1])+1-at) // no row sees more
						x.p, x.d = kernel.RowMajor(pr, rows, nc, gradLD), kernel.RowMajor(ds, rows, nc, gradLD)
						x.q, x.do = p.rowsAt(s, q, row, rows, h, qb), p.rowsAt(s, do, row, rows, h, dob)
						x.k, x.dk, x.dv = km.Slice(0, nc, 0, hd), dkm.Slice(0, nc, 0, hd), dvm.Slice(0, nc, 0, hd)
						x.dq = dqAt(row, rows, h)
						x.add(s.set, kt, vt)
					}
				}
			}
			p.scatter(s, dk, seq, at, n, g, dkb, w)
			p.scatter(s, dv, seq, at, n, g, dvb, w)
		}
		for h := g * group; len(sums) > 0 && h < (g+1)*group; h++ {
			for row := first; row < first+length; row++ {
				dq.put(s, (row*p.Heads+h)*hd, dqAt(row, 1, h).Data[:hd])
			}
		}
	}, pool, dk, dv)
}

// gradTile is some rows of one query head and a block of keys in the backward pass.
type gradTile struct {
	spec       *graph.AttentionSpec
	at         int     // the first key's position
	pos        []int32 // of the rows
	lo, hi     []int32 // room for what rows see
	lse, delta []float32
	c, scale   float32
	p, d       kernel.Mat // probabilities and gradients (rows,keys)
	q, do, dq  kernel.Mat // (rows,HeadDim)
	k, dk, dv  kernel.Mat // (keys,HeadDim)
}

// add adds the tile's part to dq, dk and dv. kt and vt are the keys and values as columns.
func (x *gradTile) add(set kernel.Set, kt, vt []float32) {
	rows, n, hd := x.p.Rows, x.p.Cols, x.q.Cols
	for r, at := range x.pos {
		x.lo[r], x.hi[r] = int32(x.spec.First(int(at))-x.at), at-int32(x.at)
	}
	if int(x.hi[0]) >= n-1 && x.lo[rows-1] <= 0 { // every row sees every key
		set.FlashMulPacked(x.p, x.q, kt)
		set.FlashMulPacked(x.d, x.do, vt)
		set.FlashProbs(x.p, x.d, x.c, x.scale, x.lse, x.delta, nil, nil, false)
		set.FlashMul(x.dv, x.p.T(), x.do, true)
		set.FlashMul(x.dk, x.d.T(), x.q, true)
		set.FlashMul(x.dq, x.d, x.k, true)
		return
	}
	// Panels of keys, then of rows, and of either what sees the other.
	w := set.FlashWidth()
	see := func(j, e int) (from, to int) { // the rows that see one of keys j to e
		for from < rows && int(x.hi[from]) < j {
			from++
		}
		for to = from; to < rows && int(x.lo[to]) < e; to++ {
		}
		return from, to
	}
	for j := 0; j < n; j += w {
		e := min(j+w, n)
		if r, to := see(j, e); r < to {
			set.FlashMulPacked(x.p.Slice(r, to, j, e), x.q.Slice(r, to, 0, hd), kt[j*hd:])
			set.FlashMulPacked(x.d.Slice(r, to, j, e), x.do.Slice(r, to, 0, hd), vt[j*hd:])
		}
	}
	set.FlashProbs(x.p, x.d, x.c, x.scale, x.lse, x.delta, x.lo, x.hi, true)
	for j := 0; j < n; j += w {
		e := min(j+w, n)
		if r, to := see(j, e); r < to {
			set.FlashMul(x.dv.Slice(j, e, 0, hd), x.p.Slice(r, to, j, e).T(), x.do.Slice(r, to, 0, hd), true)
			set.FlashMul(x.dk.Slice(j, e, 0, hd), x.d.Slice(r, to, j, e).T(), x.q.Slice(r, to, 0, hd), true)
		}
	}
	for r := 0; r < rows; r += w {
		e := min(r+w, rows)
		if j, to := max(int(x.lo[r]), 0), min(n, int(x.hi[e-1])+1); j < to {
			set.FlashMul(x.dq.Slice(r, e, 0, hd), x.d.Slice(r, e, j, to), x.k.Slice(j, to, 0, hd), true)
		}
	}
}
