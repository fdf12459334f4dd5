package kernel

// RoundBF16 rounds to the nearest bf16, ties to even; a NaN becomes quiet and keeps its upper bits. Exact:
//
//	for i := range out {
//		b := math.Float32bits(x[i])
//		out[i] = uint16((b + 0x7fff + b>>16&1) >> 16) // of a NaN: uint16(b>>16) | 0x40
//	}
func (s Set) RoundBF16(out []uint16, x []float32) {
	want("RoundBF16", len(out), len(x))
	n := len(x) &^ 31
	if n > 0 {
		s.t.roundBF16(out[:n], x[:n])
	}
	roundBF16Generic(out[n:], x[n:])
}

// WidenBF16 is the float32 of each bf16, exact:
//
//	for i := range out { out[i] = math.Float32frombits(uint32(x[i]) << 16) }
func (s Set) WidenBF16(out []float32, x []uint16) {
	want("WidenBF16", len(out), len(x))
	n := len(x) &^ 31
	if n > 0 {
		s.t.widenBF16(out[:n], x[:n])
	}
	widenBF16Generic(out[n:], x[n:])
}

// RoundF16 rounds to the nearest f16, ties to even; every NaN becomes one quiet NaN of its sign. Exact: each element is
// tensor/dtype's ToF16.
func (s Set) RoundF16(out []uint16, x []float32) {
	want("RoundF16", len(out), len(x))
	n := len(x) &^ 31
	if n > 0 {
		s.t.roundF16(out[:n], x[:n])
	}
	roundF16Generic(out[n:], x[n:])
}

// WidenF16 is the float32 of each f16, exact: tensor/dtype's FromF16, but a NaN becomes quiet.
func (s Set) WidenF16(out []float32, x []uint16) {
	want("WidenF16", len(out), len(x))
	n := len(x) &^ 31
	if n > 0 {
		s.t.widenF16(out[:n], x[:n])
	}
	widenF16Generic(out[n:], x[n:])
}

// StochasticBF16 rounds each element to one of its two bf16 neighbours, away from zero with the probability
// (|x|-|lo|)/(|hi|-|lo|), so that the expectation is x. Exact between sets:
//
//	for i := range out {
//		b := math.Float32bits(x[i])
//		out[i] = uint16((b + random(key, first+uint64(i))) >> 16) // of a NaN: uint16(b>>16) | 0x40
//	}
//
// random is 16 bits of a counter-based generator: element e has those of its position alone, so it does
// not matter how a tensor is cut. Philox2x32-10 under key turns counter e/32*8 + e%16/2 into two words; e has
// word e%2, of it the low half where e%32 < 16, else the high half. A bf16 stays as it is; infinity is the
// neighbour of the largest.
//
// Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Stochastic rounding
// of weights: Gupta et al., "Deep Learning with Limited Numerical Precision", ICML 2015.
func (s Set) StochasticBF16(out []uint16, x []float32, key uint32, first uint64) {
	want("StochasticBF16", len(out), len(x))
	head := min(int(-first%32), len(x))
	stochasticBF16Generic(out[:head], x[:head], key, first)
	out, x, first = out[head:], x[head:], first+uint64(head)
	n := len(x) &^ 31
	if n > 0 {
		s.t.stochasticBF16(out[:n], x[:n], key, first/32*8)
	}
	stochasticBF16Generic(out[n:], x[n:], key, first+uint64(n))
}
