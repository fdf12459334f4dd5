package ref

import (
	"fmt"

	"loadline/graph"
)

// offload does an Offload at once.
func offload[T real](c *call[T], o graph.Offload) error {
	copy(c.out[0].f[o.At:], c.in[0].f)
	if o.N == 0 {
		copy(c.out[0].i, c.in[0].i)
	}
	return c.begin()
}

// fetch does a Fetch at once.
func fetch[T real](c *call[T], o graph.Fetch) error {
	copy(c.out[0].f, c.in[0].f[o.At:])
	if o.N == 0 {
		copy(c.out[0].i, c.in[0].i)
	}
	return c.begin()
}

// begin notes that a copy has begun.
func (c *call[T]) begin() error {
	if c.s.tickets[c.instr.Ticket] {
		return fmt.Errorf("copy %d has begun already", c.instr.Ticket)
	}
	c.s.tickets[c.instr.Ticket] = true
	return nil
}

func wait[T real](c *call[T]) error {
	if !c.s.tickets[c.instr.Ticket] {
		return fmt.Errorf("copy %d has not begun", c.instr.Ticket)
	}
	delete(c.s.tickets, c.instr.Ticket)
	return nil
}
