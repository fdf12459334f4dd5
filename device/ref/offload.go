package ref

import "fmt"

// startCopy does an Offload or a Fetch at once.
func startCopy[T real](c *call[T]) error {
	if c.s.tickets[c.instr.Ticket] {
		return fmt.Errorf("copy %d has begun already", c.instr.Ticket)
	}
	c.s.tickets[c.instr.Ticket] = true
	copy(c.out[0].f, c.in[0].f)
	copy(c.out[0].i, c.in[0].i)
	return nil
}

func wait[T real](c *call[T]) error {
	if !c.s.tickets[c.instr.Ticket] {
		return fmt.Errorf("copy %d has not begun", c.instr.Ticket)
	}
	delete(c.s.tickets, c.instr.Ticket)
	return nil
}
