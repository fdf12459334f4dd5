package cpu

import (
	"loadline/compile"
	"loadline/graph"
	"loadline/mem/tier"
	"loadline/tensor/kernel"
)

// fetched are the buffers of p that a Fetch fills with a weight of f16 or bf16 in panels: what products of f32 rows read, and nothing
// else but look-ups that widen.
func fetched(p *compile.Program) map[int32]bool {
	from, packed := map[int32]bool{}, map[int32]bool{}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if _, ok := in.Op.(graph.Fetch); ok && streams(p, in) {
			from[in.Out[0].Buffer] = true
		}
		if stores(in) && from[in.In[1].Buffer] && isNarrow(in.In[1].Type.DType) {
			packed[in.In[1].Buffer] = true
		}
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		e, look := in.Op.(graph.Embedding)
		_, wait := in.Op.(graph.Wait)
		for j, o := range in.In {
			if !wait && !(j == 1 && (look && e.Wide || stores(in))) {
				delete(packed, o.Buffer)
			}
		}
	}
	return packed
}

// streams tells whether a Fetch reads a State.
func streams(p *compile.Program, in *compile.Instr) bool {
	return p.Buffers[in.In[0].Buffer].Persistent()
}

// stageNeeds is the bytes that weights pass through between their file and their panels.
func stageNeeds(programs []*compile.Program) int64 {
	for _, p := range programs {
		for i := range p.Instrs {
			in := &p.Instrs[i]
			if _, ok := in.Op.(graph.Fetch); ok && streams(p, in) && (in.Out[0].Type.DType.Block() || isNarrow(in.Out[0].Type.DType)) {
				return graph.ChunkBytes
			}
		}
	}
	return 0
}

// pieces is as much of stage as a weight is best packed by: whole panels, else whole blocks.
func (w *packed) pieces(stage []byte) []byte {
	unit := w.size
	if panel := kernel.QuantPanel * (w.k / w.elems) * unit; panel <= len(stage) {
		unit = panel
	}
	return stage[:len(stage)/unit*unit]
}

// packing is the Store that the copy of a weight in panels reads from: it takes what the file has, a piece at a time, and packs it
// where the weight lies, all on the copy stream, which does one job at a time.
type packing struct {
	tier.Store
	w     *packed
	stage []byte
}

// ReadAt fills p, the weight's place.
func (s *packing) ReadAt(p []byte, off int64) (int, error) {
	stage, all := s.w.pieces(s.stage), s.w.experts*s.w.stored()
	for at := 0; at < all; {
		piece := stage[:min(len(stage), all-at)]
		if _, err := s.Store.ReadAt(piece, off+int64(at)); err != nil {
			return 0, err
		}
		s.w.packFrom(piece, at)
		at += len(piece)
	}
	return len(p), nil
}
