package cpu

import (
	"math"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

const (
	gradRows = 128           // rows of a tile at once in the backward pass
	gradLD   = keyBlock + 16 // between its rows: more than a block, so that they lie in different sets of the cache
)

// attentionGradParts is how a thread's workspace divides in the backward pass.
func attentionGradParts(a graph.AttentionSpec, rows int, narrow bool) []int {
	sums, slopes, w := 0, 0, wide(a)
	if a.Softcap > 0 {
		slopes = gradRows * gradLD
	}
	if narrow || w != a.HeadDim {
		sums = a.Heads / a.KVHeads * min(rows, a.Context) * w
	}
	return []int{
		gradRows * gradLD, gradRows * gradLD, // probabilities, their gradients
		keyBlock * w, keyBlock * w, // keys and values, as columns
		keyBlock * w, keyBlock * w, keyBlock * w, keyBlock * w, // keys, values, gathered or prepared; dk, dv
		gradRows * w, gradRows * w, // queries, output gradients, gathered or prepared
		gradRows, gradRows, gradRows, // of rows: the log of the denominator, the first and last key seen
		sums,                                           // query gradients of a sequence
		(a.HeadDim + 15) &^ 15, (a.HeadDim + 15) &^ 15, // rows
		kernel.FlashHalfLen(keyBlock, gradRows), // probabilities or their gradients in bf16
		slopes,                                  // of the softcap
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
	c := exponent(o.AttentionSpec)
	half := b.s.set.FlashHalf() && do.t == dtype.BF16 && q.t == dtype.BF16 && k.t == dtype.BF16 && v.t == dtype.BF16
	return p.perRun(func(s *Session, run []tile, g, worker int) {
		cv := s.carver(worker)
		pr, ds, kt, vt := cv.take(parts[0]), cv.take(parts[1]), cv.take(parts[2]), cv.take(parts[3])
		kb, vb, dkb, dvb, qb, dob := cv.take(parts[4]), cv.take(parts[5]), cv.take(parts[6]), cv.take(parts[7]), cv.take(parts[8]), cv.take(parts[9])
		lse2, lo, hi, sums := cv.take(parts[10]), int32s(cv.take(parts[11])), int32s(cv.take(parts[12])), cv.take(parts[13])
		rowA, rowB, prep, slope := cv.take(parts[14]), cv.take(parts[15]), cv.take(parts[16]), cv.take(parts[17])
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
			var km, vm kernel.Mat
			var kr []float32 // the keys as right side of a product in bf16
			if half {
				kr = kb[:keyBlock*w/2]
				kh := p.halves(k, seq, at, n, g, uint16s(kb[keyBlock*w/2:]))
				s.set.FlashRight(kr, kh)
				s.set.FlashRight(kt, kh.T())
				s.set.FlashRight(vt, p.halves(v, seq, at, n, g, uint16s(vb)).T())
			} else {
				km, vm = p.block(s, k, seq, at, n, g, kb), p.block(s, v, seq, at, n, g, vb)
				s.set.FlashPack(kt, km)
				s.set.FlashPack(vt, vm)
			}
			dkm, dvm := p.block(s, dk, seq, at, n, g, dkb), p.block(s, dv, seq, at, n, g, dvb)
			for h := g * group; h < (g+1)*group; h++ {
				for i := range run {
					t := &run[i]
					from, to := p.see(t, at, n)
					for row, to := int(t.row)+from, int(t.row)+to; row < to; row += gradRows {
						rows := min(gradRows, to-row)
						x := gradTile{spec: &p.AttentionSpec, at: at, pos: p.pos[row:][:rows], lo: lo, hi: hi, lse: lse2[:rows], delta: delta[h*all+row:][:rows], c: c, scale: scale, slope: slope}
						for r := range rows {
							x.lse[r] = float32(float64(lse[(row+r)*p.Heads+h]) * math.Log2E)
						}
						nc := n
						if !half { // what is prepared of the keys is of all
							nc = min(n, int(x.pos[rows-1])+1-at) // no row sees more
						}
						x.p, x.d = kernel.RowMajor(pr, rows, nc, gradLD), kernel.RowMajor(ds, rows, nc, gradLD)
						x.dk, x.dv, x.dq = dkm.Slice(0, nc, 0, hd), dvm.Slice(0, nc, 0, hd), dqAt(row, rows, h)
						if half {
							room := gradRows * w / 2
							qh, doh := p.halfRows(q, row, rows, h), p.halfRows(do, row, rows, h)
							y := gradHalf{q: s.set.FlashLeft(qb[:room], qh), do: s.set.FlashLeft(dob[:room], doh), qr: qb[room:], dor: dob[room:], kr: kr, buf: prep}
							s.set.FlashRight(y.qr, qh)
							s.set.FlashRight(y.dor, doh)
							x.addHalf(s.set, &y, kt, vt)
							continue
						}
						x.q, x.do, x.k = p.rowsAt(s, q, row, rows, h, qb), p.rowsAt(s, do, row, rows, h, dob), km.Slice(0, nc, 0, hd)
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
	slope      []float32  // room for the slopes of a softcap
	p, d       kernel.Mat // probabilities and gradients (rows,keys)
	q, do, dq  kernel.Mat // (rows,HeadDim)
	k, dk, dv  kernel.Mat // (keys,HeadDim)
}

// bounds finds what rows see of the n keys; it tells whether that is all of them.
func (x *gradTile) bounds() bool {
	rows, n := x.p.Rows, x.p.Cols
	for r, at := range x.pos {
		x.lo[r], x.hi[r] = int32(x.spec.First(int(at))-x.at), at-int32(x.at)
	}
	return int(x.hi[0]) >= n-1 && x.lo[rows-1] <= 0
}

// see is the rows that see one of keys j to e.
func (x *gradTile) see(j, e int) (from, to int) {
	for from < x.p.Rows && int(x.hi[from]) < j {
		from++
	}
	for to = from; to < x.p.Rows && int(x.lo[to]) < e; to++ {
	}
	return from, to
}

// seen is the keys that one of rows r to e sees.
func (x *gradTile) seen(r, e int) (from, to int) {
	return max(int(x.lo[r]), 0), min(x.p.Cols, int(x.hi[e-1])+1)
}

// probs is FlashProbs, with a softcap between scores and probabilities: gradients of scores are times its slope. What rows do
// not see may hold anything before.
func (x *gradTile) probs(set kernel.Set, masked bool) {
	lo, hi := x.lo, x.hi
	if !masked {
		lo, hi = nil, nil
	}
	limit, n := float32(x.spec.Softcap), x.p.Cols
	seen := func(r int) (from, to int) { return 0, n }
	if masked {
		seen = func(r int) (from, to int) { return x.seen(r, r+1) }
	}
	for r := 0; limit > 0 && r < x.p.Rows; r++ {
		from, to := seen(r)
		if from >= to {
			continue
		}
		row, slope := x.p.Data[r*gradLD:][from:to], x.slope[r*gradLD:][from:to]
		set.SoftCap(row, row, x.scale, limit)
		for i, y := range row {
			t := y / limit
			slope[i] = 1 - float32(t*t)
		}
	}
	set.FlashProbs(x.p, x.d, x.c, x.scale, x.lse, x.delta, lo, hi, masked)
	for r := 0; limit > 0 && r < x.p.Rows; r++ {
		if from, to := seen(r); from < to {
			row := x.d.Data[r*gradLD:][from:to]
			set.Mul(row, row, x.slope[r*gradLD:][from:to])
		}
	}
}

// add adds the tile's part to dq, dk and dv. kt and vt are the keys and values as columns.
func (x *gradTile) add(set kernel.Set, kt, vt []float32) {
	rows, n, hd := x.p.Rows, x.p.Cols, x.q.Cols
	if x.bounds() {
		set.FlashMulPacked(x.p, x.q, kt)
		set.FlashMulPacked(x.d, x.do, vt)
		x.probs(set, false)
		set.FlashMul(x.dv, x.p.T(), x.do, true)
		set.FlashMul(x.dk, x.d.T(), x.q, true)
		set.FlashMul(x.dq, x.d, x.k, true)
		return
	}
	// Panels of keys, then of rows, and of either what sees the other.
	w := set.FlashWidth()
	for j := 0; j < n; j += w {
		e := min(j+w, n)
		if r, to := x.see(j, e); r < to {
			set.FlashMulPacked(x.p.Slice(r, to, j, e), x.q.Slice(r, to, 0, hd), kt[j*hd:])
			set.FlashMulPacked(x.d.Slice(r, to, j, e), x.do.Slice(r, to, 0, hd), vt[j*hd:])
		}
	}
	x.probs(set, true)
	for j := 0; j < n; j += w {
		e := min(j+w, n)
		if r, to := x.see(j, e); r < to {
			set.FlashMul(x.dv.Slice(j, e, 0, hd), x.p.Slice(r, to, j, e).T(), x.do.Slice(r, to, 0, hd), true)
			set.FlashMul(x.dk.Slice(j, e, 0, hd), x.d.Slice(r, to, j, e).T(), x.q.Slice(r, to, 0, hd), true)
		}
	}
	for r := 0; r < rows; r += w {
		e := min(r+w, rows)
		if j, to := x.seen(r, e); j < to {
			set.FlashMul(x.dq.Slice(r, e, 0, hd), x.d.Slice(r, e, j, to), x.k.Slice(j, to, 0, hd), true)
		}
	}
}

// gradHalf is the operands of a gradTile in bf16.
type gradHalf struct {
	q, do       kernel.FlashLeft
	qr, dor, kr []float32 // the right sides of products: q, do and the keys
	buf         []float32
}

// addHalf is add in bf16, which probabilities and gradients are rounded to. Parts are of whole tiles of 32.
func (x *gradTile) addHalf(set kernel.Set, y *gradHalf, kt, vt []float32) {
	const w = panel
	rows, n, hd := x.p.Rows, x.p.Cols, x.dq.Cols
	if x.bounds() {
		set.FlashMulHalf(x.p, y.q, 0, rows, kt, 0, hd, false)
		set.FlashMulHalf(x.d, y.do, 0, rows, vt, 0, hd, false)
		x.probs(set, false)
		set.FlashMulHalf(x.dv, set.FlashLeft(y.buf, x.p.T().BF16()), 0, n, y.dor, 0, rows, true)
		set.FlashMulHalf(x.dk, set.FlashLeft(y.buf, x.d.T().BF16()), 0, n, y.qr, 0, rows, true)
		set.FlashMulHalf(x.dq, set.FlashLeft(y.buf, x.d.BF16()), 0, rows, y.kr, 0, n, true)
		return
	}
	whole := func(from, to, n int) (int, int) { return from / w * w, min((to+w-1)/w*w, n) }
	panels := func(f func(j, e, r, to int)) {
		for j := 0; j < n; j += w {
			e := min(j+w, n)
			if r, to := x.see(j, e); r < to {
				r, to = whole(r, to, rows)
				f(j, e, r, to)
			}
		}
	}
	deep := wide(*x.spec) / 2 // elements of a key as a column
	panels(func(j, e, r, to int) {
		set.FlashMulHalf(x.p.Slice(r, to, j, e), y.q, r, to, kt[j*deep:], 0, hd, false)
		set.FlashMulHalf(x.d.Slice(r, to, j, e), y.do, r, to, vt[j*deep:], 0, hd, false)
	})
	x.probs(set, true)
	left := set.FlashLeft(y.buf, x.p.T().BF16())
	panels(func(j, e, r, to int) {
		set.FlashMulHalf(x.dv.Slice(j, e, 0, hd), left, j, e, y.dor, r, to, true)
	})
	left = set.FlashLeft(y.buf, x.d.T().BF16())
	panels(func(j, e, r, to int) {
		set.FlashMulHalf(x.dk.Slice(j, e, 0, hd), left, j, e, y.qr, r, to, true)
	})
	left = set.FlashLeft(y.buf, x.d.BF16())
	for r := 0; r < rows; r += w {
		e := min(r+w, rows)
		if j, to := x.seen(r, e); j < to {
			j, to = whole(j, to, n)
			set.FlashMulHalf(x.dq.Slice(r, e, 0, hd), left, r, e, y.kr, j, to, true)
		}
	}
}
