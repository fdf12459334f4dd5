package cpu

import (
	"errors"
	"fmt"

	"loadline/compile"
	"loadline/graph"
	"loadline/mem/arena"
	"loadline/tensor/kernel"
	"loadline/tensor/quant"
)

// packed is a weight that is stored in a narrower type than the f32 rows that meet it, as it lies in memory: for each expert the panels
// of kernel.QuantWeights. Of f16 and bf16 the rows after the last whole panel lie as in a file, so they take no more room than there.
type packed struct {
	t       quant.Type
	group   quant.Group // of codes in place of a Type; zero where there are none
	size    int         // bytes of a block in a file
	elems   int         // of a block
	experts int         // 1 for a matrix
	n, k    int         // of a matrix
	bytes   int         // of a matrix
	data    []byte
}

// newPacked is a weight of type t in data.
func newPacked(t graph.Type, data []byte) *packed {
	s := t.Shape
	w := &packed{elems: t.DType.BlockElems(), size: int(t.DType.Bytes(int64(t.DType.BlockElems()))), experts: 1, n: s.Dims[s.N-2].N, k: s.Last(), data: data}
	w.t, _ = quant.Of(t.DType)
	w.group, _ = quant.GroupOf(t.DType)
	if s.N == 3 {
		w.experts = s.Dims[0].N
	}
	w.bytes = len(data) / max(w.experts, 1)
	return w
}

// half tells whether elements are f16 or bf16.
func (w *packed) half() bool { return w.elems == 1 }

// whole is the rows of a matrix that lie in panels.
func (w *packed) whole() int {
	if w.half() {
		return w.n - w.n%kernel.QuantPanel
	}
	return w.n
}

// panels is the rows of matrix e that lie in panels, rest the bytes of the others.
func (w *packed) panels(e int) kernel.QuantWeights {
	n := w.whole()
	return kernel.QuantWeights{Type: w.t, N: n, K: w.k, Data: w.data[e*w.bytes:][:kernel.QuantWeightsLen(w.t, n, w.k)]}
}

func (w *packed) rest(e int) []byte {
	return w.data[e*w.bytes : (e+1)*w.bytes][kernel.QuantWeightsLen(w.t, w.whole(), w.k):]
}

// codes is matrix e of groups of codes.
func (w *packed) codes(e int) kernel.GroupedWeights {
	return kernel.GroupedWeights{Bits: w.group.Bits, Group: w.group.Elems, N: w.n, K: w.k, Data: w.data[e*w.bytes:][:w.bytes]}
}

// table tells whether codes stand for values of a table.
func (w *packed) table() bool { return w.group.Table != quant.Integers }

// values is matrix e of such codes.
func (w *packed) values(e int) kernel.TableWeights {
	return kernel.TableWeights{Group: w.group, N: w.n, K: w.k, Data: w.data[e*w.bytes:][:w.bytes]}
}

// stored is the bytes of a matrix in a file.
func (w *packed) stored() int { return w.n * (w.k / w.elems) * w.size }

// packFrom fills the weight from whole blocks of its file's bytes, of which at is the first one's place.
func (w *packed) packFrom(src []byte, at int) {
	all, front := w.stored(), w.whole()*(w.k/w.elems)*w.size
	for len(src) > 0 {
		e, off := at/all, at%all
		n := min(len(src), all-off)
		switch {
		case w.table():
			w.values(e).PackFrom(src[:n], off)
		case w.group.Bits > 0:
			w.codes(e).PackFrom(src[:n], off)
		case off < front:
			n = min(n, front-off)
			w.panels(e).PackFrom(src[:n], off)
		default:
			copy(w.rest(e)[off-front:], src[:n])
		}
		src, at = src[n:], at+n
	}
}

// row widens row i of a matrix.
func (w *packed) row(s *Session, dst []float32, i int) {
	if n := w.whole(); i >= n {
		t, _ := w.t.DType()
		s.widen(t, dst, arena.U16(w.rest(0))[(i-n)*w.k:][:w.k])
		return
	}
	w.panels(0).Row(dst, i)
}

// stores tells whether in is a product of f32 rows with a weight in a narrower type.
func stores(in *compile.Instr) bool {
	switch in.Op.(type) {
	case graph.MatMul, graph.GroupedMatMul:
		return in.In[1].Type.Stores(in.In[0].Type)
	}
	return false
}

// packedStates are the States of f16 and bf16 that lie in panels: those that products of f32 rows, and look-ups, read, and nothing else
// but Restore uses.
func packedStates(programs []*compile.Program) map[string]bool {
	states := map[string]bool{}
	for _, p := range programs { // what may be, then what else is done with it
		for i := range p.Instrs {
			if in := &p.Instrs[i]; stores(in) && p.Buffers[in.In[1].Buffer].Kind == graph.State && isNarrow(in.In[1].Type.DType) {
				states[p.Buffers[in.In[1].Buffer].Name] = true
			}
		}
	}
	for _, p := range programs {
		for i := range p.Instrs {
			in := &p.Instrs[i]
			for j, o := range in.In {
				if o.Buffer < 0 || !p.Buffers[o.Buffer].Persistent() {
					continue
				}
				e, look := in.Op.(graph.Embedding)
				_, fill := in.Op.(graph.Restore)
				if !(j == 1 && (look && e.Wide || stores(in)) || fill) {
					delete(states, p.Buffers[o.Buffer].Name)
				}
			}
		}
	}
	return states
}

// isPacked tells whether o lies in panels.
func (b *binder) isPacked(o compile.Operand) bool {
	if o.Buffer < 0 {
		return false
	}
	x := &b.x.Buffers[o.Buffer]
	return o.Type.DType.Block() || b.x.fetched[o.Buffer] || x.Kind == graph.State && b.s.packed[x.Name]
}

// weight resolves o, which lies in panels.
func (b *binder) weight(o compile.Operand) *packed {
	data := b.bytes(o)
	if b.err == nil && !b.isPacked(o) {
		b.err = fmt.Errorf("weight of %v for rows of f32: want a state that only products, look-ups and restore use", o.Type)
	}
	if b.err != nil {
		return &packed{}
	}
	return newPacked(o.Type, data)
}

// plain refuses an operand in panels, where an operation moves bytes as a file has them.
func (b *binder) plain(o compile.Operand) {
	if b.err == nil && b.isPacked(o) {
		b.err = fmt.Errorf("%q of %v lies packed", b.x.Buffers[o.Buffer].Name, o.Type)
	}
}

// checkPlain refuses to write or read a State that lies in panels.
func (s *Session) checkPlain(name string) error {
	if s.packed[name] {
		return fmt.Errorf("cpu: %q lies packed: only Restore fills it", name)
	}
	return nil
}

// bindRestorePacked packs while it loads.
func bindRestorePacked(b *binder) step {
	w, stage := b.weight(b.in.Out[0]), b.scratchBytes()
	if b.err != nil {
		return nothing
	}
	name, size := b.x.Buffers[b.in.Out[0].Buffer].Name, w.size
	stage = w.pieces(stage)
	all := w.experts * w.stored()
	var piece []byte
	var at int
	f := fn(func(_ *Session, lo, hi, _ int) { w.packFrom(piece[lo*size:hi*size], at+lo*size) })
	return stepFunc(func(s *Session) error {
		if s.args.Source == nil {
			return errors.New("want a source to restore from")
		}
		for at = 0; at < all; at += len(piece) {
			piece = stage[:min(len(stage), all-at)]
			if err := s.args.Source(name, piece); err != nil {
				return fmt.Errorf("restore %q: %w", name, err)
			}
			s.each(len(piece)/size, kernel.QuantPanel*w.k/w.elems, f) // about a panel, whose lines are one thread's
		}
		return nil
	})
}

// bindEmbeddingPacked widens rows of a table in panels.
func bindEmbeddingPacked(b *binder) step {
	tokens, table, out := b.inInt(0), b.weight(b.in.In[1]), b.out32(0)
	t := b.outType(0)
	d := t.Shape.Last()
	if b.err == nil && table.group.Bits > 0 {
		b.err = fmt.Errorf("no look-ups in %v", b.inType(1))
	}
	f := fn(func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			table.row(s, out[r*d:(r+1)*d], int(tokens[r]))
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkIDs("token", tokens[:n], table.n, false); err != nil {
			return err
		}
		s.rows(n, d, f)
		return nil
	})
}
