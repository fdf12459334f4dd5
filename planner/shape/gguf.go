package shape

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// GGUF is what the header of a GGUF file says.
type GGUF struct {
	Shape *Shape
	// Bytes and Elems are of the tensors that the header lists; of a file in parts, of this part.
	Bytes, Elems int64
	// LinearBits and OtherBits are the bits of a weight of the layers, and of the embedding and the head.
	LinearBits, OtherBits float64
	// Parts is how many files the model is in.
	Parts int
}

// Bounds of a header. Vocabularies are the largest thing in one.
const (
	maxGGUFHeader  = 512 << 20
	maxGGUFKeys    = 1 << 16
	maxGGUFTensors = 1 << 20
	maxGGUFString  = 1 << 24
	maxGGUFList    = 1 << 13 // of numbers that are kept: one a layer
)

// ggmlTypes are elements and bytes of a block, by GGUF's type numbers (ggml.h, ggml-common.h).
var ggmlTypes = map[uint32][2]int64{
	0: {1, 4}, 1: {1, 2}, 2: {32, 18}, 3: {32, 20}, 6: {32, 22}, 7: {32, 24}, 8: {32, 34}, 9: {32, 36}, 10: {256, 84}, 11: {256, 110}, 12: {256, 144}, 13: {256, 176}, 14: {256, 210},
	15: {256, 292}, 16: {256, 66}, 17: {256, 74}, 18: {256, 98}, 19: {256, 50}, 20: {32, 18}, 21: {256, 110}, 22: {256, 82}, 23: {256, 136}, 24: {1, 1}, 25: {1, 2}, 26: {1, 4},
	27: {1, 8}, 28: {1, 8}, 29: {256, 56}, 30: {1, 2}, 34: {256, 54}, 35: {256, 66}, 39: {32, 17}, 40: {64, 36},
}

// ggufReader reads little-endian values and remembers the first error.
type ggufReader struct {
	r   *bufio.Reader
	buf [8]byte
	err error
}

func (g *ggufReader) uint(n int) uint64 {
	if g.err != nil {
		return 0
	}
	clear(g.buf[:])
	b, err := g.r.Peek(n)
	if err == nil {
		copy(g.buf[:], b)
		_, err = g.r.Discard(n)
	}
	if err != nil {
		g.err = fmt.Errorf("shape: gguf: the header ends early: %w", err)
	}
	return binary.LittleEndian.Uint64(g.buf[:])
}

func (g *ggufReader) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf("shape: gguf: "+format, args...)
	}
}

// text reads a string, or skips one that is long: names and architectures are short.
func (g *ggufReader) text() string {
	n := g.uint(8)
	if n > maxGGUFString {
		g.fail("a string of %d bytes, want at most %d", n, maxGGUFString)
	}
	if g.err != nil {
		return ""
	}
	if n > 1024 {
		g.skip(n)
		return ""
	}
	b, err := g.r.Peek(int(n))
	if err != nil {
		g.fail("the header ends early: %v", err)
		return ""
	}
	s := string(b)
	g.skip(n)
	return s
}

// skipTexts passes over n strings.
func (g *ggufReader) skipTexts(n uint64) {
	for i := uint64(0); i < n && g.err == nil; i++ {
		length := g.uint(8)
		if length > maxGGUFString {
			g.fail("a string of %d bytes, want at most %d", length, maxGGUFString)
		}
		g.skip(length)
	}
}

func (g *ggufReader) skip(n uint64) {
	if g.err != nil {
		return
	}
	if _, err := g.r.Discard(int(n)); err != nil {
		g.fail("the header ends early: %v", err)
	}
}

// widths of GGUF's scalar value types; 8 is a string and 9 an array.
var ggufWidths = map[uint32]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

// scalar reads a number or truth value as JSON has them.
func (g *ggufReader) scalar(kind uint32) any {
	x := g.uint(ggufWidths[kind])
	switch kind {
	case 1:
		return float64(int8(x))
	case 3:
		return float64(int16(x))
	case 5:
		return float64(int32(x))
	case 6:
		return float64(math.Float32frombits(uint32(x)))
	case 7:
		return x != 0
	case 11:
		return float64(int64(x))
	case 12:
		return math.Float64frombits(x)
	}
	return float64(x)
}

// value reads one value. Of a long array only the length is kept.
func (g *ggufReader) value(kind uint32, depth int) any {
	switch {
	case kind == 8:
		return g.text()
	case kind != 9 && ggufWidths[kind] == 0:
		g.fail("value type %d is not known", kind)
		return nil
	case kind != 9:
		return g.scalar(kind)
	case depth > 2:
		g.fail("arrays nested deeper than 2")
		return nil
	}
	of, n := uint32(g.uint(4)), g.uint(8)
	if n > maxGGUFHeader {
		g.fail("an array of %d values", n)
	}
	if w := ggufWidths[of]; w > 0 && n > maxGGUFList {
		g.skip(n * uint64(w))
		return listLength(n)
	}
	if of == 8 {
		g.skipTexts(n)
		return listLength(n)
	}
	var list []any
	for i := uint64(0); i < n && g.err == nil; i++ {
		v := g.value(of, depth+1)
		if i < maxGGUFList {
			list = append(list, v)
		}
	}
	if n > maxGGUFList {
		return listLength(n)
	}
	return list
}

// listLength stands for an array that was not kept.
type listLength uint64

// ReadGGUF reads the header of a GGUF file, version 2 or 3, and no further.
func ReadGGUF(name string, r io.Reader) (*GGUF, error) {
	g := &ggufReader{r: bufio.NewReaderSize(io.LimitReader(r, maxGGUFHeader), 1<<16)}
	if magic := g.uint(4); g.err == nil && magic != 0x46554747 {
		return nil, fmt.Errorf("shape: %s: not a GGUF file: it begins %08x", name, magic)
	}
	if v := g.uint(4); g.err == nil && v != 2 && v != 3 {
		return nil, fmt.Errorf("shape: %s: GGUF version %d, want 2 or 3", name, v)
	}
	tensors, keys := g.uint(8), g.uint(8)
	if tensors > maxGGUFTensors || keys > maxGGUFKeys {
		return nil, fmt.Errorf("shape: %s: %d tensors and %d keys, want at most %d and %d", name, tensors, keys, maxGGUFTensors, maxGGUFKeys)
	}
	meta := map[string]any{}
	for i := uint64(0); i < keys && g.err == nil; i++ {
		key := g.text()
		meta[key] = g.value(uint32(g.uint(4)), 0)
	}
	out := &GGUF{Parts: 1}
	list := ggufTensors{}
	for i := uint64(0); i < tensors && g.err == nil; i++ {
		list.read(g)
	}
	if g.err != nil {
		return nil, fmt.Errorf("%w, in %s", g.err, name)
	}
	s, err := ggufShape(name, meta, &list)
	if err != nil {
		return nil, err
	}
	out.Shape, out.Bytes, out.Elems = s, list.linearBytes+list.otherBytes, list.linear+list.other
	if list.linear > 0 {
		out.LinearBits = 8 * float64(list.linearBytes) / float64(list.linear)
	}
	if list.other > 0 {
		out.OtherBits = 8 * float64(list.otherBytes) / float64(list.other)
	}
	if n, ok := meta["split.count"].(float64); ok && n > 1 && n < 1e5 {
		out.Parts = int(n)
	}
	return out, nil
}

// ggufTensors is what the list of tensors says.
type ggufTensors struct {
	linear, linearBytes, other, otherBytes int64
	names                                  map[string]bool // of the first layer and outside layers
}

func (t *ggufTensors) read(g *ggufReader) {
	name, dims := g.text(), g.uint(4)
	if dims > 4 {
		g.fail("tensor %q has %d dims", name, dims)
		return
	}
	n := int64(1)
	for range dims {
		d := g.uint(8)
		if d > 1<<40 || d > 0 && n > math.MaxInt64/64/int64(max(1, d)) {
			g.fail("tensor %q is too large", name)
			return
		}
		n *= int64(d)
	}
	kind := uint32(g.uint(4))
	g.uint(8) // offset
	block, ok := ggmlTypes[kind]
	if g.err == nil && !ok {
		g.fail("tensor %q is of type %d, which is not known", name, kind)
	}
	if g.err != nil {
		return
	}
	bytes := n / block[0] * block[1]
	if t.names == nil {
		t.names = map[string]bool{}
	}
	if strings.HasPrefix(name, "blk.") {
		t.linear, t.linearBytes = t.linear+n, t.linearBytes+bytes
		if strings.HasPrefix(name, "blk.0.") {
			t.names[name] = true
		}
	} else {
		t.other, t.otherBytes = t.other+n, t.otherBytes+bytes
		if len(t.names) < 4096 {
			t.names[name] = true
		}
	}
	if t.linearBytes < 0 || t.otherBytes < 0 || t.linear < 0 || t.other < 0 {
		g.fail("tensors together are too large")
	}
}
