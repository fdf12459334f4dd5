package tier

import (
	"testing"

	"pgregory.net/rapid"

	"loadline/mem"
)

// TestPoolAgainstModel runs random operations on a pool and on a map from id to content, and checks the pool's invariants after each.
func TestPoolAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := make([]mem.Bytes, rapid.IntRange(1, 12).Draw(t, "items"))
		for id := range sizes {
			sizes[id] = mem.Bytes(rapid.SampledFrom([]int{1, 60, 200, 1000}).Draw(t, "bytes"))
		}
		order := rapid.SliceOfN(rapid.IntRange(0, len(sizes)-1), 1, 40).Draw(t, "order")
		policies := map[string]Policy{"lru": NewLRU(len(sizes)), "cyclic": NewKnownOrder(len(sizes), order, true),
			"once": NewKnownOrder(len(sizes), order, false)}
		home := NewMemStore(make([]byte, PackedBytes(sizes)))
		o := Options{
			Sizes: sizes, Purpose: mem.KVBlocks, Home: home,
			Device: mem.Bytes(rapid.IntRange(64+256+1024, 5000).Draw(t, "device")),
			Host:   mem.Bytes(rapid.IntRange(0, 4000).Draw(t, "host")),
			Policy: policies[rapid.SampledFrom([]string{"lru", "cyclic", "once"}).Draw(t, "policy")],
		}
		l := mem.NewLedger(mem.Limits{})
		want, err := o.Footprint()
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(l, o)
		if err != nil {
			t.Fatal(err)
		}
		content := make([]byte, len(sizes)) // what every byte of the item is
		known := make([]bool, len(sizes))   // not since a Discard
		for id := range known {
			known[id] = true
		}
		var pinned []int
		written := byte(0)
		drawID := func(t *rapid.T) int { return rapid.IntRange(0, len(sizes)-1).Draw(t, "id") }
		isPinned := func(id int) bool {
			for _, other := range pinned {
				if other == id {
					return true
				}
			}
			return false
		}
		// pin gets or overwrites an item; it may fail only where the model has all slots of the class pinned.
		pin := func(t *rapid.T, id int, pin func(int) ([]byte, error)) []byte {
			b, err := pin(id)
			if err != nil {
				class := p.items[id].class
				distinct := map[int]bool{}
				for _, other := range pinned {
					if p.items[other].class == class {
						distinct[other] = true
					}
				}
				if len(distinct) < p.device.classes[class].Slots {
					t.Fatalf("item %d: got %v with %d of %d slots pinned", id, err, len(distinct), p.device.classes[class].Slots)
				}
				return nil
			}
			if mem.Bytes(len(b)) != sizes[id] {
				t.Fatalf("item %d: got %d bytes, want %d", id, len(b), sizes[id])
			}
			pinned = append(pinned, id)
			return b
		}
		fill := func(id int, b []byte) {
			written++
			for i := range b {
				b[i] = written
			}
			content[id], known[id] = written, true
		}
		check := func(t *rapid.T, id int, b []byte) {
			for i := range b {
				if known[id] && b[i] != content[id] {
					t.Fatalf("item %d, byte %d: got %d, want %d", id, i, b[i], content[id])
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				id := drawID(t)
				b := pin(t, id, p.Get)
				check(t, id, b)
				if b != nil && rapid.Bool().Draw(t, "change") {
					p.MarkDirty(id)
					fill(id, b)
				}
			},
			"overwrite": func(t *rapid.T) {
				id := drawID(t)
				if b := pin(t, id, p.Overwrite); b != nil {
					fill(id, b)
				}
			},
			"release": func(t *rapid.T) {
				if len(pinned) > 0 {
					i := rapid.IntRange(0, len(pinned)-1).Draw(t, "i")
					p.Release(pinned[i])
					pinned = append(pinned[:i], pinned[i+1:]...)
				}
			},
			"release all": func(t *rapid.T) {
				for _, id := range pinned {
					p.Release(id)
				}
				pinned = nil
			},
			"prefetch": func(t *rapid.T) { p.Prefetch(drawID(t)) },
			"discard": func(t *rapid.T) {
				if id := drawID(t); !isPinned(id) {
					p.Discard(id)
					known[id] = false
				}
			},
			"flush": func(t *rapid.T) {
				if len(pinned) > 0 {
					return
				}
				if err := p.Flush(); err != nil {
					t.Fatal(err)
				}
				for id := range sizes {
					from := p.items[id].home
					check(t, id, home.bytes[from:from+int64(sizes[id])])
				}
			},
			"": func(t *rapid.T) {
				checkInvariants(t, p)
				if got := l.InUse(); got != want {
					t.Fatalf("ledger: got %v, want %v", got, want)
				}
			},
		})
		for _, id := range pinned {
			p.Release(id)
		}
		for id := range sizes {
			b, err := p.Get(id)
			if err != nil {
				t.Fatal(err)
			}
			check(t, id, b)
			p.Release(id)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if got := l.InUse(); got != (mem.Usage{}) {
			t.Fatalf("after Close: got %v booked", got)
		}
	})
}

// checkInvariants checks that items and slots name each other, free slots are the others, and what is needed is held somewhere.
func checkInvariants(t *rapid.T, p *Pool) {
	for id := range p.items {
		it := &p.items[id]
		if it.device >= 0 && p.device.slots[it.device].item != int32(id) || it.host >= 0 && p.host.slots[it.host].item != int32(id) {
			t.Fatalf("item %d: its slots are not its own: %+v", id, *it)
		}
		if it.stale && it.device < 0 && it.host < 0 {
			t.Fatalf("item %d: its latest content is nowhere", id)
		}
		if it.pins > 0 && it.device < 0 {
			t.Fatalf("item %d: pinned, but not in the device tier", id)
		}
	}
	for _, v := range []*level{p.device, p.host} {
		if v == nil {
			continue
		}
		free := 0
		for c, list := range v.free {
			free += len(list)
			for _, s := range list {
				if v.slots[s].item >= 0 || s < v.first[c] || s >= v.first[c+1] {
					t.Fatalf("slot %d of class %d is free and not: %+v", s, c, v.slots[s])
				}
			}
		}
		for s, slot := range v.slots {
			if slot.item < 0 {
				free--
				continue
			}
			it := &p.items[slot.item]
			if at := it.device; v == p.device && at != int32(s) {
				t.Fatalf("device slot %d names item %d, which is at %d", s, slot.item, at)
			}
			if at := it.host; v == p.host && at != int32(s) {
				t.Fatalf("host slot %d names item %d, which is at %d", s, slot.item, at)
			}
		}
		if free != 0 {
			t.Fatalf("%d slots are neither free nor held", -free)
		}
	}
}
