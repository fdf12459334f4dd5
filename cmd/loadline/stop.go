package main

import "bytes"

// cutter passes a text on up to the first stop text. It holds back what may be the beginning of one.
type cutter struct {
	stops   []string
	held    []byte
	stopped bool
}

// add takes more text and returns what may be shown now; the slice is valid until the next call. stopped says that a stop text has
// come: what was before it has been returned, and there is no more.
func (c *cutter) add(text []byte) (show []byte, stopped bool) {
	if c.stopped {
		return nil, true
	}
	c.held = append(c.held, text...)
	end := -1
	for _, s := range c.stops {
		if i := bytes.Index(c.held, []byte(s)); i >= 0 && (end < 0 || i < end) {
			end = i
		}
	}
	if end >= 0 {
		c.stopped = true
		return c.held[:end], true
	}
	keep := 0
	for _, s := range c.stops {
		for n := min(len(s)-1, len(c.held)); n > keep; n-- {
			if bytes.HasSuffix(c.held, []byte(s[:n])) {
				keep = n
			}
		}
	}
	n := len(c.held) - keep
	show = bytes.Clone(c.held[:n])
	c.held = append(c.held[:0], c.held[n:]...)
	return show, false
}

// rest returns what is held back at the end of the text.
func (c *cutter) rest() []byte { return c.held }
