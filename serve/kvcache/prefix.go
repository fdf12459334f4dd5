package kvcache

import "slices"

// Match returns a table that holds references to the longest published prefix of tokens, in full blocks, and the
// number of tokens in it. That number is at most len(tokens)-1: the last token is always computed, since its
// logits are wanted.
func (p *Pool) Match(tokens []int32) (BlockTable, int) {
	if !p.cache {
		return nil, 0
	}
	var t BlockTable
	b := none
	for len(t) < (len(tokens)-1)/p.blockSize {
		if b = p.find(b, p.slot(tokens, len(t))); b == none {
			break
		}
		t = append(t, BlockID(b))
	}
	for _, b := range t {
		p.ref(b)
	}
	return t, len(t) * p.blockSize
}

// Commit publishes the full blocks of t, which now hold the keys and values of tokens, for later sequences.
// Calling it again with more tokens publishes what is new. A block whose content is already published by another
// table stays private: tables do not change under a sequence that lives.
func (p *Pool) Commit(t BlockTable, tokens []int32) {
	if !p.cache {
		return
	}
	full := len(tokens) / p.blockSize
	if full > len(t) {
		panic("kvcache: Commit: the table is shorter than the tokens it holds")
	}
	// Go on behind the last published block.
	i, parent := full, none
	for ; i > 0; i-- {
		if p.published(t[i-1]) {
			parent = int32(t[i-1])
			break
		}
	}
	for ; i < full; i++ {
		slot := p.slot(tokens, i)
		b := p.find(parent, slot)
		if b == none {
			b = int32(t[i])
			p.publish(b, parent, slot)
		}
		parent = b
	}
}

// slot returns the tokens of block i.
func (p *Pool) slot(tokens []int32, i int) []int32 {
	return tokens[i*p.blockSize : (i+1)*p.blockSize]
}

func (p *Pool) published(b BlockID) bool { return p.cache && p.chain[b] != unpublished }

// find returns the published block with this parent and these tokens, or none.
func (p *Pool) find(parent int32, tokens []int32) int32 {
	gen := p.genOf(parent)
	b := p.buckets[p.bucket(parent, gen, tokens)]
	for b != none && !(p.parent[b] == parent && p.parentGen[b] == gen && slices.Equal(p.slot(p.tokens, int(b)), tokens)) {
		b = p.chain[b]
	}
	return b
}

func (p *Pool) publish(b, parent int32, tokens []int32) {
	gen := p.genOf(parent)
	p.gen[b]++
	p.parent[b], p.parentGen[b] = parent, gen
	copy(p.slot(p.tokens, int(b)), tokens)
	first := &p.buckets[p.bucket(parent, gen, tokens)]
	p.chain[b], *first = *first, b
}

func (p *Pool) unpublish(b int32) {
	link := &p.buckets[p.bucket(p.parent[b], p.parentGen[b], p.slot(p.tokens, int(b)))]
	for *link != b {
		link = &p.chain[*link]
	}
	*link, p.chain[b] = p.chain[b], unpublished
}

func (p *Pool) genOf(parent int32) int32 {
	if parent == none {
		return 0
	}
	return p.gen[parent]
}

// bucket hashes a block's identity by a multiply and a shift per token (the mixing step of MurmurHash3's finalizer).
func (p *Pool) bucket(parent, gen int32, tokens []int32) int {
	h := p.seed ^ uint64(uint32(parent))<<32 ^ uint64(uint32(gen))
	for _, tok := range tokens {
		h = (h ^ uint64(uint32(tok))) * 0xff51afd7ed558ccd
		h ^= h >> 33
	}
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return int(h & uint64(len(p.buckets)-1))
}
