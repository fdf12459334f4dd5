package kernel

import "time"

// Best returns the set to use on this CPU: of those it can run, the one whose float32 micro-kernel is
// fastest, a later set of Sets where they are within 5%; and AVX512BF16 before AVX512 only where VDPBF16PS
// pays. Having an instruction does not mean that it does: on Golden Cove VDPBF16PS has half the speed of two
// FMAs, on Zen 4 twice. It measures for about a tenth of a millisecond: call it once.
func Best() Set {
	sets := Sets()
	best, top := sets[0], 0.0
	for _, s := range sets[1:] {
		if rate := s.t.f32.rate(); rate >= 0.95*top && s.t.name != "avx512bf16" {
			best, top = s, max(rate, top)
		}
	}
	if s, ok := AVX512BF16(); ok && best.t.name == "avx512" && s.t.bf16.rate() > 1.2*top {
		best = s
	}
	return best
}

// rate is the multiply-adds a nanosecond of the micro-kernel, the best of some short runs.
func (p *product) rate() float64 {
	const kc = 64
	var a [maxM * kc]float32
	var b [maxN * kc]float32
	var c [maxM * maxN]float32
	steps := p.inner(kc)
	best := time.Hour
	for range 24 {
		start := time.Now()
		for range 4 {
			p.micro(steps, a[:], b[:], c[:], p.n, p.m, true, &b[0])
		}
		best = min(best, time.Since(start))
	}
	return float64(4*p.m*p.n*kc) / float64(max(best, 1))
}
