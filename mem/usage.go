package mem

import (
	"fmt"
	"slices"
	"strings"
)

// Usage is an amount of bytes for each tier and purpose. The zero value is empty; it is copied by assignment and compared by ==.
type Usage [NumTiers][NumPurposes]Bytes

// Line is one entry of a Usage.
type Line struct {
	Tier    Tier
	Purpose Purpose
	Bytes   Bytes
}

// String returns the line as "activations 50 MiB", with the tier where it is not the device.
func (l Line) String() string {
	if l.Tier == Device {
		return fmt.Sprintf("%v %v", l.Purpose, l.Bytes)
	}
	return fmt.Sprintf("%v on %v %v", l.Purpose, l.Tier, l.Bytes)
}

// Add adds n, which may be negative, to one entry.
func (u *Usage) Add(t Tier, p Purpose, n Bytes) { u[t][p] += n }

// Plus returns the sum of u and o, entry by entry.
func (u Usage) Plus(o Usage) Usage {
	for t := range o {
		for p := range o[t] {
			u[t][p] += o[t][p]
		}
	}
	return u
}

// Total returns the bytes in tier t.
func (u Usage) Total(t Tier) Bytes {
	var sum Bytes
	for _, n := range u[t] {
		sum += n
	}
	return sum
}

// Memory returns the bytes in the tiers that are memory of this process.
func (u Usage) Memory() Bytes { return u.Total(Device) + u.Total(Host) }

// All returns the bytes in every tier.
func (u Usage) All() Bytes {
	var sum Bytes
	for t := range u {
		sum += u.Total(Tier(t))
	}
	return sum
}

// ByPurpose returns the bytes in the memory tiers for each purpose. They sum to Memory.
func (u Usage) ByPurpose() [NumPurposes]Bytes {
	by := u[Device]
	for p, n := range u[Host] {
		by[p] += n
	}
	return by
}

// Lines returns the entries that are not zero, largest first; equal ones in order of tier, then purpose.
func (u Usage) Lines() []Line {
	var lines []Line
	for t := range u {
		for p, n := range u[t] {
			if n != 0 {
				lines = append(lines, Line{Tier(t), Purpose(p), n})
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b Line) int {
		switch {
		case a.Bytes > b.Bytes:
			return -1
		case a.Bytes < b.Bytes:
			return 1
		}
		return 0
	})
	return lines
}

// String returns the lines on one line, largest first: "weights 90 MiB, grads on host 4 MiB".
func (u Usage) String() string {
	lines := u.Lines()
	if len(lines) == 0 {
		return "nothing"
	}
	return joinLines(lines)
}

func joinLines(lines []Line) string {
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.String()
	}
	return strings.Join(texts, ", ")
}

// Limits bounds a Usage. The zero value bounds nothing.
type Limits struct {
	Memory Bytes           // bound on the sum over the memory tiers; 0 is no bound
	Tier   [NumTiers]Bytes // bound on each tier; 0 is no bound
}

// Allows reports whether u is within the limits, and if not, which bound it breaks: "memory" or a tier's name.
func (l Limits) Allows(u Usage) (ok bool, which string) {
	if l.Memory > 0 && u.Memory() > l.Memory {
		return false, memoryBound
	}
	for t, limit := range l.Tier {
		if limit > 0 && u.Total(Tier(t)) > limit {
			return false, Tier(t).String()
		}
	}
	return true, ""
}

// memoryBound is what errors call the bound on the sum over the memory tiers.
const memoryBound = "memory"
