package cpu

import "loadline/graph"

// bindDropout is graph.Dropout.Keep with what a whole run or row shares taken out of the inner loop.
func bindDropout(b *binder, o graph.Dropout) step {
	x, seed, out := b.inF(0), b.inInt(1), b.outF(0)
	t := b.outType(0)
	d := t.Shape.Last()
	scale := 1 / (1 - o.P)
	return perRow(t, func(s *Session, lo, hi, worker int) {
		start := mix64(uint64(uint32(seed[0]))<<32 ^ uint64(o.Site)*0x9e3779b97f4a7c15)
		for r := lo; r < hi; r++ {
			row := mix64(start ^ uint64(int(seed[1])+r))
			cv := s.carver(worker)
			from, to := x.load(s, r*d, (r+1)*d, &cv), out.room(r*d, (r+1)*d, &cv)
			for c, v := range from {
				if float32(mix64(row^uint64(c))>>40)*(1.0/(1<<24)) >= o.P {
					to[c] = v * scale
				} else {
					to[c] = 0
				}
			}
			out.store(s, r*d, (r+1)*d, to)
		}
	})
}

// mix64 is SplitMix64's finaliser.
func mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
