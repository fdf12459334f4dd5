package quant

// fit is how fitMin searches.
type fit struct {
	most  int     // the largest code
	from  float32 // the first step's addition to most, in the search for a scale; each further step adds 0.1
	steps int
	abs   bool // weigh |error|, not error²
}

func (f *fit) loss(e float32) float32 {
	if f.abs {
		return abs(e)
	}
	return e * e
}

// fitMin finds scale and min of x ≈ scale·code − min with codes from 0: for each of some trial scales it takes the nearest codes
// and the scale and min of least weighted squares for those, and keeps the best (make_qkx2_quants).
func fitMin(x, weights []float32, codes []uint8, f fit) (scale, least float32) {
	lo, hi := x[0], x[0]
	sumW := weights[0]
	sumX := sumW * x[0]
	for i := 1; i < len(x); i++ {
		lo, hi = min(lo, x[i]), max(hi, x[i])
		sumW += weights[i]
		sumX += float32(weights[i] * x[i])
	}
	lo = min(lo, 0)
	if hi == lo {
		clear(codes[:len(x)])
		return 0, -lo
	}
	r := float32(f.most) / (hi - lo)
	if r-r != 0 { // the group's elements are next to nothing: the reference divides by zero
		clear(codes[:len(x)])
		return 0, -lo
	}
	scale, least = 1/r, lo
	best := float32(0)
	for i, v := range x {
		codes[i] = uint8(bound(nearest(r*(v-lo)), 0, f.most))
		best += float32(weights[i] * f.loss(float32(scale*float32(codes[i]))+lo-v))
	}
	var trial [32]uint8
	for step := 0; step <= f.steps; step++ { // from the best min so far on, as the reference has it
		lo := least
		r := (f.from + float32(0.1*float32(step)) + float32(f.most)) / (hi - lo)
		var l1, l2, lx float32
		for i, v := range x {
			l := bound(nearest(r*(v-lo)), 0, f.most)
			trial[i] = uint8(l)
			wl := weights[i] * float32(l)
			l1 += wl
			l2 += float32(wl * float32(l))
			lx += float32(wl * v)
		}
		det := float32(sumW*l2) - float32(l1*l1)
		if !(det > 0) {
			continue
		}
		s := (float32(sumW*lx) - float32(sumX*l1)) / det
		m := (float32(l2*sumX) - float32(l1*lx)) / det
		if m > 0 {
			m, s = 0, lx/l2
		}
		loss := float32(0)
		for i, v := range x {
			loss += float32(weights[i] * f.loss(float32(s*float32(trial[i]))+m-v))
		}
		if loss < best {
			copy(codes, trial[:len(x)])
			best, scale, least = loss, s, m
		}
	}
	return scale, -least
}

// fitScale finds the scale of x ≈ scale·(code−32) with codes below 64, trying some around the one that meets the largest element
// (make_qx_quants with x² for weights).
func fitScale(x []float32, codes []uint8) float32 {
	const most = 32
	peak := extreme(x)
	if abs(peak) < leastScale {
		clear(codes[:len(x)])
		return 0
	}
	sums := func(r float32) (lx, l2 float32) {
		for _, v := range x {
			l := float32(bound(nearest(r*v), -most, most-1))
			w := v * v
			lx += float32(float32(w*v) * l)
			l2 += float32(float32(w*l) * l)
		}
		return lx, l2
	}
	keep := func(r float32) {
		for i, v := range x {
			codes[i] = uint8(bound(nearest(r*v), -most, most-1) + most)
		}
	}
	r := -most / peak
	keep(r)
	lx, l2 := sums(r)
	scale := float32(0)
	if l2 != 0 {
		scale = lx / l2
	}
	best := scale * lx
	for step := -9; step <= 9; step++ {
		if step == 0 {
			continue
		}
		r := -(most + float32(0.1*float32(step))) / peak
		lx, l2 := sums(r)
		if l2 > 0 && float32(lx*lx) > float32(best*l2) {
			keep(r)
			scale = lx / l2
			best = scale * lx
		}
	}
	return scale
}

// fitTurns finds the scale of x ≈ scale·(code−4) with codes below 8: from the nearest codes it moves single ones to where they fit
// the others' scale, up to five rounds (make_q3_quants).
func fitTurns(x []float32, codes []uint8) float32 {
	const most = 4
	peak := extreme(x)
	if abs(peak) < leastScale {
		clear(codes[:len(x)])
		return 0
	}
	r := -most / peak
	var turned [16]float32
	var lx, l2 float32
	for i, v := range x {
		l := float32(bound(nearest(r*v), -most, most-1))
		turned[i] = l
		w := v * v
		lx += float32(float32(w*v) * l)
		l2 += float32(float32(w*l) * l)
	}
	for range 5 {
		changed := false
		for i, v := range x {
			w, l := v*v, turned[i]
			sx := lx - float32(float32(w*v)*l)
			if !(sx > 0) {
				continue
			}
			s2 := l2 - float32(float32(w*l)*l)
			to := float32(bound(nearest(float32(v*s2)/sx), -most, most-1))
			if to == l {
				continue
			}
			sx += float32(float32(w*v) * to)
			s2 += float32(float32(w*to) * to)
			if s2 > 0 && float32(float32(sx*sx)*l2) > float32(float32(lx*lx)*s2) {
				turned[i], lx, l2, changed = to, sx, s2, true
			}
		}
		if !changed {
			break
		}
	}
	for i, l := range turned {
		codes[i] = uint8(int(l) + most)
	}
	if l2 > 0 {
		return lx / l2
	}
	return 0
}
