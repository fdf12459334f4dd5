package cpu

import (
	"fmt"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor"
	"loadline/tensor/dtype"
)

// headNeeds is a thread's workspace for the three products of a chunk, and with a softcap for its slopes in a row, and the shared bytes.
func headNeeds(in *compile.Instr, o graph.HeadLoss, b graph.Bounds) (worker, shared int64) {
	n, d, v := min(o.Chunk, in.In[0].Type.Shape.Lead(b)), in.In[0].Type.Shape.Last(), in.In[1].Type.Shape.Dims[0].N
	slopes := int64(0)
	if o.Softcap > 0 {
		slopes = 4 * int64(takes(v))
	}
	worker = max(gemmScratch(in, n, v, d), gemmScratch(in, n, d, v), gemmScratch(in, v, d, n), slopes)
	shared = max(sharedNeeds(in, n, v, d, false), sharedNeeds(in, n, d, v, isNarrow(in.In[0].Type.DType)), sharedNeeds(in, v, d, n, false))
	return worker, shared
}

// bindHeadLoss works chunk by chunk: logits, softmax, then dw (which reads the chunk's rows of h) before dh, which may lie
// in their place. The gradients of logits take part in both as the type of h. With grad false it makes the loss alone.
func bindHeadLoss(b *binder, o graph.HeadLoss, grad bool) step {
	chunk, terms, limit := o.Chunk, o.LossTerms, float32(o.Softcap)
	h, w, targets, weight, scratch := b.inF(0), b.inF(1), b.inInt(2), b.in32(3), b.scratch32()
	t := b.inType(0)
	d, v := t.Shape.Last(), b.inType(1).Shape.Dims[0].N
	var dh floats
	var acc, dw, loss []float32
	if grad {
		acc, dh, dw, loss = b.in32(4), b.outF(0), b.out32(1), b.out32(2)
	} else {
		loss = b.out32(0)
	}
	chunk = max(chunk/tensor.BlockRows, 1) * tensor.BlockRows
	top := min(chunk, t.Shape.Lead(b.x.Bounds))
	if b.err == nil && len(scratch) < top*v+t.Shape.Lead(b.x.Bounds) {
		b.err = fmt.Errorf("scratch of %d elements for chunks of %d rows", len(scratch), top)
		return nothing
	}
	var logits, losses []float32
	if b.err == nil {
		logits, losses = scratch[:top*v], scratch[top*v:]
	}
	var base int // the chunk's first row
	soft := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			row, k := logits[r*v:(r+1)*v], targets[base+r]
			if k < 0 {
				losses[base+r] = 0
				clear(row)
				continue
			}
			c := s.carver(worker)
			var slopes []float32
			if limit > 0 {
				slopes = c.take(v)
				s.set.SoftCap(row, row, slopes, 1, limit)
				for j, y := range row {
					t := y / limit
					slopes[j] = 1 - float32(t*t)
				}
			}
			at, all := float64(row[k]), 0.0
			if terms.Smoothing != 0 {
				all = s.set.Sum(row)
			}
			high, log := s.set.Softmax(row)
			lse := float64(high) + float64(log)
			losses[base+r] = rowLoss(terms, lse, at, all, v)
			if grad {
				s.lossGrad(terms, row, k, weight[0], lse)
				if limit > 0 {
					s.set.Mul(row, row, slopes)
				}
				if h.t == dtype.F16 { // the products round to bf16 themselves
					for j, v := range row {
						row[j] = dtype.FromF16(dtype.ToF16(v))
					}
				}
			}
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkIDs("target", targets[:n], v, true); err != nil {
			return err
		}
		for base = 0; base < n; base += chunk {
			c := min(chunk, n-base)
			x, g := matrixOf(h.slice(base*d, (base+c)*d), c, d), matrixOf(floats{f: logits}, c, v)
			s.gemm(g, x, matrixOf(w, v, d).transposed(), false, floats{}, nil)
			s.rows(c, v, soft)
			if dw != nil {
				from := acc
				if base > 0 {
					from = nil
				}
				s.gemm(matrixOf(floats{f: dw}, v, d), g.transposed(), x, acc != nil || base > 0, floats{f: from}, nil)
			}
			if !dh.absent() {
				s.gemm(matrixOf(dh.slice(base*d, (base+c)*d), c, d), g, matrixOf(w, v, d), false, floats{}, nil)
			}
		}
		if loss != nil {
			loss[0] = float32(sumBlocks(losses[:n]) * float64(weight[0]))
		}
		return nil
	})
}
