package tier

import (
	"loadline/mem"
	"loadline/mem/arena"
)

// slot is a place for one item in a level.
type slot struct {
	item   int32  // the item that lies here; -1 if none
	ticket Ticket // the last job that touches the slot's memory
}

// level is one tier of memory, cut into slots. Class c has the slots first[c] up to first[c+1].
//
//	buf  | class 0: slot 0 | slot 1 | … | class 1: slot n | … |
type level struct {
	arena   *arena.Arena
	buf     []byte
	store   MemStore // buf, for copies between levels
	classes []Class
	first   []int32
	base    []int64   // offset in buf of each class's first slot
	slots   []slot    // Invariant: slots[s].item >= 0 in all slots not in free
	free    [][]int32 // slots of each class that hold nothing, next one last
}

// newLevel books and maps a level in tier t.
func newLevel(l *mem.Ledger, t mem.Tier, p mem.Purpose, classes []Class) (*level, error) {
	var parts [mem.NumPurposes]mem.Bytes
	parts[p] = arena.Round(SlotsBytes(classes))
	a, err := arena.New(l, t, parts)
	if err != nil {
		return nil, err
	}
	v := &level{arena: a, buf: a.Bytes(), classes: classes}
	v.store.bytes = v.buf
	base, first := int64(0), int32(0)
	for _, c := range classes {
		v.first, v.base = append(v.first, first), append(v.base, base)
		free := make([]int32, c.Slots) //mem:ok 4 bytes a slot, of which each holds a tensor or a block
		for i := range free {
			free[i] = first + int32(c.Slots-1-i)
			v.slots = append(v.slots, slot{item: -1})
		}
		v.free = append(v.free, free)
		first += int32(c.Slots)
		base += int64(c.Bytes) * int64(c.Slots)
	}
	v.first = append(v.first, first)
	return v, nil
}

// offset returns where slot s of class c starts in buf.
func (v *level) offset(c, s int32) int64 {
	return v.base[c] + int64(s-v.first[c])*int64(v.classes[c].Bytes)
}

// pop takes a free slot of class c for item id, or returns -1.
func (v *level) pop(c int32, id int) int32 {
	free := v.free[c]
	if len(free) == 0 {
		return -1
	}
	s := free[len(free)-1]
	v.free[c] = free[:len(free)-1]
	v.slots[s].item = int32(id)
	return s
}

// push gives slot s of class c back.
func (v *level) push(c, s int32) {
	v.slots[s].item = -1
	v.free[c] = append(v.free[c], s)
}

// occupants returns the slots of class c.
func (v *level) occupants(c int32) []slot { return v.slots[v.first[c]:v.first[c+1]] }
