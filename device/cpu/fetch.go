package cpu

import (
	"sync"

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

// stagers are who packs weights on their way at once: the copy stream, and whoever waits for it.
const stagers = 2

// stageNeeds is the bytes of each stage that weights pass through between their file and their panels: at least a panel.
func stageNeeds(programs []*compile.Program) (most int64) {
	for _, p := range programs {
		for i := range p.Instrs {
			in := &p.Instrs[i]
			if _, ok := in.Op.(graph.Fetch); ok && streams(p, in) && (in.Out[0].Type.DType.Block() || isNarrow(in.Out[0].Type.DType)) {
				t := in.Out[0].Type
				most = max(most, graph.ChunkBytes/stagers, kernel.QuantPanel*t.DType.Bytes(int64(t.Shape.Last())))
			}
		}
	}
	return (most + 63) &^ 63
}

// pieces is as much of stage as a weight is best packed by: whole panels, else whole blocks.
func (w *packed) pieces(stage []byte) []byte {
	unit := w.size
	if panel := kernel.QuantPanel * (w.k / w.elems) * unit; panel <= len(stage) {
		unit = panel
	}
	return stage[:len(stage)/unit*unit]
}

// packing is the copy of a weight to its panels: pieces of what the file has are read one after the other, and packed where the weight
// lies while the next is read.
type packing struct {
	from   tier.Store
	off    int64
	w      *packed
	stages [stagers][]byte

	mu sync.Mutex // who holds it reads
	at int        // what of the weight is read
}

// Begin begins the weight anew.
func (c *packing) Begin() { c.at = 0 }

// Do reads and packs a piece.
func (c *packing) Do(workspace int) (bool, error) {
	piece, at, err := c.read(c.w.pieces(c.stages[workspace]))
	if len(piece) == 0 || err != nil {
		return false, err
	}
	c.w.packFrom(piece, at)
	return true, nil
}

// read fills stage, or what is left of the weight of it, and says where it belongs. After an error there is nothing left.
func (c *packing) read(stage []byte) (piece []byte, at int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.w.experts * c.w.stored()
	at = c.at
	piece = stage[:min(len(stage), all-at)]
	c.at += len(piece)
	if len(piece) > 0 {
		if _, err = c.from.ReadAt(piece, c.off+int64(at)); err != nil {
			c.at = all
		}
	}
	return piece, at, err
}
