package search

import (
	"math"

	"loadline/mem"
	"loadline/planner/frameworks"
)

// z90 is the 90th percentile of a standard normal variable.
const z90 = 1.2815515655446004

// spreadOf returns the spread whose 10th percentile is low.
func spreadOf(low, need mem.Bytes) frameworks.Spread {
	if low <= 0 || need <= low {
		return frameworks.Spread{Sigma: 1e-6}
	}
	return frameworks.Spread{Sigma: math.Log(float64(need)/float64(low)) / z90}
}

// servingSpread is of systems whose weights and cache are exact: only activations, graphs and communicators, about a
// tenth of a card, are off, by a third.
const servingSpread = 0.025

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// byPurpose splits a peak: what the allocator keeps counts as workspace, the driver's context as runtime.
func byPurpose(e *frameworks.Estimate, peak mem.Bytes) map[string]mem.Bytes {
	by := map[string]mem.Bytes{}
	sum := mem.Bytes(0)
	for u, n := range e.Usage[mem.Device] {
		switch mem.Purpose(u) {
		case mem.Workspace:
			n += e.Cached
		case mem.Runtime:
			continue
		}
		if n > 0 {
			by[mem.Purpose(u).String()] = n
			sum += n
		}
	}
	by[mem.Runtime.String()] = peak - sum
	return by
}

// Allocated returns the part of a plan's peak that the framework's allocator hands out.
func Allocated(p Plan) mem.Bytes { return p.estimate.Allocated() }

// corrected applies a question's factors to an estimate, and returns what the card then needs.
func (q *Question) corrected(system string, e *frameworks.Estimate, need mem.Bytes) mem.Bytes {
	for u, n := range e.Usage[mem.Device] {
		f, ok := q.Factors[system+"/"+mem.Purpose(u).String()]
		if !ok || !(f > 0.1 && f < 10) {
			continue
		}
		more := mem.Bytes(float64(n) * (f - 1))
		e.Usage.Add(mem.Device, mem.Purpose(u), more)
		need += more
	}
	return need
}

// scale returns x·now/before.
func scale(x, now, before mem.Bytes) mem.Bytes {
	if before <= 0 {
		return x
	}
	return mem.Bytes(float64(x) / float64(before) * float64(now))
}
