package compile

import (
	"math"
	"slices"
	"testing"

	"loadline/cost"
	"loadline/graph"
)

// openChoices are the candidates that a proof decides about: all but tiny ones, whose bytes are added to a tolerance.
func openChoices(f *flow) (cand []graph.Value, tiny int64) {
	var largest int64
	for _, v := range f.cand {
		largest = max(largest, f.bytes[v])
	}
	for _, v := range f.cand {
		if 64*f.bytes[v] < largest {
			tiny += f.bytes[v]
			continue
		}
		cand = append(cand, v)
	}
	return cand, tiny
}

// autoCost is what the frontier answers for a limit on the liveness peak, without nested replay: the proofs exclude it.
func autoCost(fr *frontier, limit int64) float64 {
	best := math.Inf(1)
	for _, p := range fr.points[0] {
		if p.peak <= limit {
			best = min(best, p.cost)
		}
	}
	return best
}

// Two layers, every subset of the candidates: auto is within 1% of the optimum at 40 limits.
func TestAutoAgainstBruteForce(t *testing.T) {
	if testing.Short() {
		t.Skip("tries 2^18 programs")
	}
	for _, c := range []shape{
		{d: 64, layers: 2, heads: 4, kv: 2, ffn: 160, vocab: 128, batch: 1, seq: 128, tied: true, chunk: 128},
		{d: 64, layers: 2, heads: 2, kv: 2, ffn: 96, vocab: 512, batch: 2, seq: 64, chunk: 128},
	} {
		fr := autoFrontier(t, c, adamw(), cost.Laptop2())
		f, s := fr.s.f, fr.s
		cand, _ := openChoices(f)
		cand = smallest(f, cand, 17)
		best := map[int64]float64{}
		d := f.keepAll()
		for mask := range uint64(1) << len(cand) {
			for k, v := range cand {
				d[v] = decision(mask >> k & 1)
			}
			s.run(d, nil)
			pk := s.peak()
			if x, ok := best[pk]; !ok || s.cost < x {
				best[pk] = s.cost
			}
		}
		peaks := make([]int64, 0, len(best))
		for pk := range best {
			peaks = append(peaks, pk)
		}
		slices.Sort(peaks)
		lo, hi := peaks[0], peaks[len(peaks)-1]
		worst := 0.0
		for i := range 40 {
			limit := lo + (hi-lo)*int64(i)/39
			opt := math.Inf(1)
			for _, pk := range peaks {
				if pk <= limit {
					opt = min(opt, best[pk])
				}
			}
			got := autoCost(fr, limit)
			step := 0.0
			for i := range f.ops {
				step += f.ops[i].seconds
			}
			gap := (got - opt) / (step + opt)
			worst = max(worst, gap)
			if gap > 0.01 || got > 1.01*opt+1e-9 {
				t.Errorf("%v limit %d: auto %.3g s, optimum %.3g s", c, limit, got, opt)
			}
		}
		t.Logf("%v: %d candidates, %d peaks, worst gap %.4f%% of the step", c, len(cand), len(peaks), 100*worst)
	}
}

// smallest drops candidates that stand for little until n are left; they stay kept.
func smallest(f *flow, cand []graph.Value, n int) []graph.Value {
	cand = slices.Clone(cand)
	for len(cand) > n {
		k := 0
		for i, v := range cand {
			if f.bytes[v] < f.bytes[cand[k]] {
				k = i
			}
		}
		cand = slices.Delete(cand, k, k+1)
	}
	return cand
}

// Three and four layers: branch and bound proves the optimum, auto is within 1% of it.
func TestAutoAgainstBranchAndBound(t *testing.T) {
	if testing.Short() {
		t.Skip("searches for ten seconds")
	}
	for i, c := range []shape{
		{d: 64, layers: 3, heads: 4, kv: 2, ffn: 160, vocab: 128, batch: 1, seq: 128, tied: true, chunk: 128},
		{d: 64, layers: 4, heads: 4, kv: 4, ffn: 128, vocab: 128, batch: 1, seq: 128, chunk: 128},
	} {
		fr := autoFrontier(t, c, adamw(), cost.Laptop2())
		lo, hi := fr.points[0][0].peak, fr.points[0][len(fr.points[0])-1].peak
		for _, share := range [][]int64{{86, 90, 94}, {91, 94, 97}}[i] {
			limit := lo + (hi-lo)*share/100
			got := autoCost(fr, limit)
			opt, proven, nodes := branchAndBound(fr.s, limit, got*1.0000001, 400_000)
			t.Logf("%v limit %d%%: auto %.4g s, optimum %.4g s, proven %v, %d nodes", c, share, got, opt, proven, nodes)
			if !proven {
				t.Errorf("%v limit %d%%: not proven within %d nodes", c, share, nodes)
			}
			if got > 1.01*opt+1e-9 {
				t.Errorf("%v limit %d%%: auto %.4g s, optimum %.4g s", c, share, got, opt)
			}
		}
	}
}

// branchAndBound finds the cheapest subset whose exact peak is within limit and that costs less than start, and whether the
// search was complete. The bound: every kept value that a backward operation reads is alive at the turn, so the excess
// there must go through values whose own recomputation, producers kept, costs at least so much a byte.
func branchAndBound(s *schedule, limit int64, start float64, maxNodes int) (best float64, proven bool, nodes int) {
	f := s.f
	cand, tiny := openChoices(f)
	d := f.keepAll()
	s.run(d, nil)
	live := s.saved() - tiny
	head := int64(0) // what the first backward operation makes on top
	type item struct {
		v     graph.Value
		bytes int64
		cost  float64
	}
	var items []item
	for _, v := range cand {
		d[v] = again
		s.run(d, nil)
		items = append(items, item{v, f.bytes[v], s.cost})
		d[v] = keep
	}
	slices.SortStableFunc(items, func(a, b item) int {
		x, y := a.cost/float64(a.bytes), b.cost/float64(b.bytes)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	best, proven = start, true
	// own is the cost of recomputing v alone: with others dropped as well it can only grow, except that a closure shared
	// with them is paid once; so the bound charges an operation's own time.
	for i := range items {
		items[i].cost = f.ops[f.def[items[i].v]].seconds
	}
	var dfs func(k int, live int64)
	dfs = func(k int, live int64) {
		if nodes++; nodes > maxNodes {
			proven = false
			return
		}
		s.run(d, nil)
		cost, peak := s.cost, s.peak()
		if cost >= best-1e-15 {
			return
		}
		if peak <= limit {
			best = cost
			return
		}
		lb, need := cost, live+head-limit
		rest := slices.Clone(items[k:])
		slices.SortFunc(rest, func(a, b item) int {
			x, y := a.cost/float64(a.bytes), b.cost/float64(b.bytes)
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		for _, it := range rest {
			if need <= 0 {
				break
			}
			lb += min(1, float64(need)/float64(it.bytes)) * it.cost
			need -= it.bytes
		}
		if need > 0 || lb >= best-1e-15 || k == len(items) {
			return
		}
		it := items[k]
		d[it.v] = again
		dfs(k+1, live-it.bytes)
		d[it.v] = keep
		dfs(k+1, live)
	}
	dfs(0, live)
	return best, proven, nodes
}
