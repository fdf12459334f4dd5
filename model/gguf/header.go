package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"loadline/tensor/quant"
)

// ErrCut says that a file ends before what its header promises, as one does whose copying was broken off.
var ErrCut = errors.New("cut short")

// Header is what stands before the tensors of one file.
type Header struct {
	Version   int
	BigEndian bool
	Alignment int64
	Meta      Metadata
	Tensors   []Info
	DataAt    int64 // where the tensors begin
}

// ReadHeader reads a header and no further than its reader's buffer. fileBytes is the length of the file, which tensors must lie in, or
// −1 if it is not known: then only overlaps are refused.
func ReadHeader(r io.Reader, fileBytes int64) (*Header, error) {
	left := int64(maxHeaderBytes)
	if fileBytes >= 0 {
		left = min(left, fileBytes)
	}
	d := &decoder{r: bufio.NewReaderSize(r, 64<<10), order: binary.LittleEndian, left: left}
	h := &Header{Alignment: defaultAlignment}
	if err := d.header(h); err != nil {
		return nil, err
	}
	h.DataAt = padded(d.at, h.Alignment)
	if err := h.place(fileBytes); err != nil {
		return nil, err
	}
	return h, nil
}

// decoder reads values and remembers the first error.
type decoder struct {
	r     *bufio.Reader
	order binary.ByteOrder
	at    int64 // bytes read
	left  int64 // bytes that may be read
	err   error
	buf   [4096]byte
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("gguf: "+format, args...)
	}
}

// take reads the next n bytes, n at most len(d.buf), into a buffer that the next call overwrites.
func (d *decoder) take(n int) []byte {
	p := d.buf[:n]
	if d.err == nil && int64(n) > d.left {
		d.fail("the file is %w: the header ends early, at byte %d", ErrCut, d.at)
	}
	if d.err == nil {
		if _, err := io.ReadFull(d.r, p); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			d.fail("the file is %w: the header ends early, at byte %d", ErrCut, d.at)
		} else if err != nil {
			d.fail("reading the header: %w", err)
		}
	}
	if d.err != nil {
		clear(p)
		return p
	}
	d.at, d.left = d.at+int64(n), d.left-int64(n)
	return p
}

func (d *decoder) u32() uint32 { return d.order.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return d.order.Uint64(d.take(8)) }

// count reads how many things of at least so many bytes follow, and refuses more than fit or than most.
func (d *decoder) count(what string, bytes, most int64) int64 {
	n := d.u64()
	if d.err == nil && (n > math.MaxInt64 || int64(n) > most || int64(n) > d.left/bytes) {
		d.fail("%d %s, want at most %d, the header has %d bytes left", n, what, most, d.left)
	}
	if d.err != nil {
		return 0
	}
	return int64(n)
}

// text reads a string of at most so many bytes; what is "bytes of" it.
func (d *decoder) text(what string, most int64) string {
	var b strings.Builder
	d.textInto(&b, what, most)
	return b.String()
}

// textInto appends a string to what was read.
func (d *decoder) textInto(b *strings.Builder, what string, most int64) {
	for n := d.count(what, 1, most); n > 0 && d.err == nil; {
		p := d.take(int(min(n, int64(len(d.buf)))))
		b.Write(p)
		n -= int64(len(p))
	}
}

// texts reads n strings, which share their memory: vocabularies have hundreds of thousands.
func (d *decoder) texts(n int64) []string {
	var b strings.Builder
	ends := []uint32{} // a header is shorter than 2³² bytes
	for i := int64(0); i < n && d.err == nil; i++ {
		d.textInto(&b, "bytes of a string", maxStringBytes)
		ends = append(ends, uint32(b.Len()))
	}
	all, texts, from := b.String(), make([]string, len(ends)), uint32(0)
	for i, end := range ends {
		texts[i], from = all[from:end], end
	}
	return texts
}

func (d *decoder) header(h *Header) error {
	if got := string(d.take(4)); d.err == nil && got != magic {
		return fmt.Errorf("gguf: not a GGUF file: it begins with % x", got)
	}
	v := d.u32()
	if v&0xffff == 0 && v != 0 { // a small number in the other order
		h.BigEndian, d.order = true, binary.BigEndian
		v = v >> 24 & 0xff // bytes 0 0 0 v
	}
	if d.err == nil && v != 2 && v != 3 {
		return fmt.Errorf("gguf: version %d, want 2 or 3", v)
	}
	h.Version = int(v)
	tensors := d.count("tensors", 8+1+4+4+8, maxTensors)
	keys := d.count("keys", 8+1+4+1, maxKeys)
	seen := map[string]bool{}
	for i := int64(0); i < keys && d.err == nil; i++ {
		d.key(h, seen)
	}
	if d.err != nil {
		return d.err
	}
	if v, ok := h.Meta.Get(alignmentKey); ok {
		n, ok := integer(v)
		if !ok || n < 1 || n > maxAlignment || n&(n-1) != 0 {
			return fmt.Errorf("gguf: %s is %v, want a power of two of at most %d", alignmentKey, v, maxAlignment)
		}
		h.Alignment = n
	}
	clear(seen)
	for i := int64(0); i < tensors && d.err == nil; i++ {
		d.tensor(h, seen)
	}
	return d.err
}

func (d *decoder) key(h *Header, seen map[string]bool) {
	key := d.text("bytes of a key", maxKeyBytes)
	value := d.value(key)
	switch {
	case d.err != nil:
	case key == "" || !utf8.ValidString(key):
		d.fail("key %q is empty or not valid UTF-8", key)
	case seen[key]:
		d.fail("key %q appears twice", key)
	default:
		seen[key] = true
		h.Meta = append(h.Meta, KV{key, value})
	}
}

// value reads a kind and what follows.
func (d *decoder) value(key string) any {
	kind := d.u32()
	if kind != kindArray {
		return d.scalar(key, kind)
	}
	of := d.u32()
	if of >= numKinds || of == kindArray {
		d.fail("key %q: an array of kind %d", key, of)
		return nil
	}
	n := d.count(fmt.Sprintf("values of key %q", key), kindBytes[of], maxHeaderBytes)
	switch of {
	case kindU8:
		return list(d, n, 1, func(p []byte) uint8 { return p[0] })
	case kindI8:
		return list(d, n, 1, func(p []byte) int8 { return int8(p[0]) })
	case kindBool:
		return list(d, n, 1, func(p []byte) bool { return p[0] != 0 })
	case kindU16:
		return list(d, n, 2, d.order.Uint16)
	case kindI16:
		return list(d, n, 2, func(p []byte) int16 { return int16(d.order.Uint16(p)) })
	case kindU32:
		return list(d, n, 4, d.order.Uint32)
	case kindI32:
		return list(d, n, 4, func(p []byte) int32 { return int32(d.order.Uint32(p)) })
	case kindF32:
		return list(d, n, 4, func(p []byte) float32 { return math.Float32frombits(d.order.Uint32(p)) })
	case kindU64:
		return list(d, n, 8, d.order.Uint64)
	case kindI64:
		return list(d, n, 8, func(p []byte) int64 { return int64(d.order.Uint64(p)) })
	case kindF64:
		return list(d, n, 8, func(p []byte) float64 { return math.Float64frombits(d.order.Uint64(p)) })
	}
	return d.texts(n)
}

// list reads n values of so many bytes each. It grows with what was read.
func list[T any](d *decoder, n int64, bytes int, one func([]byte) T) []T {
	values := []T{}
	for n > 0 && d.err == nil {
		some := min(n, int64(len(d.buf)/bytes))
		p := d.take(int(some) * bytes)
		values = slices.Grow(values, int(some))
		for ; len(p) > 0; p = p[bytes:] {
			values = append(values, one(p))
		}
		n -= some
	}
	return values
}

func (d *decoder) scalar(key string, kind uint32) any {
	switch kind {
	case kindU8:
		return d.take(1)[0]
	case kindI8:
		return int8(d.take(1)[0])
	case kindBool:
		return d.take(1)[0] != 0
	case kindU16:
		return d.order.Uint16(d.take(2))
	case kindI16:
		return int16(d.order.Uint16(d.take(2)))
	case kindU32:
		return d.u32()
	case kindI32:
		return int32(d.u32())
	case kindF32:
		return math.Float32frombits(d.u32())
	case kindU64:
		return d.u64()
	case kindI64:
		return int64(d.u64())
	case kindF64:
		return math.Float64frombits(d.u64())
	case kindString:
		return d.text("bytes of a string", maxStringBytes)
	}
	d.fail("key %q: kind %d is not known", key, kind)
	return nil
}

func (d *decoder) tensor(h *Header, seen map[string]bool) {
	i := Info{Name: d.text("bytes of a tensor's name", maxNameBytes)}
	dims := d.u32()
	if d.err == nil && dims > maxDims {
		d.fail("tensor %q: has %d dimensions, want at most %d", i.Name, dims, maxDims)
	}
	if d.err != nil {
		return
	}
	for range dims {
		n := d.u64()
		if d.err == nil && n > math.MaxInt64 {
			d.fail("tensor %q: a dimension of %d overflows", i.Name, n)
		}
		i.Shape = append(i.Shape, int64(n))
	}
	slices.Reverse(i.Shape)
	i.Type = quant.Type(d.u32())
	offset := d.u64()
	if d.err != nil {
		return
	}
	var err error
	switch i.Bytes, err = i.size(); {
	case err != nil:
		d.err = err
	case i.Name == "" || !utf8.ValidString(i.Name):
		d.fail("tensor %q: its name is empty or not valid UTF-8", i.Name)
	case seen[i.Name]:
		d.fail("tensor %q appears twice", i.Name)
	case offset > math.MaxInt64/4:
		d.fail("tensor %q: its offset %d overflows", i.Name, offset)
	case int64(offset)%h.Alignment != 0:
		d.fail("tensor %q: its offset %d is no multiple of %d", i.Name, offset, h.Alignment)
	}
	i.Offset = int64(offset)
	seen[i.Name] = true
	h.Tensors = append(h.Tensors, i)
}

// place checks that tensors do not overlap and, where the file's length is known, lie inside it; then it turns their offsets into ones
// from its beginning.
func (h *Header) place(fileBytes int64) error {
	order := slices.Clone(h.Tensors)
	slices.SortFunc(order, func(a, b Info) int {
		switch {
		case a.Offset != b.Offset && a.Offset < b.Offset:
			return -1
		case a.Offset != b.Offset:
			return 1
		case a.Bytes < b.Bytes: // an empty one before the one that begins with it
			return -1
		case a.Bytes > b.Bytes:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	end := int64(0)
	for _, i := range order {
		if i.Offset < end {
			return fmt.Errorf("gguf: tensor %q: begins at %d, inside the one before, which ends at %d", i.Name, i.Offset, end)
		}
		end = max(end, i.Offset+i.Bytes) // no overflow: each is at most a quarter of the largest
		if fileBytes >= 0 && end > fileBytes-h.DataAt {
			return fmt.Errorf("gguf: the file is %w: tensor %q: its %d bytes end at %d, the file has %d for tensors", ErrCut, i.Name, i.Bytes, end, max(0, fileBytes-h.DataAt))
		}
	}
	for k := range h.Tensors {
		h.Tensors[k].Offset += h.DataAt
	}
	return nil
}
