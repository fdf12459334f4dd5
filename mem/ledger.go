// Package mem accounts for memory: how many bytes are held in which tier and for which purpose, what may be held at most, and what
// was promised.
//
// A Plan is the promise, made before anything runs. A Ledger is the fact: who needs bytes reserves them first and is refused where
// a limit would be passed. Plan.Check compares the two to the byte.
//
// Invariants of a Ledger, after every call: what is in use equals the sum over the reservations not yet released, for each tier and
// purpose; it is within the limits; the peak is the first usage in history with the highest memory total.
//
// The package allocates none of what it accounts for, and uses no clock, files, goroutines or randomness. Package mem/arena turns a
// reservation into a buffer.
package mem

import (
	"fmt"
	"math"
	"sync"
)

// Ledger books reservations against limits. It is safe for concurrent use.
type Ledger struct {
	limits Limits

	mu       sync.Mutex
	inUse    Usage
	tier     [NumTiers]Bytes // Invariant: tier[t] == inUse.Total(t)
	peak     Usage           // Invariant: peak.Memory() >= inUse.Memory()
	peakTier [NumTiers]Bytes // Invariant: peakTier[t] >= tier[t]
}

// NewLedger returns an empty ledger bounded by l.
func NewLedger(l Limits) *Ledger {
	if l.Memory < 0 {
		panic(fmt.Sprintf("mem: negative memory limit %d", l.Memory))
	}
	for t, n := range l.Tier {
		if n < 0 {
			panic(fmt.Sprintf("mem: negative limit %d on %v", n, Tier(t)))
		}
	}
	return &Ledger{limits: l}
}

// Reserve books n bytes in tier t under purpose p, or returns an *OverBudgetError and books nothing. It panics if n is negative.
func (l *Ledger) Reserve(t Tier, p Purpose, n Bytes) (*Reservation, error) {
	var parts [NumPurposes]Bytes
	parts[p] = n
	return l.reserve(t, p, parts)
}

// ReserveSplit books one reservation in tier t whose bytes lie under several purposes; all of it or nothing. Its error and panics
// are those of Reserve.
func (l *Ledger) ReserveSplit(t Tier, parts [NumPurposes]Bytes) (*Reservation, error) {
	largest := Purpose(0)
	for p, n := range parts {
		if n > parts[largest] {
			largest = Purpose(p)
		}
	}
	return l.reserve(t, largest, parts)
}

func (l *Ledger) reserve(t Tier, largest Purpose, parts [NumPurposes]Bytes) (*Reservation, error) {
	var n Bytes
	for p, part := range parts {
		if part < 0 {
			panic(fmt.Sprintf("mem: Reserve of negative %d bytes for %v", part, Purpose(p)))
		}
		if n > math.MaxInt64-part {
			panic("mem: Reserve of more bytes than an int64 holds")
		}
		n += part
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.Memory() {
		if err := l.check(memoryBound, l.tier[Device]+l.tier[Host], l.limits.Memory, t, largest, n); err != nil {
			return nil, err
		}
	}
	if err := l.check(t.String(), l.tier[t], l.limits.Tier[t], t, largest, n); err != nil {
		return nil, err
	}
	for p, part := range parts {
		l.inUse[t][p] += part
	}
	l.tier[t] += n
	l.peakTier[t] = max(l.peakTier[t], l.tier[t])
	if t.Memory() && l.tier[Device]+l.tier[Host] > l.peak.Memory() {
		l.peak = l.inUse
	}
	return &Reservation{ledger: l, tier: t, purpose: largest, parts: parts, bytes: n}, nil
}

// check returns an *OverBudgetError if n more bytes would pass limit. l.mu is held.
func (l *Ledger) check(bound string, inUse, limit Bytes, t Tier, p Purpose, n Bytes) error {
	if limit == 0 {
		limit = math.MaxInt64 // so that sums never wrap
	}
	if n <= limit-inUse {
		return nil
	}
	var held Usage
	for tier := range l.inUse {
		if Tier(tier) == t || bound == memoryBound && Tier(tier).Memory() {
			held[tier] = l.inUse[tier]
		}
	}
	largest := held.Lines()
	return &OverBudgetError{Tier: t, Purpose: p, Want: n, InUse: inUse, Limit: limit, Bound: bound, Largest: largest[:min(3, len(largest))]}
}

// InUse returns what is booked now.
func (l *Ledger) InUse() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inUse
}

// Peak returns the usage at the moment when the memory total was highest; among equal ones, the first. Bytes in other tiers are as
// they were at that moment.
func (l *Ledger) Peak() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peak
}

// PeakMemory returns the highest memory total so far.
func (l *Ledger) PeakMemory() Bytes {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peak.Memory()
}

// PeakTier returns the most that tier t has held so far, which need not have been at the moment of Peak.
func (l *Ledger) PeakTier(t Tier) Bytes {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peakTier[t]
}

// Limits returns the limits that the ledger was made with.
func (l *Ledger) Limits() Limits { return l.limits }

// Reservation is bytes booked in a ledger until Release.
type Reservation struct {
	ledger   *Ledger
	tier     Tier
	purpose  Purpose
	parts    [NumPurposes]Bytes
	bytes    Bytes // Invariant: the sum of parts
	released bool  // guarded by ledger.mu
}

// Release takes the bytes off the ledger. It panics when called twice.
func (r *Reservation) Release() {
	l := r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.released {
		panic("mem: double Release of a reservation for " + r.purpose.String())
	}
	r.released = true
	for p, n := range r.parts {
		l.inUse[r.tier][p] -= n
	}
	l.tier[r.tier] -= r.bytes
}

// Bytes returns how many bytes are booked, over all purposes.
func (r *Reservation) Bytes() Bytes { return r.bytes }

// Tier returns where they are booked.
func (r *Reservation) Tier() Tier { return r.tier }

// Purpose returns the purpose that has the most of them; among equal ones, the first.
func (r *Reservation) Purpose() Purpose { return r.purpose }

// OverBudgetError says that a reservation would have passed a limit.
type OverBudgetError struct {
	Tier    Tier    // where the bytes were wanted
	Purpose Purpose // for what, or for what mostly
	Want    Bytes   // the bytes asked for
	InUse   Bytes   // what already counts against the limit
	Limit   Bytes   // the limit that would have been passed
	Bound   string  // which limit that is: "memory" or a tier's name
	Largest []Line  // the largest holders under that limit, at most three, largest first
}

// Error returns one line.
func (e *OverBudgetError) Error() string {
	text := fmt.Sprintf("mem: %v on %v: want %v, but %v of the %s limit of %v is in use", e.Purpose, e.Tier, e.Want, e.InUse, e.Bound, e.Limit)
	if len(e.Largest) > 0 {
		text += "; largest: " + joinLines(e.Largest)
	}
	return text
}
