package tier

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/mem"
	"loadline/mem/arena"
)

const testItem = 256 // bytes of an item where all are equal

func equalSizes(items int, n mem.Bytes) []mem.Bytes {
	sizes := make([]mem.Bytes, items)
	for i := range sizes {
		sizes[i] = n
	}
	return sizes
}

// newPool returns a pool of equal items with a home in memory where item id is full of byte(id), closed at the test's end.
func newPool(t *testing.T, items, device, host int, policy Policy) (*Pool, *MemStore) {
	t.Helper()
	home := NewMemStore(make([]byte, items*testItem))
	for i := range home.bytes {
		home.bytes[i] = byte(i / testItem)
	}
	p, err := New(mem.NewLedger(mem.Limits{}), Options{Sizes: equalSizes(items, testItem), Purpose: mem.Weights,
		Device: mem.Bytes(device) * testItem, Host: mem.Bytes(host) * testItem, Home: home, Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !p.closed {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return p, home
}

// use gets and releases id and checks that all its bytes are want.
func use(t *testing.T, p *Pool, id int, want byte) {
	t.Helper()
	b, err := p.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != testItem || bytes.Count(b, []byte{want}) != len(b) {
		t.Fatalf("item %d: got %d bytes of %d, want %d of %d", id, len(b), b[0], testItem, want)
	}
	p.Release(id)
}

func sweep(from, to int) (ids []int) {
	for id := from; id != to; {
		ids = append(ids, id)
		if from < to {
			id++
		} else {
			id--
		}
	}
	return ids
}

func TestHitRates(t *testing.T) {
	const items, sweeps = 80, 79
	cycle := sweep(0, items)
	back := append(sweep(0, items), sweep(items-1, -1)...)
	for _, c := range []struct {
		name         string
		order        []int
		repeat       int // after a first time, in which a cycle hits nothing
		device, host int
		policy       Policy
		hits         int64
		homeReads    int64 // those of the first time included
	}{
		// A cyclic sweep that does not fit: LRU has always just thrown away what comes next.
		{"cycle, LRU", cycle, sweeps, 40, 0, NewLRU(items), 0, items * (sweeps + 1)},
		// The optimum hits 39 times in every 79: 0.49.
		{"cycle, known order", cycle, sweeps, 40, 0, NewKnownOrder(items, cycle, true), 39 * items, items + 40*items},
		{"cycle, all fits", cycle, sweeps, 80, 0, NewLRU(items), items * sweeps, items},
		// Forward then backward: what was used last is needed first, so the two are equal.
		{"forward and back, LRU", back, 0, 40, 0, NewLRU(items), 40, 2*items - 40},
		{"forward and back, known order", back, 0, 40, 0, NewKnownOrder(items, back, false), 40, 2*items - 40},
		// Host and device together keep as much out of the home as a device tier of their sum, but for the slot of an item on its way
		// up, which is needed on both sides: 20 reads more in 6,400 here, and for LRU one more host slot.
		{"cycle, known order, host", cycle, sweeps, 20, 20, NewKnownOrder(items, cycle, true), 19 * items, items + 40*items + 20},
		{"cycle, LRU, host holds the rest", cycle, sweeps, 20, 61, NewLRU(items), 0, items},
		{"forward and back, LRU, host", back, 0, 20, 21, NewLRU(items), 20, 2*items - 40},
	} {
		p, _ := newPool(t, items, c.device, c.host, c.policy)
		for range 1 + c.repeat {
			for _, id := range c.order {
				use(t, p, id, byte(id))
			}
		}
		s := p.Stats()
		n := int64(len(c.order) * (1 + c.repeat))
		if s.Hits != c.hits || s.Hits+s.Misses != n || int64(s.HomeRead)/testItem != c.homeReads {
			t.Errorf("%s: got %d hits of %d uses and %d reads of the home, want %d and %d", c.name, s.Hits, n,
				int64(s.HomeRead)/testItem, c.hits, c.homeReads)
		}
		if s.HomeWritten != 0 || c.host == 0 && s.BytesOut != 0 {
			t.Errorf("%s: got %v written and %v out, want clean items to go without a write", c.name, s.HomeWritten, s.BytesOut)
		}
		if s.BytesIn != mem.Bytes(s.Misses)*testItem || s.HostHits*testItem != int64(s.BytesIn-s.HomeRead) {
			t.Errorf("%s: counts disagree: %+v", c.name, s)
		}
	}
}

func TestDirtyItemsSurvive(t *testing.T) {
	for _, host := range []int{0, 2} {
		p, home := newPool(t, 6, 2, host, NewLRU(6))
		for id := range 6 {
			b, err := p.Overwrite(id)
			if err != nil {
				t.Fatal(err)
			}
			for i := range b {
				b[i] = byte(100 + id)
			}
			p.Release(id)
		}
		if got := p.Stats(); got.BytesIn != 0 || got.Misses != 6 {
			t.Errorf("host %d: overwriting: got %+v, want no byte fetched", host, got)
		}
		for id := range 6 {
			use(t, p, id, byte(100+id))
		}
		b, err := p.Get(3)
		if err != nil {
			t.Fatal(err)
		}
		b[0]++
		p.MarkDirty(3)
		p.Release(3)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		written := p.Stats().HomeWritten
		for i, got := range home.bytes {
			want := byte(100 + i/testItem)
			if i == 3*testItem {
				want++
			}
			if got != want {
				t.Fatalf("host %d: byte %d of the home: got %d, want %d", host, i, got, want)
			}
		}
		if written != 7*testItem {
			t.Errorf("host %d: got %d items written, want 7", host, written/testItem)
		}
		if err := p.Flush(); err != nil || p.Stats().HomeWritten != written {
			t.Errorf("host %d: a second Flush wrote again: %v", host, err)
		}
	}
}

func TestDiscardedItemsAreNotWritten(t *testing.T) {
	p, home := newPool(t, 4, 2, 1, NewLRU(4))
	for id := range 3 { // the first goes to the host tier
		b, err := p.Overwrite(id)
		if err != nil {
			t.Fatal(err)
		}
		b[0] = 99
		p.Release(id)
	}
	for id := range 3 {
		p.Discard(id)
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	for id := range 4 {
		use(t, p, id, byte(id)) // what the home has had all along
	}
	if s := p.Stats(); s.HomeWritten != 0 || home.bytes[0] != 0 {
		t.Errorf("got %v written to the home, want nothing", s.HomeWritten)
	}
}

func TestPrefetch(t *testing.T) {
	order := []int{0, 1, 2, 3, 0, 1}
	p, _ := newPool(t, 4, 2, 0, NewKnownOrder(4, order, false))
	for i, want := range []bool{true, true, false, true} {
		if i == 3 {
			i = 0 // there already
		}
		if got := p.Prefetch(i); got != want {
			t.Errorf("Prefetch(%d): got %v, want %v", i, got, want)
		}
	}
	for _, id := range order[:2] {
		use(t, p, id, byte(id))
	}
	if s := p.Stats(); s.Hits != 2 || s.Prefetches != 2 || s.Evictions != 0 {
		t.Errorf("got %+v, want 2 hits of 2 prefetched items", s)
	}
	if p.Prefetch(3) != true || p.Prefetch(2) != true {
		t.Error("the items that come next were declined")
	}
	use(t, p, 2, 2)
	use(t, p, 3, 3)

	lru, _ := newPool(t, 4, 2, 0, NewLRU(4))
	use(t, lru, 0, 0)
	use(t, lru, 1, 1)
	if !lru.Prefetch(2) {
		t.Error("LRU declined a prefetch")
	}
	use(t, lru, 1, 1)
	if s := lru.Stats(); s.Hits != 1 || s.Evictions != 1 {
		t.Errorf("LRU: got %+v, want the older item evicted", s)
	}
	for _, id := range []int{1, 2} {
		if _, err := lru.Get(id); err != nil {
			t.Fatal(err)
		}
	}
	if lru.Prefetch(3) {
		t.Error("Prefetch found room where everything is pinned")
	}
}

// Prefetch must not wait, so it declines once half of the queue is taken.
func TestPrefetchDoesNotQueueWithoutEnd(t *testing.T) {
	const items = 2 * streamDepth
	g := newGate(NewMemStore(make([]byte, items*testItem)), 0)
	p, err := New(mem.NewLedger(mem.Limits{}), Options{Sizes: equalSizes(items, testItem), Device: items * testItem, Home: g, Policy: NewLRU(items)})
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for id := range items {
		if p.Prefetch(id) {
			accepted++
		}
	}
	if accepted != streamDepth/2+1 {
		t.Errorf("got %d prefetches accepted, want %d", accepted, streamDepth/2+1)
	}
	close(g.open)
	use(t, p, 0, 0)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPinnedItemsStay(t *testing.T) {
	p, _ := newPool(t, 4, 2, 1, NewLRU(4))
	a, err := p.Get(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(1); err != nil {
		t.Fatal(err)
	}
	_, err = p.Get(2)
	if !errors.Is(err, ErrPinned) || err.Error() != "tier: item 2 of 256 B: all slots of its size are pinned" {
		t.Errorf("got %v, want ErrPinned and the item", err)
	}
	p.Release(1)
	use(t, p, 2, 2)
	use(t, p, 3, 3)
	again, err := p.Get(0)
	if err != nil || &a[0] != &again[0] {
		t.Errorf("a pinned item moved or failed: %v", err)
	}
	p.Release(0)
	p.Release(0)
	use(t, p, 1, 1)
	use(t, p, 2, 2)
}

func TestPoolMisusePanics(t *testing.T) {
	p, _ := newPool(t, 4, 2, 0, NewLRU(4))
	if _, err := p.Overwrite(1); err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]func(){
		"Release of item 0":           func() { p.Release(0) },
		"MarkDirty of item 0":         func() { p.MarkDirty(0) },
		"Discard of item 1":           func() { p.Discard(1) },
		"Flush while dirty item 1":    func() { p.Flush() },
		"index out of range":          func() { p.Get(4) },
		"item 2, which is not pinned": func() { p.Release(2) },
	} {
		if got := panics(f); !strings.Contains(got, want) {
			t.Errorf("got panic %q, want %q", got, want)
		}
	}
	use(t, p, 2, 2) // no lock was left behind
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){"Get": func() { p.Get(0) }, "Close": func() { p.Close() }, "Prefetch": func() { p.Prefetch(0) }} {
		if got := panics(f); got != "tier: use of a closed pool" {
			t.Errorf("%s: got panic %q", name, got)
		}
	}
}

func TestFailingHomeNeverHangs(t *testing.T) {
	for failAt := int64(1); failAt <= 12; failAt++ {
		g := newGate(NewMemStore(make([]byte, 8*testItem)), failAt)
		close(g.open)
		l := mem.NewLedger(mem.Limits{})
		p, err := New(l, Options{Sizes: equalSizes(8, testItem), Device: 3 * testItem, Host: 2 * testItem, Home: g, Policy: NewLRU(8)})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for worker := range 3 {
			wg.Go(func() {
				for i := range 40 {
					id := (i*3 + worker) % 8
					p.Prefetch((id + 1) % 8)
					if _, err := p.Get(id); err == nil {
						p.MarkDirty(id)
						p.Release(id)
					} else if !errors.Is(err, errBroken) && !errors.Is(err, ErrPinned) {
						t.Errorf("got %v, want the store's error", err)
					}
				}
			})
		}
		wg.Wait()
		if err := p.Flush(); !errors.Is(err, errBroken) {
			t.Errorf("call %d fails: Flush: got %v, want the store's error", failAt, err)
		}
		if err := p.Close(); !errors.Is(err, errBroken) {
			t.Errorf("call %d fails: Close: got %v, want the store's error", failAt, err)
		}
		if n := g.calls.Load(); n != failAt {
			t.Errorf("got %d calls of the home, want none after call %d failed", n, failAt)
		}
		if l.InUse() != (mem.Usage{}) {
			t.Errorf("after Close: got %v booked", l.InUse())
		}
	}
}

// Goroutines count in items under a lock of their own per item, while others prefetch; no count may be lost between tiers.
func TestConcurrentUse(t *testing.T) {
	const items, workers, rounds = 24, 6, 300
	for _, host := range []int{0, 6} {
		p, home := newPool(t, items, workers+2, host, NewLRU(items))
		var locks [items]sync.Mutex
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range rounds {
					id := (i*7 + w*5) % items
					p.Prefetch((id + 7) % items)
					locks[id].Lock()
					b, err := p.Get(id)
					if err != nil {
						t.Error(err)
					} else {
						b[testItem-1]++
						p.MarkDirty(id)
						p.Release(id)
					}
					locks[id].Unlock()
				}
			})
		}
		wg.Wait()
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		var counts [items]byte
		for w := range workers {
			for i := range rounds {
				counts[(i*7+w*5)%items]++
			}
		}
		for id, n := range counts {
			if got := home.bytes[(id+1)*testItem-1] - byte(id); got != n {
				t.Errorf("host %d: item %d: got %d counts, want %d", host, id, got, n)
			}
		}
		if s := p.Stats(); s.Hits+s.Misses != workers*rounds {
			t.Errorf("host %d: got %d hits and %d misses, want %d in all", host, s.Hits, s.Misses, workers*rounds)
		}
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	order := sweep(0, 12)
	p, _ := newPool(t, 12, 3, 3, NewKnownOrder(12, order, true))
	round := func() {
		for _, id := range order {
			b, err := p.Get(id)
			if err != nil {
				t.Fatal(err)
			}
			b[1]++
			p.MarkDirty(id)
			p.Release(id)
			p.Prefetch((id + 1) % 12)
		}
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("got %v allocations a round, want none", n)
	}
}

func TestClasses(t *testing.T) {
	sizes := append(equalSizes(8, 100), 1000, 1000)
	for _, c := range []struct {
		capacity mem.Bytes
		least    int
		want     []Class // nil for an error
	}{
		{128 + 1023, 1, nil},
		{128 + 1024, 1, []Class{{128, 8, 1}, {1024, 2, 1}}},
		{128*4 + 1024, 1, []Class{{128, 8, 4}, {1024, 2, 1}}},
		{128*4 + 2048 + 64, 1, []Class{{128, 8, 4}, {1024, 2, 2}}},
		{128*8 + 2048, 1, []Class{{128, 8, 8}, {1024, 2, 2}}},
		{mem.GiB, 1, []Class{{128, 8, 8}, {1024, 2, 2}}},
		{300, 0, []Class{{128, 8, 2}, {1024, 2, 0}}},
		{0, 0, []Class{{128, 8, 0}, {1024, 2, 0}}},
		{mem.GiB, 100, []Class{{128, 8, 8}, {1024, 2, 2}}},
	} {
		got, err := Classes(sizes, c.capacity, c.least)
		if diff := cmp.Diff(c.want, got); diff != "" || (err == nil) != (c.want != nil) {
			t.Errorf("capacity %d: got error %v (-want +got):\n%s", c.capacity, err, diff)
		}
	}
}

func TestFootprintIsWhatIsBooked(t *testing.T) {
	o := Options{Sizes: append(equalSizes(8, 100*mem.KiB), 3*mem.MiB, 5*mem.MiB), Purpose: mem.OptimState, Device: 12 * mem.MiB, Host: 4 * mem.MiB,
		Policy: NewLRU(10)}
	want, err := o.Footprint()
	if err != nil {
		t.Fatal(err)
	}
	if want.Total(mem.Device) > arena.Round(o.Device) || want.Total(mem.Host) > o.Host || want.Total(mem.Device) < 8*mem.MiB {
		t.Errorf("got %v for capacities of %v and %v", want, o.Device, o.Host)
	}
	l := mem.NewLedger(mem.Limits{})
	home, err := TempFile(l, mem.OptimState, t.TempDir(), PackedBytes(o.Sizes))
	if err != nil {
		t.Fatal(err)
	}
	want.Add(mem.Disk, mem.OptimState, PackedBytes(o.Sizes))
	o.Home = home
	p, err := New(l, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.InUse(); got != want {
		t.Errorf("got %v booked, want %v", got, want)
	}
	for id, n := range o.Sizes { // content through a real file
		b, err := p.Overwrite(id)
		if err != nil {
			t.Fatal(err)
		}
		if mem.Bytes(len(b)) != n || cap(b) != len(b) {
			t.Errorf("item %d: got %d bytes of %d, want %d", id, len(b), cap(b), n)
		}
		b[0], b[len(b)-1] = byte(id+1), byte(id+2)
		p.Release(id)
	}
	for id := range o.Sizes {
		b, err := p.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		if b[0] != byte(id+1) || b[len(b)-1] != byte(id+2) {
			t.Errorf("item %d: got %d and %d", id, b[0], b[len(b)-1])
		}
		p.Release(id)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := home.Close(); err != nil {
		t.Error(err)
	}
	if l.InUse() != (mem.Usage{}) || l.Peak()[mem.Device] != want[mem.Device] {
		t.Errorf("after Close: got %v booked, peak %v", l.InUse(), l.Peak())
	}
}

func TestOptionsValidate(t *testing.T) {
	home, policy := NewMemStore(nil), NewLRU(2)
	good := Options{Sizes: equalSizes(2, 10), Device: 64, Home: home, Policy: policy}
	if err := good.Validate(); err != nil {
		t.Errorf("got %v", err)
	}
	for want, change := range map[string]func(*Options){
		"item 1: want a positive size": func(o *Options) { o.Sizes = []mem.Bytes{1, 0} },
		"want 2 offsets":               func(o *Options) { o.Offsets = []int64{1} },
		"want a home":                  func(o *Options) { o.Home = nil },
		"want a policy":                func(o *Options) { o.Policy = nil },
		"host capacity":                func(o *Options) { o.Host = -1 },
		"want at least 64 B":           func(o *Options) { o.Device = 63 },
	} {
		o := good
		change(&o)
		if _, err := New(mem.NewLedger(mem.Limits{}), o); err == nil || !strings.HasPrefix(err.Error(), "tier: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// A host tier past the ledger's limit leaves nothing behind.
	good.Host = 64
	l := mem.NewLedger(mem.Limits{Memory: arena.Round(1)})
	var over *mem.OverBudgetError
	if _, err := New(l, good); !errors.As(err, &over) || l.InUse() != (mem.Usage{}) {
		t.Errorf("got %v and %v booked", err, l.InUse())
	}
}

// Items at given offsets of a file that is only read, as weights are streamed from a checkpoint.
func TestReadOnlyHomeWithOffsets(t *testing.T) {
	text := []byte("header--aaaabbbbbbcc")
	p, err := New(mem.NewLedger(mem.Limits{}), Options{Sizes: []mem.Bytes{4, 6, 2}, Offsets: []int64{8, 12, 18}, Device: 64,
		Home: NewMemStore(text), Policy: NewLRU(3)})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range []string{"aaaa", "bbbbbb", "cc"} {
		b, err := p.Get(id)
		if err != nil || string(b) != want {
			t.Errorf("item %d: got %q, %v, want %q", id, b, err, want)
		}
		p.Release(id)
	}
	if got := fmt.Sprint(p.Stats().Evictions); got != "2" {
		t.Errorf("got %s evictions, want 2: all items fit one slot of 64 bytes", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
