package cpu

func bindEmbedding(b *binder) step {
	if b.isPacked(b.in.In[1]) {
		return bindEmbeddingPacked(b)
	}
	tokens, table, out := b.inInt(0), b.inF(1), b.outF(0)
	t := b.outType(0)
	d, vocab := t.Shape.Last(), b.inType(1).Shape.Dims[0].N
	f := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			out.copy(s, r*d, table, int(tokens[r])*d, d, &c)
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkIDs("token", tokens[:n], vocab, false); err != nil {
			return err
		}
		s.rows(n, d, f)
		return nil
	})
}

// bindEmbeddingGrad gives each thread columns, so that every element is one sum over ascending rows.
func bindEmbeddingGrad(b *binder) step {
	tokens, dy, acc, out := b.inInt(0), b.inF(1), b.in32(2), b.out32(0)
	t := b.inType(1)
	d, vocab := t.Shape.Last(), b.outType(0).Shape.Dims[0].N
	var cp copyTask
	var n int
	f := fn(func(s *Session, lo, hi, worker int) {
		for r := range n {
			c := s.carver(worker)
			row := out[int(tokens[r])*d:][lo:hi]
			s.set.Add(row, row, dy.load(s, r*d+lo, r*d+hi, &c))
		}
	})
	return stepFunc(func(s *Session) error {
		n = t.Shape.Lead(s.b)
		if err := checkIDs("token", tokens[:n], vocab, false); err != nil {
			return err
		}
		s.carry(&cp, out, acc)
		s.cols(d, f)
		return nil
	})
}
