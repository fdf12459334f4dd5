package cpu

import (
	"math"
	"unsafe"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor/kernel"
)

// attentionParts is how a thread's workspace divides in the forward pass.
func attentionParts(a graph.AttentionSpec, narrow bool) []int {
	group, sums := a.Heads/a.KVHeads, 0
	if narrow {
		sums = group * tileRows * a.HeadDim
	}
	return []int{
		tileRows * keyBlock,                        // scores
		group * tileRows * a.HeadDim,               // scaled queries
		kernel.PackedBLen(a.HeadDim, keyBlock),     // keys, transposed
		kernel.PackedBLen(keyBlock, a.HeadDim),     // values
		keyBlock * a.HeadDim,                       // gathered keys or values
		group * tileRows, 2 * group * tileRows, 64, // maxima, sums (f64), factors
		workAttention(a.HeadDim),
		sums, // unnormalised outputs
	}
}

func attentionNeeds(in *compile.Instr, a graph.AttentionSpec) int64 {
	return 4 * int64(takes(attentionParts(a, anyNarrow(in))...))
}

// bindAttention works on one tile of rows and one key/value head at a time. For every block of keys, each row continues its
// maximum m, sum l and unnormalised output: with m' = max(m, scores), o = o·exp(m−m') + exp(scores−m')·V, l likewise.
func bindAttention(b *binder, o graph.Attention) step {
	q, k, v, out, lse := b.inF(0), b.inF(1), b.inF(2), b.outF(0), b.out32(1)
	p := b.paged(o.AttentionSpec, 3, b.inType(1).Shape.Dims[0])
	parts := attentionParts(o.AttentionSpec, anyNarrow(b.in))
	group, hd := o.Heads/o.KVHeads, o.HeadDim
	return p.perTile(func(s *Session, t *tile, g, worker int) {
		c := s.carver(worker)
		sc, qs, kt, vp, gather := c.take(parts[0]), c.take(parts[1]), c.take(parts[2]), c.take(parts[3]), c.take(parts[4])
		m, l, factor, ws := c.take(parts[5]), float64s(c.take(parts[6])), c.take(parts[7]), c.take(parts[8])
		sums := c.take(parts[9])
		rows := int(t.n)
		for h := range group {
			p.scaled(s, qs[h*tileRows*hd:], q, t, 0, g*group+h)
		}
		pos := p.pos[t.row:][:rows]
		for at := 0; at <= int(t.last); at += keyBlock {
			n := min(keyBlock, int(t.last)+1-at)
			keys := s.pack(kt, p.keys(s, k, int(t.seq), at, n, g, gather).T())
			vals := s.pack(vp, p.keys(s, v, int(t.seq), at, n, g, gather))
			r0 := p.from(t, at)
			for h := range group {
				x := kernel.RowMajor(sc[r0*keyBlock:], rows-r0, n, keyBlock)
				s.set.GemmPacked(x, rowMajor(qs[(h*tileRows+r0)*hd:], rows-r0, hd), keys, 0, false, ws)
				y := p.sumsAt(out, t, r0, g*group+h, tail(sums, h*tileRows*hd))
				m, l := m[h*tileRows:][:rows], l[h*tileRows:][:rows]
				for r := r0; r < rows; r++ {
					row := sc[r*keyBlock:][:n]
					seen := min(n, int(pos[r])+1-at)
					top := s.set.Max(row[:seen])
					if at > 0 {
						top = max(top, m[r])
						factor[r] = m[r] - top
					}
					m[r] = top
					sum := s.set.ExpShift(row[:seen], row[:seen], top)
					clear(row[seen:])
					if at == 0 {
						l[r] = sum
						continue
					}
					if factor[r] != 0 {
						factor[r] = float32(math.Exp(float64(factor[r])))
						l[r] *= float64(factor[r])
						o := y.Data[(r-r0)*y.RowStride:][:hd]
						s.set.Scale(o, factor[r], o)
					}
					l[r] += sum
				}
				s.set.GemmPacked(y, x, vals, 0, at > 0, ws)
			}
		}
		for h := range group {
			y := p.sumsAt(out, t, 0, g*group+h, tail(sums, h*tileRows*hd))
			for r := range rows {
				i := h*tileRows + r
				row := y.Data[r*y.RowStride:][:hd]
				s.set.Scale(row, float32(1/l[i]), row)
				if lse != nil {
					lse[(int(t.row)+r)*p.Heads+g*group+h] = float32(float64(m[i]) + math.Log(l[i]))
				}
			}
			p.summed(s, out, t, g*group+h, y)
		}
	})
}

// float64s is x seen as float64s.
func float64s(x []float32) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/2)
}

// attentionGradParts is how a thread's workspace divides in the backward pass.
func attentionGradParts(a graph.AttentionSpec, rows int, narrow bool) []int {
	tile, sums, row := 0, 0, 0
	if narrow {
		tile, sums, row = tileRows*a.HeadDim, a.Heads/a.KVHeads*min(rows, a.Context)*a.HeadDim, a.HeadDim
	}
	return []int{
		tileRows * keyBlock, tileRows * keyBlock, // probabilities, their gradients
		tileRows * a.HeadDim,                                                           // scaled queries
		kernel.PackedBLen(a.HeadDim, keyBlock), kernel.PackedBLen(a.HeadDim, keyBlock), // keys and values, transposed
		kernel.PackedBLen(keyBlock, a.HeadDim),                           // keys
		keyBlock * a.HeadDim, keyBlock * a.HeadDim, keyBlock * a.HeadDim, // gathered keys or values, dk, dv
		workAttention(a.HeadDim),
		tile, sums, row, // output gradients; query gradients of a sequence; a row of the output
	}
}

func attentionGradNeeds(in *compile.Instr, a graph.AttentionSpec, rows int) int64 {
	return 4 * int64(takes(attentionGradParts(a, rows, anyNarrow(in))...))
}

// bindAttentionGrad works on one sequence and one key/value head at a time: for every block of keys, the group's query
// heads ascending, their rows ascending. With P = exp(scores−lse) and dS = P·(dO·Vᵀ − Σ dO·O): dV = Pᵀ·dO, dK = dSᵀ·Q·Scale,
// dQ = dS·K·Scale.
func bindAttentionGrad(b *binder, o graph.AttentionGrad) step {
	do, q, k, v, y, lse := b.inF(0), b.inF(1), b.inF(2), b.inF(3), b.inF(4), b.in32(5)
	dq, dk, dv, delta := b.outF(0), b.outF(1), b.outF(2), b.scratch32()
	pool := b.inType(2)
	p := b.paged(o.AttentionSpec, 6, pool.Shape.Dims[0])
	parts := attentionGradParts(o.AttentionSpec, b.inType(0).Shape.Lead(b.x.Bounds), anyNarrow(b.in))
	group, hd := o.Heads/o.KVHeads, o.HeadDim
	scale := o.Scale()
	return p.perRun(func(s *Session, run []tile, g, worker int) {
		c := s.carver(worker)
		pr, ds, qs, kt, vt := c.take(parts[0]), c.take(parts[1]), c.take(parts[2]), c.take(parts[3]), c.take(parts[4])
		kp, gather, dkb, dvb, ws := c.take(parts[5]), c.take(parts[6]), c.take(parts[7]), c.take(parts[8]), c.take(parts[9])
		dob, sums := c.take(parts[10]), c.take(parts[11])
		end := int(run[len(run)-1].last) + 1
		seq, first := int(run[0].seq), int(run[0].row)
		length := int(run[len(run)-1].row+run[len(run)-1].n) - first
		for at := 0; at < end; at += keyBlock {
			n := min(keyBlock, end-at)
			km := p.keys(s, k, seq, at, n, g, gather)
			keysT, keys := s.pack(kt, km.T()), s.pack(kp, km)
			valsT := s.pack(vt, p.keys(s, v, seq, at, n, g, gather).T())
			dkm, dvm := p.keys(s, dk, seq, at, n, g, dkb), p.keys(s, dv, seq, at, n, g, dvb)
			for h := g * group; h < (g+1)*group; h++ {
				for i := range run {
					t := &run[i]
					if int(t.last) < at {
						continue
					}
					r0 := p.from(t, at)
					nc := min(n, int(t.last)+1-at) // no row of the tile sees more
					rows := int(t.n) - r0
					row := int(t.row) + r0
					qm := p.scaled(s, qs, q, t, r0, h)
					dom := p.heads(s, do, t, r0, h, dob)
					dqm := p.sumsAt(dq, t, r0, h, tail(sums, ((h-g*group)*length+int(t.row)-first)*hd))
					prm, dsm := kernel.RowMajor(pr, rows, nc, keyBlock), kernel.RowMajor(ds, rows, nc, keyBlock)
					s.set.GemmPacked(prm, qm, keysT, 0, false, ws)
					s.set.GemmPacked(dsm, dom, valsT, 0, false, ws)
					for r := range rows {
						x, d := pr[r*keyBlock:][:n], ds[r*keyBlock:][:n]
						seen := min(nc, int(p.pos[row+r])+1-at)
						i := (row+r)*p.Heads + h
						if at == 0 {
							c, yr := c, p.headAt(t, r0+r, h)
							delta[i] = float32(s.set.SumMul(dom.Data[r*dom.RowStride:][:hd], y.load(s, yr, yr+hd, &c)))
						}
						s.set.ExpShift(x[:seen], x[:seen], lse[i])
						s.set.Mul(d[:seen], d[:seen], x[:seen])
						s.set.Axpy(d[:seen], -delta[i], x[:seen])
						clear(x[seen:])
						clear(d[seen:])
					}
					s.set.Gemm(dvm.Slice(0, nc, 0, hd), prm.T(), dom, true, ws)
					s.set.Gemm(dkm.Slice(0, nc, 0, hd), dsm.T(), qm, true, ws)
					s.set.GemmPacked(dqm, kernel.RowMajor(ds, rows, n, keyBlock), keys, 0, at > 0, ws)
				}
			}
			p.scatter(s, dk, seq, at, n, g, dkb)
			p.scatter(s, dv, seq, at, n, g, dvb)
		}
		for i := range run {
			for h := g * group; h < (g+1)*group; h++ {
				d := p.sumsAt(dq, &run[i], 0, h, tail(sums, ((h-g*group)*length+int(run[i].row)-first)*hd))
				for r := range d.Rows {
					row := d.Data[r*d.RowStride:][:hd]
					s.set.Scale(row, scale, row)
				}
				p.summed(s, dq, &run[i], h, d)
			}
		}
	}, pool, dk, dv)
}
