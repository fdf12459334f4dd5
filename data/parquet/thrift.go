package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of Thrift's compact protocol.
const (
	thriftStop   = 0
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

// maxDepth is how deep structures may nest: those of a file's footer reach 6.
const maxDepth = 32

// maxName is the longest name of a column that is kept.
const maxName = 1 << 10

var errThrift = errors.New("its description is damaged")

// thrift reads structures of the compact protocol one field at a time and keeps nothing. The first error stays, and everything after
// it reads as zero, so callers ask once; loops ask ok.
type thrift struct {
	r   *bufio.Reader
	n   int64 // bytes read
	err error
}

func (t *thrift) ok() bool { return t.err == nil }

func (t *thrift) fail(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if t.err == nil {
		t.err = err
	}
}

func (t *thrift) byte() byte {
	if t.err != nil {
		return 0
	}
	b, err := t.r.ReadByte()
	if err != nil {
		t.fail(err)
		return 0
	}
	t.n++
	return b
}

// uvarint reads a number of at most 64 bits.
func (t *thrift) uvarint() uint64 {
	x := uint64(0)
	for shift := 0; shift < 70; shift += 7 {
		b := t.byte()
		if shift == 63 && b > 1 {
			break
		}
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x
		}
	}
	t.fail(errThrift)
	return 0
}

// int reads a signed number.
func (t *thrift) int() int64 {
	x := t.uvarint()
	return int64(x>>1) ^ -int64(x&1)
}

// discard passes over n bytes.
func (t *thrift) discard(n uint64) {
	for n > 0 && t.ok() {
		d, err := t.r.Discard(int(min(n, 1<<30)))
		t.n += int64(d)
		n -= uint64(d)
		if err != nil {
			t.fail(err)
		}
	}
}

// text reads a string of which at most maxName bytes are of interest; a longer one is cut.
func (t *thrift) text() string {
	n := t.uvarint()
	p := make([]byte, min(n, maxName)) //mem:ok 1 KiB at most
	for i := range p {
		p[i] = t.byte()
	}
	t.discard(n - uint64(len(p)))
	return string(p)
}

// structure calls f for each field of a structure with its number and type. f reads the value, or returns false to have it passed over.
func (t *thrift) structure(f func(id int, kind byte) bool) {
	id := 0
	for t.ok() {
		b := t.byte()
		kind := b & 15
		if kind == thriftStop {
			return
		}
		if step := int(b >> 4); step != 0 {
			id += step
		} else {
			id = int(int16(t.int()))
		}
		if t.ok() && !f(id, kind) {
			t.skip(kind, 0)
		}
	}
}

// list reads the head of a list and calls f for each element. f is not called for elements of another type than want: that is an error.
func (t *thrift) list(want byte, f func(i int)) {
	kind, n := t.listHead()
	if t.ok() && n > 0 && kind != want {
		t.fail(errThrift)
	}
	for i := 0; uint64(i) < n && t.ok(); i++ {
		f(i)
	}
}

func (t *thrift) listHead() (kind byte, n uint64) {
	b := t.byte()
	if n = uint64(b >> 4); n == 15 {
		n = t.uvarint()
	}
	return b & 15, n
}

// skip passes over a value.
func (t *thrift) skip(kind byte, depth int) {
	if depth > maxDepth {
		t.fail(errThrift)
		return
	}
	switch kind {
	case thriftTrue, thriftFalse: // the type is the value
	case thriftByte:
		t.byte()
	case thriftI16, thriftI32, thriftI64:
		t.uvarint()
	case thriftDouble:
		t.discard(8)
	case thriftUUID:
		t.discard(16)
	case thriftBinary:
		t.discard(t.uvarint())
	case thriftList, thriftSet:
		kind, n := t.listHead()
		for ; n > 0 && t.ok(); n-- {
			t.element(kind, depth)
		}
	case thriftMap:
		n := t.uvarint()
		if n == 0 {
			return
		}
		kinds := t.byte()
		for ; n > 0 && t.ok(); n-- {
			t.element(kinds>>4, depth)
			t.element(kinds&15, depth)
		}
	case thriftStruct:
		for t.ok() {
			b := t.byte()
			if b&15 == thriftStop {
				return
			}
			if b>>4 == 0 {
				t.int()
			}
			t.skip(b&15, depth+1)
		}
	default:
		t.fail(errThrift)
	}
}

// element passes over an element of a list, where a truth value takes a byte.
func (t *thrift) element(kind byte, depth int) {
	if kind == thriftTrue || kind == thriftFalse {
		t.byte()
		return
	}
	t.skip(kind, depth+1)
}

// uint32At reads a little-endian number.
func uint32At(r io.Reader) (uint32, error) {
	var p [4]byte
	if _, err := io.ReadFull(r, p[:]); err != nil {
		return 0, fmt.Errorf("%w where a length is wanted", cut(err))
	}
	return binary.LittleEndian.Uint32(p[:]), nil
}

// cut is err, unless that says that there is nothing more: something more was wanted.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
