package compile

import (
	"cmp"
	"slices"

	"loadline/graph"
)

// minOffload is the smallest value worth a copy, in bytes.
const minOffload = 16 << 10

// chooseOffload turns keep into offload for what is dear to compute again for its bytes: layer inputs, attention
// outputs and matrix products, never norms or activation functions; never in the last layer, which is needed at once.
// From the lowest layer up, so that copies end before the loss head. Every value chosen leaves the device.
func chooseOffload(s *schedule, dec []decision) {
	for _, v := range s.offloadable(dec) {
		dec[v] = offload
	}
}

// offloadable lists the kept candidates that may be offloaded, lowest layer first, dearest first within a layer.
func (s *schedule) offloadable(dec []decision) []graph.Value {
	f := s.f
	var out []graph.Value
	for _, v := range f.cand {
		o := &f.ops[f.def[v]]
		if dec[v] != keep || f.bytes[v] < minOffload || int(o.layer) >= f.g.Layers-1 || !worthCopying(f, v) {
			continue
		}
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b graph.Value) int {
		x, y := &f.ops[f.def[a]], &f.ops[f.def[b]]
		return cmp.Or(cmp.Compare(x.layer, y.layer), cmp.Compare(y.seconds/float64(f.bytes[b]), x.seconds/float64(f.bytes[a])))
	})
	return out
}

// worthCopying tells whether v is the result of real arithmetic (or enters a layer): element-wise work is cheaper to
// repeat than to carry.
func worthCopying(f *flow, v graph.Value) bool {
	if f.crossesLayers(v) {
		return true
	}
	switch f.g.Ops[f.ops[f.def[v]].node].Op.(type) {
	case graph.MatMul, graph.Attention, graph.Mix, graph.GroupedMatMul, graph.Rope:
		return true
	}
	return false
}
