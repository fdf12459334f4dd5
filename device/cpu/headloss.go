package cpu

import (
	"fmt"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor"
)

// headNeeds is a thread's workspace for the three products of a chunk.
func headNeeds(in *compile.Instr, chunk int, b graph.Bounds) int64 {
	n, d, v := min(chunk, in.In[0].Type.Shape.Lead(b)), in.In[0].Type.Shape.Last(), in.In[1].Type.Shape.Dims[0].N
	return max(gemmScratch(n, v, d), gemmScratch(n, d, v), gemmScratch(v, d, n))
}

// bindHeadLoss works chunk by chunk: logits, softmax, then dw (which reads the chunk's rows of h) before dh, which may lie
// in their place. With grad false it makes the loss alone.
func bindHeadLoss(b *binder, chunk int, grad bool) step {
	h, w, targets, weight, scratch := b.in32(0), b.in32(1), b.inInt(2), b.in32(3), b.scratch32()
	t := b.inType(0)
	d, v := t.Shape.Last(), b.inType(1).Shape.Dims[0].N
	var acc, dh, dw, loss []float32
	if grad {
		acc, dh, dw, loss = b.in32(4), b.out32(0), b.out32(1), b.out32(2)
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
	soft := fn(func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			row, k := logits[r*v:(r+1)*v], targets[base+r]
			if k < 0 {
				losses[base+r] = 0
				clear(row)
				continue
			}
			at := float64(row[k])
			high, log := s.set.Softmax(row)
			losses[base+r] = float32(float64(high) + float64(log) - at)
			if grad {
				s.set.Scale(row, weight[0], row)
				row[k] -= weight[0]
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
			x, g := rowMajor(h[base*d:(base+c)*d], c, d), rowMajor(logits, c, v)
			s.gemm(g, x, rowMajor(w, v, d).T(), false, nil, nil)
			s.rows(c, v, soft)
			if dw != nil {
				from := acc
				if base > 0 {
					from = nil
				}
				s.gemm(rowMajor(dw, v, d), g.T(), x, acc != nil || base > 0, from, nil)
			}
			if dh != nil {
				s.gemm(rowMajor(dh[base*d:(base+c)*d], c, d), g, rowMajor(w, v, d), false, nil, nil)
			}
		}
		if loss != nil {
			loss[0] = float32(sumBlocks(losses[:n]) * float64(weight[0]))
		}
		return nil
	})
}
