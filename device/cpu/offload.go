package cpu

import (
	"loadline/compile"
	"loadline/graph"
	"loadline/mem"
	"loadline/mem/tier"
)

func bindCopy(b *binder) step {
	j, err := b.s.mem.Copy(b.x.Program, b.in)
	if err != nil {
		b.err = err
		return nothing
	}
	_, out := b.in.Op.(graph.Offload)
	switch {
	case !out && streams(b.x.Program, b.in) && b.isPacked(b.in.Out[0]):
		j.Parts = &packing{from: j.Store, off: j.Off, w: b.weight(b.in.Out[0]), stages: b.s.stages}
	case out && b.isOwn(b.in.Out[0]), !out && b.isOwn(b.in.In[0]):
		j = tier.Parted(j)
	}
	x, at := b.x, b.in.Ticket
	return stepFunc(func(s *Session) error {
		x.tickets[at] = s.mem.Start(j)
		return nil
	})
}

// isOwn tells whether o is a State of the memory's own lower tier, whose parts may be copied in any order: weights may be another's, read from its
// beginning to its end.
func (b *binder) isOwn(o compile.Operand) bool {
	x := &b.x.Buffers[o.Buffer]
	return x.Persistent() && x.Purpose != mem.Weights
}

func bindWait(b *binder) step {
	x, at := b.x, b.in.Ticket
	return stepFunc(func(s *Session) error { return s.mem.Wait(x.tickets[at]) })
}
