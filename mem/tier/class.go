package tier

import (
	"cmp"
	"fmt"
	"slices"

	"loadline/mem"
)

// slotAlign is the alignment of items in slots and, where the pool packs them, in their home: a cache line.
const slotAlign = 64

// Class is the items of one size, and the slots that they share in one tier. Slots of a class are equal, so any free one fits any of
// its items and space never fragments.
type Class struct {
	Bytes mem.Bytes // of a slot: the items' size rounded up to slotAlign
	Items int
	Slots int // Invariant: at most Items
}

// Classes divides capacity among the sizes, ascending: least slots for each if there are as many items, then one at a time to the
// class that has the smallest share of its items in slots, the largest size first. It depends on its arguments alone, so a plan can
// call it.
func Classes(sizes []mem.Bytes, capacity mem.Bytes, least int) ([]Class, error) {
	items := map[mem.Bytes]int{}
	for _, n := range sizes {
		items[slotBytes(n)]++
	}
	classes := make([]Class, 0, len(items))
	for n, count := range items {
		classes = append(classes, Class{Bytes: n, Items: count, Slots: min(least, count)})
	}
	slices.SortFunc(classes, func(a, b Class) int { return cmp.Compare(a.Bytes, b.Bytes) })
	used := SlotsBytes(classes)
	if used > capacity {
		return nil, fmt.Errorf("tier: %d items of %d sizes: want at least %v to hold %d of each, capacity is %v", len(sizes), len(classes), used, least, capacity)
	}
	for {
		best := -1
		for i, c := range classes {
			if c.Slots == c.Items || c.Bytes > capacity-used {
				continue
			}
			if best < 0 || c.Slots*classes[best].Items <= classes[best].Slots*c.Items {
				best = i
			}
		}
		if best < 0 {
			return classes, nil
		}
		classes[best].Slots++
		used += classes[best].Bytes
	}
}

// SlotsBytes returns the sum of all slots.
func SlotsBytes(classes []Class) mem.Bytes {
	var sum mem.Bytes
	for _, c := range classes {
		sum += c.Bytes * mem.Bytes(c.Slots)
	}
	return sum
}

// PackedBytes returns what a home must hold if the pool packs items of these sizes into it.
func PackedBytes(sizes []mem.Bytes) mem.Bytes {
	var sum mem.Bytes
	for _, n := range sizes {
		sum += slotBytes(n)
	}
	return sum
}

func slotBytes(n mem.Bytes) mem.Bytes { return (n + slotAlign - 1) / slotAlign * slotAlign }
