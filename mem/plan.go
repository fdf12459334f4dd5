package mem

import "fmt"

// Plan promises the peak of a job: that of the branch whose peak is the highest.
type Plan struct {
	Name     string   // the branch whose peak it is
	Peak     Usage    // the usage at that peak
	Branches []Branch // every branch of the job: step, evaluation, save, …
}

// Branch is one way that a job can go, and its peak.
type Branch struct {
	Name string
	Peak Usage
}

// NewPlan returns the plan whose peak is the highest memory total among branches; among equal ones, the first.
func NewPlan(branches ...Branch) *Plan {
	p := &Plan{Branches: branches}
	for i, b := range branches {
		if i == 0 || b.Peak.Memory() > p.Peak.Memory() {
			p.Name, p.Peak = b.Name, b.Peak
		}
	}
	return p
}

// Memory returns the promised peak over the memory tiers.
func (p *Plan) Memory() Bytes { return p.Peak.Memory() }

// Check compares the promise with u, a ledger's peak. Each purpose in each memory tier must be equal to the byte; if one is not, it
// returns a *BrokenPromiseError about the first.
func (p *Plan) Check(u Usage) error {
	for t := range u {
		if !Tier(t).Memory() {
			continue
		}
		for q := range u[t] {
			if promised, got := p.Peak[t][q], u[t][q]; promised != got {
				return &BrokenPromiseError{Plan: p.Name, Tier: Tier(t), Purpose: Purpose(q), Promised: promised, Got: got}
			}
		}
	}
	return nil
}

// BrokenPromiseError says that a plan's bytes and the ledger's differ.
type BrokenPromiseError struct {
	Plan     string // the branch whose peak was promised
	Tier     Tier
	Purpose  Purpose
	Promised Bytes
	Got      Bytes
}

// Error returns one line, with exact bytes, since the difference may be small.
func (e *BrokenPromiseError) Error() string {
	return fmt.Sprintf("mem: plan %q: promised %d bytes of %v on %v, got %d", e.Plan, int64(e.Promised), e.Purpose, e.Tier, int64(e.Got))
}
