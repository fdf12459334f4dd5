package cpu

func bindCopy(b *binder) step {
	j, err := b.s.mem.Copy(b.x.Program, b.in)
	if err != nil {
		b.err = err
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
