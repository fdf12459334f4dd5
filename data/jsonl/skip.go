package jsonl

import (
	"errors"
	"fmt"
	"io"
)

// skip passes over the value that begins with b.
func (j *Reader) skip(b byte) error {
	j.stack = j.stack[:0]
	for {
		switch b {
		case '{', '[':
			if len(j.stack) == maxDepth {
				return fmt.Errorf("arrays and objects nest deeper than %d", maxDepth)
			}
			j.stack = append(j.stack, b)
			next, err := j.token()
			if err != nil {
				return err
			}
			if next == b+2 { // both closing brackets are two behind
				j.stack = j.stack[:len(j.stack)-1]
				break // out of the switch: it is a whole value
			}
			if b == '{' {
				if next, err = j.member(next); err != nil {
					return err
				}
			}
			b = next
			continue
		default:
			if err := j.scalar(b); err != nil {
				return err
			}
		}
		for { // a value has ended: what follows it?
			if len(j.stack) == 0 {
				return nil
			}
			in := j.stack[len(j.stack)-1]
			next, err := j.token()
			if err != nil {
				return err
			}
			if next == in+2 {
				j.stack = j.stack[:len(j.stack)-1]
				continue
			}
			if next != ',' {
				return fmt.Errorf("want a comma or a closing bracket behind a value, got %q", next)
			}
			if b, err = j.token(); err != nil {
				return err
			}
			if in == '{' {
				if b, err = j.member(b); err != nil {
					return err
				}
			}
			break
		}
	}
}

// member passes over a name that begins with b and its colon, and returns the first byte of its value.
func (j *Reader) member(b byte) (byte, error) {
	if b != '"' {
		return 0, fmt.Errorf("want the name of a field, got %q", b)
	}
	if err := j.skipText(); err != nil {
		return 0, err
	}
	b, err := j.token()
	if err != nil {
		return 0, err
	}
	if b != ':' {
		return 0, fmt.Errorf("want a colon behind the name of a field, got %q", b)
	}
	return j.token()
}

// skipText passes over a string, behind its opening quote.
func (j *Reader) skipText() error {
	for {
		if _, err := j.text(bufferBytes); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// scalar passes over a value that is neither array nor object.
func (j *Reader) scalar(b byte) error {
	switch b {
	case '"':
		return j.skipText()
	case 't':
		return j.word("rue")
	case 'f':
		return j.word("alse")
	case 'n':
		return j.word("ull")
	}
	return j.number(b)
}

// word wants the rest of a word.
func (j *Reader) word(rest string) error {
	for i := range len(rest) {
		if b, err := j.byte(); err != nil {
			return err
		} else if b != rest[i] {
			return fmt.Errorf("want true, false or null, got %q in it", b)
		}
	}
	return nil
}

// number passes over a number that begins with b: -? (0 | [1-9][0-9]*) (.[0-9]+)? ([eE][+-]?[0-9]+)?
func (j *Reader) number(b byte) error {
	digit := func(b byte) bool { return '0' <= b && b <= '9' }
	// peek is the next byte, or 0 at an end, which never belongs to a number.
	peek := func() (byte, error) {
		p, err := j.r.Peek(1)
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return p[0], nil
	}
	// digits passes over all digits that come, some if they must, and returns what follows them.
	digits := func(some bool) (byte, error) {
		for {
			b, err := peek()
			if err != nil {
				return 0, err
			}
			if !digit(b) {
				if some {
					return 0, fmt.Errorf("want a digit in a number, got %q", b)
				}
				return b, nil
			}
			some = false
			j.r.Discard(1) // it is there
		}
	}
	var err error
	if b == '-' {
		if b, err = j.byte(); err != nil {
			return err
		}
	}
	if !digit(b) {
		return fmt.Errorf("want a value, got %q", b)
	}
	if b == '0' {
		b, err = peek()
	} else {
		b, err = digits(false)
	}
	if err == nil && b == '.' {
		j.r.Discard(1)
		b, err = digits(true)
	}
	if err == nil && (b == 'e' || b == 'E') {
		j.r.Discard(1)
		if b, err = peek(); err == nil && (b == '+' || b == '-') {
			j.r.Discard(1)
		}
		if err == nil {
			_, err = digits(true)
		}
	}
	return err
}
