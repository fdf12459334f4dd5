// Package kvcache decides which block of the key/value pool holds which tokens of which sequence.
//
// The pool is Len blocks of BlockSize tokens; a sequence names its blocks in a BlockTable, so its keys and values
// need not lie together, and sequences that begin alike share blocks:
//
//		         take                    Free, last reference
//		free ───────────▶ live (refs>0) ─────────────────────▶ free, or cached if published
//		  ▲                ▲    │ Commit publishes full blocks
//		  │ evicted        │    ▼
//		  └──── cached ────┘ Match (refs 0→1)
//
//	  - Match gives a new sequence the published blocks of its longest known prefix.
//	  - Fork shares a table among samples and beams; Writable copies a shared block before it is written.
//	  - Extend takes free blocks, then evicts cached ones, the least recently freed first. Free releases a table
//	    from its tail, so the end of a prefix goes before its beginning.
//
// A published block is found by the hash of (parent block, tokens), and the parent and every token are compared:
// a hit is exact whatever the hash does. The parent is named by block and generation, the generation counting the
// times that block was published, so a child whose parent is gone is never reached by way of the parent's successor.
//
// Invariant: free + cached + live == Len after every call; Check verifies it.
//
// The package moves no keys or values: it returns the copies that the device has to make. It allocates nothing but
// the tables it returns; its index lies in a buffer handed in by the caller. It is not safe for concurrent use.
//
// Sources: PagedAttention (Kwon et al. 2023, arXiv 2309.06180), §4.3 to 4.5, for tables, copy-on-write and sharing;
// vLLM's automatic prefix caching for full blocks only and tail-first eviction.
package kvcache

import (
	"fmt"
	"math"
)

// BlockID is the index of a block in the pool, from 0.
type BlockID int32

// BlockTable names the blocks of one sequence: token i is at offset i%BlockSize of block t[i/BlockSize]. It only
// grows while its sequence lives, except that Writable may exchange an entry for a private copy.
type BlockTable []BlockID

// Copy is one whole block that the device copies, in the order the copies were returned and before anything
// scheduled after them is written.
type Copy struct{ Src, Dst BlockID }

// none ends lists and chains, and stands for the parent of a sequence's first block.
const none int32 = -1

// unpublished in chain marks a block that is not in the prefix cache.
const unpublished int32 = -2

// maxHeapWords is how large an index NewPool makes by itself: 64 KiB.
const maxHeapWords = 64 << 10 / 4

// Options configure a pool.
type Options struct {
	Blocks    int    // blocks in the pool, at least 1
	BlockSize int    // tokens in a block, at least 1
	Cache     bool   // keep full blocks for later sequences with the same prefix
	HashSeed  uint64 // a secret keeps clients from aiming prompts at one hash bucket; any value is correct

	// Buf is where the index lives, at least Words long; the pool owns it from then on. It may be nil for an index of up to 64 KiB.
	Buf []int32
}

// Validate reports the first option that makes no sense.
func (o Options) Validate() error {
	if o.Blocks < 1 || o.BlockSize < 1 {
		return fmt.Errorf("kvcache: want at least 1 block of 1 token, got %d blocks of %d", o.Blocks, o.BlockSize)
	}
	if o.Blocks > math.MaxInt32/o.BlockSize {
		return fmt.Errorf("kvcache: want at most %d tokens in the pool, got %d blocks of %d", math.MaxInt32, o.Blocks, o.BlockSize)
	}
	if n := o.Words(); len(o.Buf) < n && (o.Buf != nil || n > maxHeapWords) {
		return fmt.Errorf("kvcache: want a buffer of %d words for the index of %d blocks, got %d", n, o.Blocks, len(o.Buf))
	}
	return nil
}

// Words returns the length of the index in int32s, which is what Buf must hold.
func (o Options) Words() int {
	n := 3 * o.Blocks
	if o.Cache {
		n += (4+o.BlockSize)*o.Blocks + o.buckets()
	}
	return n
}

// buckets returns the size of the hash table: the power of two at or above Blocks.
func (o Options) buckets() int {
	n := 1
	for n < o.Blocks {
		n *= 2
	}
	return n
}

// Pool is the set of all blocks. See the package comment for the states of a block.
type Pool struct {
	blocks, blockSize int
	cache             bool
	seed              uint64

	refs       []int32 // per block: how many tables name it
	prev, next []int32 // per block: neighbours in the list it is on, if any

	// The prefix cache; all nil without it.
	chain     []int32 // per block: next in its hash bucket, none at the end, unpublished if it is in no bucket
	parent    []int32 // per published block: the block before it in the sequence, or none
	parentGen []int32 // per published block: the parent's generation when this block was published
	gen       []int32 // per block: how often it was published, modulo 2³²
	tokens    []int32 // per published block: its BlockSize tokens
	buckets   []int32 // first block by hash

	free   list // refs == 0, not published; taken from the front
	cached list // refs == 0, published; evicted from the front
	live   int  // blocks with refs > 0

	evicted int64
	copied  int64
	copyBuf [1]Copy
}

// list is a doubly linked list through Pool.prev and Pool.next.
type list struct {
	head, tail int32
	n          int
}

// NewPool returns a pool of free blocks.
func NewPool(o Options) (*Pool, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	buf := o.Buf
	if buf == nil {
		buf = make([]int32, o.Words()) //mem:ok at most 64 KiB by Validate
	}
	carve := func(n int) []int32 {
		part := buf[:n:n]
		buf = buf[n:]
		return part
	}
	p := &Pool{blocks: o.Blocks, blockSize: o.BlockSize, cache: o.Cache, seed: o.HashSeed}
	p.refs, p.prev, p.next = carve(o.Blocks), carve(o.Blocks), carve(o.Blocks)
	if o.Cache {
		p.chain, p.parent, p.parentGen, p.gen = carve(o.Blocks), carve(o.Blocks), carve(o.Blocks), carve(o.Blocks)
		p.tokens = carve(o.Blocks * o.BlockSize)
		p.buckets = carve(o.buckets())
		clear(p.gen)
		for i := range p.chain {
			p.chain[i] = unpublished
		}
		for i := range p.buckets {
			p.buckets[i] = none
		}
	}
	clear(p.refs)
	p.free, p.cached = list{head: none, tail: none}, list{head: none, tail: none}
	for b := range int32(o.Blocks) {
		p.pushBack(&p.free, b)
	}
	return p, nil
}

// Len returns the number of blocks in the pool.
func (p *Pool) Len() int { return p.blocks }

// BlockSize returns the number of tokens in a block.
func (p *Pool) BlockSize() int { return p.blockSize }

// Available returns how many blocks Extend could hand out now: the free and the cached ones.
func (p *Pool) Available() int { return p.free.n + p.cached.n }

// BlocksFor returns how many blocks hold that many tokens.
func (p *Pool) BlocksFor(tokens int) int { return (tokens + p.blockSize - 1) / p.blockSize }

// Stats counts blocks.
type Stats struct {
	Free, Cached, Live int   // now; their sum is Len
	Evicted, Copied    int64 // since NewPool: cached blocks given up for new ones, blocks copied before a write
}

// Stats returns the pool's counts.
func (p *Pool) Stats() Stats {
	return Stats{Free: p.free.n, Cached: p.cached.n, Live: p.live, Evicted: p.evicted, Copied: p.copied}
}

func (p *Pool) pushBack(l *list, b int32) {
	p.prev[b], p.next[b] = l.tail, none
	if l.tail == none {
		l.head = b
	} else {
		p.next[l.tail] = b
	}
	l.tail = b
	l.n++
}

func (p *Pool) pushFront(l *list, b int32) {
	p.prev[b], p.next[b] = none, l.head
	if l.head == none {
		l.tail = b
	} else {
		p.prev[l.head] = b
	}
	l.head = b
	l.n++
}

func (p *Pool) remove(l *list, b int32) {
	if p.prev[b] == none {
		l.head = p.next[b]
	} else {
		p.next[p.prev[b]] = p.next[b]
	}
	if p.next[b] == none {
		l.tail = p.prev[b]
	} else {
		p.prev[p.next[b]] = p.prev[b]
	}
	l.n--
}
