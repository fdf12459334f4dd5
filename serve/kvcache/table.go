package kvcache

import "slices"

// Extend makes t, which holds haveTokens tokens, long enough for n more, and returns it with the new blocks
// appended. If the pool has too few blocks it changes nothing and returns t and false.
func (p *Pool) Extend(t BlockTable, haveTokens, n int) (BlockTable, bool) {
	if haveTokens < 0 || n < 0 || haveTokens > len(t)*p.blockSize {
		panic("kvcache: Extend: the table is shorter than the tokens it holds")
	}
	need := p.BlocksFor(haveTokens+n) - len(t)
	if need > p.Available() {
		return t, false
	}
	for range need {
		t = append(t, p.take())
	}
	return t, true
}

// Fork returns a second table that shares every block of t. Whoever writes first copies; see Writable.
func (p *Pool) Fork(t BlockTable) BlockTable {
	for _, b := range t {
		p.ref(b)
	}
	return slices.Clone(t)
}

// Writable makes the blocks of t from token tokenIndex on safe to write, and has to be asked before a sequence
// that was ever forked writes there. A block that other tables share is exchanged, in place, for one of its own;
// the returned copies carry over what it held before tokenIndex, and are valid until the next call. If the pool
// has too few blocks it changes nothing and returns false.
//
// A block that is published but not shared leaves the prefix cache instead.
func (p *Pool) Writable(t BlockTable, tokenIndex int) (BlockTable, []Copy, bool) {
	first := tokenIndex / p.blockSize
	if first >= len(t) {
		return t, nil, true
	}
	need := 0
	for _, b := range t[first:] {
		p.mustLive(b)
		if p.refs[b] > 1 {
			need++
		}
	}
	if need > p.Available() {
		return t, nil, false
	}
	copies := p.copyBuf[:0]
	for i := first; i < len(t); i++ {
		b := t[i]
		if p.refs[b] == 1 {
			if p.published(b) {
				p.unpublish(int32(b))
			}
			continue
		}
		own := p.take()
		p.refs[b]--
		t[i] = own
		if i == first && tokenIndex%p.blockSize != 0 {
			copies = append(copies, Copy{Src: b, Dst: own})
			p.copied++
		}
	}
	return t, copies, true
}

// Free gives up every reference of t, from the tail, so that the end of a prefix is evicted before its beginning.
// The table must not be used again.
func (p *Pool) Free(t BlockTable) {
	for _, b := range slices.Backward(t) {
		p.mustLive(b)
		p.refs[b]--
		if p.refs[b] > 0 {
			continue
		}
		p.live--
		if p.published(b) {
			p.pushBack(&p.cached, int32(b))
		} else {
			p.pushFront(&p.free, int32(b))
		}
	}
}

// take hands out one block with one reference; the caller has made sure that one is available.
func (p *Pool) take() BlockID {
	b := p.free.head
	if b != none {
		p.remove(&p.free, b)
	} else {
		b = p.cached.head
		p.remove(&p.cached, b)
		p.unpublish(b)
		p.evicted++
	}
	p.refs[b] = 1
	p.live++
	return BlockID(b)
}

// ref adds a reference to a live or cached block.
func (p *Pool) ref(b BlockID) {
	if p.refs[b] == 0 {
		if !p.published(b) {
			panic("kvcache: reference to a free block")
		}
		p.remove(&p.cached, int32(b))
		p.live++
	}
	p.refs[b]++
}

func (p *Pool) mustLive(b BlockID) {
	if p.refs[b] == 0 {
		panic("kvcache: table names a block that is not live; was it freed twice?")
	}
}
