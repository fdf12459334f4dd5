package ref

import (
	"loadline/graph"
	"loadline/mem/tier"
)

// fill reads what a State of the disk tier holds there, from offset off on, once: it is only read.
func (s *store[T]) fill(home tier.Store, off int64) error {
	buf := make([]byte, graph.ChunkBytes) //mem:ok for as long as a job is opened
	unit := s.dt.BlockElems()
	width := int(s.dt.Bytes(int64(unit)))
	step := graph.ChunkBytes / width * unit
	for at := 0; at < s.elems(); at += step {
		p := buf[:min(step, s.elems()-at)/unit*width]
		if _, err := home.ReadAt(p, off+int64(at/unit*width)); err != nil {
			return err
		}
		if s.dt.Block() {
			s.decodeBlocks(p, at)
		} else {
			s.decode(p, at)
		}
	}
	return nil
}
