package sample

import "math"

// keep applies top-k, typical and top-p to ids, whose weights sum to mass, and returns what is kept with its sum.
func (s *Sampler) keep(ids []int32, mass float64, p *Params) ([]int32, float64) {
	topK, topP := p.TopK, float64(p.TopP)
	if topK <= 0 || topK >= len(ids) {
		topK = len(ids)
	}
	if topP == 0 {
		topP = 1
	}
	if typical := float64(p.TypicalP); typical > 0 && typical < 1 {
		if topK < len(ids) {
			ids, mass = s.cut(ids, mass, topK, 1)
		}
		ids, mass = s.typical(ids, mass, typical)
		topK = len(ids)
	}
	if topK < len(ids) || topP < 1 {
		return s.cut(ids, mass, topK, topP)
	}
	return ids, mass
}

// cut keeps the k likeliest of ids, whose weights sum to mass, and of these the fewest that together have the fraction topP of theirs.
// It takes time in proportion to len(ids) + kept·log(len(ids)).
func (s *Sampler) cut(ids []int32, mass float64, k int, topP float64) ([]int32, float64) {
	n := len(ids)
	s.heap(ids)
	var sum float64
	taken := 0
	for taken < k && (k < n || sum < topP*mass) {
		sum += float64(s.weights[s.pop(ids[:n-taken])])
		taken++
	}
	kept := ids[n-taken:]
	reverse(kept)
	if k == n || topP == 1 {
		return kept, sum
	}
	// Top-p over what top-k left.
	limit := topP * sum
	sum, taken = 0, 0
	for taken < len(kept) && sum < limit {
		sum += float64(s.weights[kept[taken]])
		taken++
	}
	return kept[:taken], sum
}

// typical keeps the fewest of ids, whose weights sum to mass, that together have the fraction p of it. Those go first whose surprise
// −log(weight/mass) is nearest to its mean, the entropy; of equal ones the lower id.
func (s *Sampler) typical(ids []int32, mass, p float64) ([]int32, float64) {
	norm := math.Log(mass)
	var entropy float64
	for _, id := range ids {
		w := float64(s.weights[id])
		entropy += w / mass * (norm - math.Log(w))
	}
	// The heap goes by weights: for its time they hold how near a token is, and counts, which are 0, the weights.
	for _, id := range ids {
		w := s.weights[id]
		s.counts[id] = int32(math.Float32bits(w))
		s.weights[id] = -float32(math.Abs(norm - math.Log(float64(w)) - entropy))
	}
	n := len(ids)
	s.heap(ids)
	var sum float64
	taken := 0
	for taken < n && sum < p*mass {
		sum += float64(math.Float32frombits(uint32(s.counts[s.pop(ids[:n-taken])])))
		taken++
	}
	for _, id := range ids {
		s.weights[id] = math.Float32frombits(uint32(s.counts[id]))
		s.counts[id] = 0
	}
	kept := ids[n-taken:]
	reverse(kept)
	return kept, sum
}

// heap makes ids a heap with the first token in order at the top.
func (s *Sampler) heap(ids []int32) {
	for i := len(ids)/2 - 1; i >= 0; i-- {
		s.sift(ids, i)
	}
}

// pop swaps the top of a heap with its last place, which it takes out of the heap, and returns it.
func (s *Sampler) pop(ids []int32) int32 {
	last := len(ids) - 1
	ids[0], ids[last] = ids[last], ids[0]
	s.sift(ids[:last], 0)
	return ids[last]
}

// sift lets ids[i] down to its place in a heap.
func (s *Sampler) sift(ids []int32, i int) {
	for {
		child := 2*i + 1
		if child >= len(ids) {
			return
		}
		if child+1 < len(ids) && s.before(ids[child+1], ids[child]) {
			child++
		}
		if !s.before(ids[child], ids[i]) {
			return
		}
		ids[i], ids[child] = ids[child], ids[i]
		i = child
	}
}

// before orders tokens by descending weight, then by ascending id.
func (s *Sampler) before(a, b int32) bool {
	if s.weights[a] != s.weights[b] {
		return s.weights[a] > s.weights[b]
	}
	return a < b
}

// reverse turns ids around: a heap gives them up last first.
func reverse(ids []int32) {
	for i, j := 0, len(ids)-1; i < j; i, j = i+1, j-1 {
		ids[i], ids[j] = ids[j], ids[i]
	}
}
