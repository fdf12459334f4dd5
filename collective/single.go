package collective

import "fmt"

// Single returns the group of one rank: every collective is a copy, or nothing.
func Single() Group { return single{} }

type single struct{}

func (single) Rank() int                 { return 0 }
func (single) Size() int                 { return 1 }
func (single) AllReduce([]float32) error { return nil }
func (single) Barrier() error            { return nil }
func (single) Close() error              { return nil }

func (s single) ReduceScatter(dst, src []float32, part Partition) error {
	part.CheckReduceScatter(s, dst, src)
	copy(dst, src)
	return nil
}

func (s single) AllGather(dst, src []float32, part Partition) error {
	part.CheckAllGather(s, dst, src)
	copy(dst, src)
	return nil
}

func (s single) Broadcast(_ []byte, root int) error {
	CheckRoot(s, root)
	return nil
}

func (s single) GatherBytes(dst, src []byte, root int) error {
	CheckRoot(s, root)
	return s.AllGatherBytes(dst, src)
}

func (s single) AllGatherBytes(dst, src []byte) error {
	CheckGather(s, dst, src)
	copy(dst, src)
	return nil
}

// CheckRoot panics unless root is a rank of g. Implementations of Group call it.
func CheckRoot(g Group, root int) {
	if root < 0 || root >= g.Size() {
		panic(fmt.Sprintf("collective: root %d of %d ranks", root, g.Size()))
	}
}

// CheckGather panics unless dst holds Size() times src. Implementations of Group call it.
func CheckGather(g Group, dst, src []byte) {
	if len(dst) != g.Size()*len(src) {
		panic(fmt.Sprintf("collective: gather: want %d bytes for %d ranks of %d, got %d", g.Size()*len(src), g.Size(), len(src), len(dst)))
	}
}
