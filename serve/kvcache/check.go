package kvcache

import "fmt"

// Check verifies the pool from the ground up: each block is in exactly one of the states free, cached and live,
// the lists hold what they should and count right, and the prefix cache finds every published block and no other.
// It takes time in proportion to the pool and allocates nothing.
func (p *Pool) Check() error {
	var free, cached, live, inCache int
	for b := range p.refs {
		switch {
		case p.refs[b] < 0:
			return fmt.Errorf("kvcache: block %d has %d references", b, p.refs[b])
		case p.refs[b] > 0:
			live++
		case p.published(BlockID(b)):
			cached++
		default:
			free++
		}
		if p.published(BlockID(b)) {
			inCache++
		}
	}
	if free != p.free.n || cached != p.cached.n || live != p.live || free+cached+live != p.blocks {
		return fmt.Errorf("kvcache: counted free %d + cached %d + live %d, want %d + %d + %d = %d",
			free, cached, live, p.free.n, p.cached.n, p.live, p.blocks)
	}
	if err := p.checkList("free", p.free, false); err != nil {
		return err
	}
	if err := p.checkList("cached", p.cached, true); err != nil {
		return err
	}
	return p.checkBuckets(inCache)
}

// CheckTables is Check, and verifies that each block has exactly the references that the tables account for:
// together they must be all tables in use.
func (p *Pool) CheckTables(tables ...BlockTable) error {
	if err := p.Check(); err != nil {
		return err
	}
	want := make([]int32, p.blocks) //mem:ok a diagnostic, not called while serving
	for _, t := range tables {
		for _, b := range t {
			want[b]++
		}
	}
	for b, n := range want {
		if p.refs[b] != n {
			return fmt.Errorf("kvcache: block %d has %d references, the tables account for %d", b, p.refs[b], n)
		}
	}
	return nil
}

// checkList walks a list, whose length was compared with the count of blocks in its state: a walk that stays in
// the state, is linked both ways and ends after n blocks has met each of them once.
func (p *Pool) checkList(name string, l list, published bool) error {
	n, last := 0, none
	for b := l.head; b != none; b = p.next[b] {
		if n++; n > l.n {
			return fmt.Errorf("kvcache: %s list is longer than its count %d", name, l.n)
		}
		if p.prev[b] != last {
			return fmt.Errorf("kvcache: %s list: block %d follows %d, but points back to %d", name, b, last, p.prev[b])
		}
		if p.refs[b] != 0 || p.published(BlockID(b)) != published {
			return fmt.Errorf("kvcache: %s list holds block %d with %d references, published %v", name, b, p.refs[b], p.published(BlockID(b)))
		}
		last = b
	}
	if n != l.n || l.tail != last {
		return fmt.Errorf("kvcache: %s list: walked %d blocks to %d, want %d to %d", name, n, last, l.n, l.tail)
	}
	return nil
}

// checkBuckets verifies that the buckets hold the inCache published blocks, each where its identity hashes to.
func (p *Pool) checkBuckets(inCache int) error {
	n := 0
	for i, first := range p.buckets {
		for b := first; b != none; b = p.chain[b] {
			if n++; n > inCache {
				return fmt.Errorf("kvcache: buckets hold more than the %d published blocks", inCache)
			}
			if !p.published(BlockID(b)) {
				return fmt.Errorf("kvcache: bucket %d holds block %d, which is not published", i, b)
			}
			if want := p.bucket(p.parent[b], p.parentGen[b], p.slot(p.tokens, int(b))); want != i {
				return fmt.Errorf("kvcache: bucket %d holds block %d of bucket %d", i, b, want)
			}
		}
	}
	if n != inCache {
		return fmt.Errorf("kvcache: buckets hold %d blocks, %d are published", n, inCache)
	}
	return nil
}
