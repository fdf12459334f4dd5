package cpu

import "loadline/graph"

func bindMix(b *binder, o graph.Mix) step {
	p := b.paged(o.AttentionSpec, 2, b.inType(1).Shape.Dims[0])
	return b.mixes(p, b.outF(0), b.inF(0), b.inF(1), false)
}

func bindMixDP(b *binder, o graph.MixDP) step {
	p := b.paged(o.AttentionSpec, 2, b.inType(1).Shape.Dims[0])
	return b.times(p, b.outF(0), b.inF(0), b.inF(1), false, 0)
}

func bindMixDV(b *binder, o graph.MixDV) step {
	p := b.paged(o.AttentionSpec, 2, o.Slots)
	return b.sums(p, b.outF(0), b.inF(1), b.inF(0), false)
}
