package cpu

import "loadline/graph"

func bindMix(b *binder, o graph.Mix) step {
	p := b.paged(o.AttentionSpec, 2, b.inType(1).Shape.Dims[0])
	return b.mixes(p, b.out32(0), b.in32(0), b.in32(1), false)
}

func bindMixDP(b *binder, o graph.MixDP) step {
	p := b.paged(o.AttentionSpec, 2, b.inType(1).Shape.Dims[0])
	return b.times(p, b.out32(0), b.in32(0), b.in32(1), false, 0)
}

func bindMixDV(b *binder, o graph.MixDV) step {
	p := b.paged(o.AttentionSpec, 2, o.Slots)
	return b.sums(p, b.out32(0), b.in32(1), b.in32(0), false)
}
