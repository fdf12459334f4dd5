package cpu

import "loadline/graph"

func bindCopy(b *binder) step {
	j, err := b.s.mem.Copy(b.x.Program, b.in)
	if err != nil {
		b.err = err
		return nothing
	}
	if _, ok := b.in.Op.(graph.Fetch); ok && streams(b.x.Program, b.in) && b.isPacked(b.in.Out[0]) {
		j.Parts = &packing{from: j.Store, off: j.Off, w: b.weight(b.in.Out[0]), stages: b.s.stages}
	}
	x, at := b.x, b.in.Ticket
	return stepFunc(func(s *Session) error {
		x.tickets[at] = s.mem.Start(j)
		return nil
	})
}

func bindWait(b *binder) step {
	x, at := b.x, b.in.Ticket
	return stepFunc(func(s *Session) error { return s.mem.Wait(x.tickets[at]) })
}
