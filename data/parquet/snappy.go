package parquet

import (
	"bufio"
	"errors"
	"io"
)

// snappyWindow is how far back a copy may reach. Encoders compress blocks of 64 KiB by themselves.
const snappyWindow = 64 << 10

var errSnappy = errors.New("its snappy data is damaged")

// snappy decompresses snappy's raw format as it is read.
type snappy struct {
	r       *bufio.Reader
	left    uint64             // bytes still to be produced
	literal int                // bytes of the present literal that are still to be taken
	copies  int                // bytes of the present copy that are still to be made
	offset  int                // of that copy
	window  [snappyWindow]byte // the last bytes produced, a ring
	at      int                // where the next byte goes
	full    bool               // the ring has been filled once
}

// reset begins a stream.
func (s *snappy) reset(r *bufio.Reader) error {
	s.r, s.literal, s.copies, s.at, s.full = r, 0, 0, 0, false
	s.left = 0
	for shift := 0; shift < 35; shift += 7 {
		b, err := r.ReadByte()
		if err != nil {
			return cut(err)
		}
		s.left |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return nil
		}
	}
	return errSnappy
}

// Read implements io.Reader.
func (s *snappy) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if s.left == 0 {
			if n > 0 {
				return n, nil
			}
			return 0, io.EOF
		}
		if s.literal == 0 && s.copies == 0 {
			if err := s.tag(); err != nil {
				return n, err
			}
		}
		var d int
		if s.literal > 0 {
			var err error
			if d, err = s.r.Read(p[n : n+min(s.literal, len(p)-n, snappyWindow)]); err != nil {
				return n, cut(err)
			}
			s.keep(p[n : n+d])
			s.literal -= d
		} else {
			d = min(s.copies, len(p)-n)
			for i := range d {
				b := s.window[(s.at-s.offset)&(snappyWindow-1)]
				p[n+i], s.window[s.at] = b, b
				if s.at++; s.at == snappyWindow {
					s.at, s.full = 0, true
				}
			}
			s.copies -= d
		}
		n += d
		s.left -= uint64(d)
	}
	return n, nil
}

// keep puts bytes into the window.
func (s *snappy) keep(p []byte) {
	for len(p) > 0 {
		d := copy(s.window[s.at:], p)
		p = p[d:]
		if s.at += d; s.at == snappyWindow {
			s.at, s.full = 0, true
		}
	}
}

// tag reads what comes next.
func (s *snappy) tag() error {
	b, err := s.r.ReadByte()
	if err != nil {
		return cut(err)
	}
	more := [4]int{0, 1, 2, 4}[b&3]
	n := int(b >> 2)
	if b&3 == 0 && n >= 60 {
		more = n - 59
	}
	x := uint32(0)
	for i := range more {
		c, err := s.r.ReadByte()
		if err != nil {
			return cut(err)
		}
		x |= uint32(c) << (8 * i)
	}
	length := uint64(n) + 1
	switch b & 3 {
	case 0:
		if n >= 60 {
			length = uint64(x) + 1
		}
		s.literal = int(length)
	case 1:
		length = uint64(n&7) + 4
		s.copies, s.offset = int(length), n>>3<<8|int(x)
	default:
		s.copies = int(length)
		if x > snappyWindow {
			return errSnappy
		}
		s.offset = int(x)
	}
	if length > s.left || s.copies > 0 && (s.offset == 0 || s.offset > s.at && !s.full) {
		return errSnappy
	}
	return nil
}
