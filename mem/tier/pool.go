// Package tier keeps more items than memory holds: the ones in use in fast memory, others in host memory, all in a file. Streamed
// weights, blocks of keys and values, optimizer state and offloaded activations all live in such a pool.
//
//	    Get, Overwrite, Prefetch
//	           │
//	device   [slots of size A][slots of size B]     pinned bytes are handed out from here
//	  ▲ │ evict
//	  │ ▼
//	host     [slots of size A][slots of size B]     optional; a copy stays here while nothing else wants its slot
//	  ▲ │ evict
//	  │ ▼
//	home     item 0 | item 1 | item 2 | …           a Store with a place for every item
//
// A Policy says what goes first; an item that the tier below holds as it is goes without a write. All copies run on one Stream in the
// order in which they were decided, so an eviction and the fetch that takes its place need no wait between them: callers wait only
// for the last copy that touches the bytes that they asked for.
//
// Invariants: an item's latest content is in the device tier if it is there at all, else in the host tier if it is there, else in the
// home; a host copy beside a device copy equals it; pinned items do not move; every byte of memory is booked from New to Close, as
// much as Footprint says. Slots of one size never fragment, so what fits once fits always.
//
// The package does not decide when to prefetch, does not write dirty items back unless they are evicted or flushed, and does not
// retry: after the first failed copy, whatever needs another copy returns that error.
package tier

import (
	"errors"
	"fmt"
	"sync"

	"loadline/mem"
	"loadline/mem/arena"
)

// ErrPinned is returned (wrapped) where an item has no room because all slots of its size are pinned.
var ErrPinned = errors.New("all slots of its size are pinned")

// Options says what a pool holds and where.
type Options struct {
	Sizes   []mem.Bytes // of each item; ids index it; each positive
	Purpose mem.Purpose // what the memory is booked under
	Device  mem.Bytes   // bound on the slots in the device tier; at least one of each size must fit
	Host    mem.Bytes   // bound on the slots in the host tier; 0 for none
	Home    Store       // where every item has a place; the caller's, who closes it after the pool
	Offsets []int64     // of each item in Home; nil if the pool packs them from 0, in PackedBytes
	Policy  Policy
}

// Validate says what is wrong with o.
func (o *Options) Validate() error {
	for id, n := range o.Sizes {
		if n <= 0 {
			return fmt.Errorf("tier: item %d: want a positive size, got %d", id, int64(n))
		}
	}
	switch {
	case o.Offsets != nil && len(o.Offsets) != len(o.Sizes):
		return fmt.Errorf("tier: want %d offsets, one for each item, got %d", len(o.Sizes), len(o.Offsets))
	case o.Home == nil:
		return errors.New("tier: want a home for the items")
	case o.Policy == nil:
		return errors.New("tier: want a policy")
	case o.Host < 0:
		return fmt.Errorf("tier: want a host capacity of at least 0, got %d", int64(o.Host))
	}
	_, _, err := o.classes()
	return err
}

func (o *Options) classes() (device, host []Class, err error) {
	if device, err = Classes(o.Sizes, o.Device, 1); err != nil || o.Host == 0 {
		return device, nil, err
	}
	host, err = Classes(o.Sizes, o.Host, 0)
	return device, host, err
}

// Footprint returns the bytes that a pool with these options books, without making one. Home and Policy may be missing.
func (o *Options) Footprint() (mem.Usage, error) {
	var u mem.Usage
	device, host, err := o.classes()
	if err == nil {
		u.Add(mem.Device, o.Purpose, arena.Round(SlotsBytes(device)))
		u.Add(mem.Host, o.Purpose, arena.Round(SlotsBytes(host)))
	}
	return u, err
}

// Stats counts what a pool has done. Copies count when they are started.
type Stats struct {
	Hits        int64     // Gets and Overwrites that found the item in the device tier or on its way there
	Misses      int64     // those that did not
	HostHits    int64     // fetches that the host tier served
	Prefetches  int64     // fetches that Prefetch started
	Evictions   int64     // items that had to leave the device tier
	BytesIn     mem.Bytes // copied into the device tier
	BytesOut    mem.Bytes // copied out of the device tier
	HomeRead    mem.Bytes // read from the home
	HomeWritten mem.Bytes // written to the home
}

// item is what the pool knows of one id.
type item struct {
	bytes  int
	home   int64 // offset in the home
	class  int32
	device int32 // its slot in the device tier, or -1
	host   int32 // its slot in the host tier, or -1
	pins   int32
	stale  bool // the home's copy is not the latest
}

// Pool keeps items in tiers. It is safe for concurrent use; the bytes of one item are for its users to share.
type Pool struct {
	stream *Stream
	home   Store

	mu     sync.Mutex
	policy Policy
	items  []item
	device *level
	host   *level // nil if there is none
	stats  Stats
	closed bool
}

// New books and maps the slots of a pool whose items are in o.Home as that is now.
func New(l *mem.Ledger, o Options) (*Pool, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	device, host, err := o.classes()
	if err != nil {
		return nil, err
	}
	p := &Pool{home: o.Home, policy: o.Policy, items: make([]item, len(o.Sizes))} //mem:ok bookkeeping, 40 bytes an item
	classOf := make(map[mem.Bytes]int32, len(device))
	for c := range device {
		classOf[device[c].Bytes] = int32(c)
	}
	packed := int64(0)
	for id, n := range o.Sizes {
		it := item{bytes: int(n), home: packed, class: classOf[slotBytes(n)], device: -1, host: -1}
		packed += int64(slotBytes(n))
		if o.Offsets != nil {
			it.home = o.Offsets[id]
		}
		p.items[id] = it
	}
	if p.device, err = newLevel(l, mem.Device, o.Purpose, device); err != nil {
		return nil, err
	}
	if SlotsBytes(host) > 0 {
		if p.host, err = newLevel(l, mem.Host, o.Purpose, host); err != nil {
			return nil, errors.Join(err, p.device.arena.Close())
		}
	}
	p.stream = NewStream()
	return p, nil
}

// Get pins item id in the device tier and returns its bytes, which stay valid and in place until Release. It waits for them if they
// have to be fetched.
func (p *Pool) Get(id int) ([]byte, error) { return p.pin(id, true) }

// Overwrite is Get for a caller who will write all of the bytes: they are not fetched, hold anything, and count as dirty.
func (p *Pool) Overwrite(id int) ([]byte, error) { return p.pin(id, false) }

func (p *Pool) pin(id int, fetch bool) ([]byte, error) {
	bytes, ticket, err := p.place(id, fetch)
	if err != nil {
		return nil, err
	}
	if err := p.stream.Wait(ticket); err != nil {
		p.Release(id)
		return nil, err
	}
	return bytes, nil
}

// place pins item id to a slot of the device tier, and returns its bytes and the job after which they may be used.
func (p *Pool) place(id int, fetch bool) ([]byte, Ticket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mustBeOpen()
	it := &p.items[id]
	p.policy.Touch(id)
	if it.device >= 0 {
		p.stats.Hits++
	} else {
		p.stats.Misses++
		if !p.makeRoom(id, true) {
			return nil, 0, fmt.Errorf("tier: item %d of %v: %w", id, mem.Bytes(it.bytes), ErrPinned)
		}
		if fetch {
			p.fetch(id)
		}
	}
	it.pins++
	if !fetch {
		p.dirty(it)
	}
	return p.deviceBytes(it), p.device.slots[it.device].ticket, nil
}

// Release ends one Get or Overwrite. It panics if there is none to end.
func (p *Pool) Release(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mustBePinned(id, "Release")
	p.items[id].pins--
}

// MarkDirty says that the bytes of a pinned item were changed or will be before its Release, so that they are written when the item
// is evicted. It panics if the item is not pinned.
func (p *Pool) MarkDirty(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mustBePinned(id, "MarkDirty")
	p.dirty(&p.items[id])
}

// Prefetch starts to fetch item id and returns without waiting; a later Get does the waiting. It reports whether the item is in the
// device tier or on its way. It declines where all slots of its size are pinned, where the policy would rather keep what is there,
// or where many copies are waiting already.
func (p *Pool) Prefetch(id int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mustBeOpen()
	p.policy.Hint(id)
	if p.items[id].device >= 0 {
		return true
	}
	// One fetch starts at most three copies. Start must not wait here.
	if p.stream.Pending() > streamDepth/2 || !p.makeRoom(id, false) {
		return false
	}
	p.stats.Prefetches++
	p.fetch(id)
	return true
}

// Discard forgets item id's content, which is not needed any more: its slots are free without a write, and a Get before the next
// Overwrite returns whatever the home holds. It panics if the item is pinned.
func (p *Pool) Discard(id int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it := &p.items[id]
	if it.pins > 0 {
		panic(fmt.Sprintf("tier: Discard of item %d, which is pinned", id))
	}
	if it.device >= 0 {
		p.device.push(it.class, it.device)
		it.device = -1
	}
	p.dropHost(it)
	it.stale = false
}

// Flush writes every dirty item to the home and waits for that. It panics if one is pinned, since it may be changing.
func (p *Pool) Flush() error {
	p.startFlush()
	return p.stream.Drain()
}

func (p *Pool) startFlush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mustBeOpen()
	for id := range p.items {
		it := &p.items[id]
		if it.stale && it.pins > 0 {
			panic(fmt.Sprintf("tier: Flush while dirty item %d is pinned", id))
		}
		if it.stale {
			p.writeHome(it)
		}
	}
}

// SetPolicy replaces the policy, as when another program with another order of use begins.
func (p *Pool) SetPolicy(policy Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policy = policy
}

// Stats returns the counts so far.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Close waits for the copies on the way, unmaps the memory and releases it in the ledger. It does not write dirty items: Flush
// first to keep them. It returns the first failed copy's error, too. It panics when called twice.
func (p *Pool) Close() error {
	p.shut()
	err := errors.Join(p.stream.Close(), p.device.arena.Close())
	if p.host != nil {
		err = errors.Join(err, p.host.arena.Close())
	}
	return err
}

func (p *Pool) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mustBeOpen()
	p.closed = true
}

func (p *Pool) mustBeOpen() {
	if p.closed {
		panic("tier: use of a closed pool")
	}
}

func (p *Pool) mustBePinned(id int, verb string) {
	if p.items[id].pins <= 0 {
		panic(fmt.Sprintf("tier: %s of item %d, which is not pinned", verb, id))
	}
}
