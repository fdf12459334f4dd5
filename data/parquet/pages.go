package parquet

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// What is held of a page or a chunk.
const (
	maxDictionary = 16 << 20 // bytes of a dictionary's values
	maxEntries    = 1 << 20  // its values
	maxLevels     = 1 << 20  // bytes of the definition levels of a page
	maxLengths    = 1 << 21  // lengths of a page that stores them apart from the values
	maxWindow     = 8 << 20  // of zstd: what any decoder has to support
	bufferBytes   = 16 << 10
)

// pages reads the values of one chunk after the other.
type pages struct {
	codec  int64
	maxDef int
	file   *bufio.Reader // the chunk
	chunk  io.SectionReader
	rest   int64 // bytes of the chunk behind the present page
	rows   int64 // of the chunk, in pages to come

	// Of the present page.
	left     int64 // rows that have not been read
	encoding int64
	body     io.LimitedReader // of file: what is compressed
	raw      io.LimitedReader // what is decompressed, its length known
	data     *bufio.Reader    // of raw
	packed   *bufio.Reader    // of body
	levels   hybrid
	levelled bytes.Reader // bytes of levels
	index    hybrid
	value0   io.LimitedReader // the value that was returned last
	entry    bytes.Reader     // or this
	lengths  []int32
	held     []byte // for definition levels

	dictionary []byte
	ends       []int32 // entry i is dictionary[ends[i]:ends[i+1]]

	snappy *snappy
	gzip   *gzip.Reader
	zstd   *zstd.Decoder
}

// begin goes to a chunk.
func (p *pages) begin(r io.ReaderAt, c chunk, maxDef int) {
	p.codec, p.maxDef, p.rest, p.rows = c.codec, maxDef, c.to-c.from, c.rows
	p.chunk = *io.NewSectionReader(r, c.from, c.to-c.from)
	if p.file == nil {
		p.file = bufio.NewReaderSize(nil, bufferBytes)
		p.packed = bufio.NewReaderSize(nil, bufferBytes)
		p.data = bufio.NewReaderSize(nil, bufferBytes)
	}
	p.file.Reset(&p.chunk)
	p.dictionary, p.ends = p.dictionary[:0], p.ends[:0]
	p.body.N, p.left = 0, 0
}

// close gives back what decompression holds.
func (p *pages) close() {
	if p.zstd != nil {
		p.zstd.Close()
		p.zstd = nil
	}
}

// value returns the next value, or nil where there is none.
func (p *pages) value() (io.Reader, error) {
	for p.left == 0 {
		if err := p.page(); err != nil {
			return nil, err
		}
	}
	p.left--
	if p.maxDef > 0 {
		d, err := p.levels.next()
		if err != nil {
			return nil, err
		}
		if d < uint32(p.maxDef) {
			return nil, nil
		}
	}
	switch p.encoding {
	case encodingRLEDictionary:
		i, err := p.index.next()
		if err != nil {
			return nil, err
		}
		if int(i) >= len(p.ends)-1 {
			return nil, fmt.Errorf("it names value %d of a dictionary of %d", i, max(len(p.ends)-1, 0))
		}
		p.entry.Reset(p.dictionary[p.ends[i]:p.ends[i+1]])
		return &p.entry, nil
	case encodingDeltaLength:
		if err := p.passOver(); err != nil {
			return nil, err
		}
		if len(p.lengths) == 0 {
			return nil, errLevels
		}
		n := int64(p.lengths[0])
		p.lengths = p.lengths[1:]
		return p.bytes(n)
	}
	if err := p.passOver(); err != nil {
		return nil, err
	}
	n, err := uint32At(p.data)
	if err != nil {
		return nil, err
	}
	return p.bytes(int64(n))
}

// passOver reads what the caller has left of the last value.
func (p *pages) passOver() error {
	for p.value0.N > 0 {
		d, err := p.data.Discard(int(min(p.value0.N, 1<<30)))
		p.value0.N -= int64(d)
		if err != nil {
			return cut(err)
		}
	}
	return nil
}

// bytes returns the next n bytes of the page.
func (p *pages) bytes(n int64) (io.Reader, error) {
	if have := p.raw.N + int64(p.data.Buffered()); n > have {
		return nil, fmt.Errorf("a value has %d bytes, its page %d more", n, have)
	}
	p.value0 = io.LimitedReader{R: p.data, N: n}
	return &whole{&p.value0}, nil
}

// whole is a reader of a known length: its end before that is an error.
type whole struct{ *io.LimitedReader }

// Read implements io.Reader.
func (w *whole) Read(p []byte) (int, error) {
	n, err := w.LimitedReader.Read(p)
	if err == io.EOF && w.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// page goes to the next page of data.
func (p *pages) page() error {
	for {
		if err := p.skipBody(); err != nil {
			return err
		}
		if p.rest <= 0 {
			return errors.New("its pages hold fewer values than its row group has rows")
		}
		h, err := p.readHeader()
		if err != nil {
			return err
		}
		p.body = io.LimitedReader{R: p.file, N: h.packed}
		switch h.kind {
		case pageIndex:
		case pageDictionary:
			if err := p.readDictionary(h); err != nil {
				return err
			}
		case pageData, pageDataV2:
			if h.values < 0 || h.values > p.rows {
				return fmt.Errorf("a page has %d values, its row group %d rows more", h.values, p.rows)
			}
			p.rows -= h.values
			p.left = h.values
			if h.values > 0 {
				return p.beginData(h)
			}
		default:
			return unsupported(fmt.Sprintf("a page is of kind %d", h.kind))
		}
	}
}

// skipBody passes over what is left of a page.
func (p *pages) skipBody() error {
	p.value0.N = 0
	for p.body.N > 0 {
		d, err := p.file.Discard(int(min(p.body.N, 1<<30)))
		p.body.N -= int64(d)
		if err != nil {
			return cut(err)
		}
	}
	return nil
}

// beginData prepares a page of values.
func (p *pages) beginData(h header) error {
	raw := h.raw
	if h.kind == pageDataV2 { // levels stand before what is compressed
		if h.repBytes != 0 {
			return unsupported("a page holds lists")
		}
		if h.defBytes < 0 || h.defBytes > h.packed || h.defBytes > h.raw {
			return fmt.Errorf("definition levels have %d bytes, their page %d", h.defBytes, h.packed)
		}
		raw -= h.defBytes
		if err := p.holdLevels(&p.body, h.defBytes); err != nil {
			return err
		}
	}
	codec := p.codec
	if h.plain || raw == 0 {
		codec = codecNone
	}
	if err := p.decompress(codec, raw); err != nil {
		return err
	}
	if h.kind == pageData && p.maxDef > 0 {
		if h.defEncoding != encodingRLE {
			return unsupportedEncoding(h.defEncoding)
		}
		n, err := uint32At(p.data)
		if err != nil {
			return err
		}
		if err := p.holdLevels(p.data, int64(n)); err != nil {
			return err
		}
	}
	switch p.encoding = h.encoding; h.encoding {
	case encodingPlain:
	case encodingPlainDictionary, encodingRLEDictionary:
		p.encoding = encodingRLEDictionary
		width := byte(0)
		if present, err := p.data.Peek(1); err == nil { // a page without any value may end here
			width = present[0]
			p.data.Discard(1) // it is there
		}
		if width > 32 {
			return errLevels
		}
		p.index.reset(p.data, uint(width))
	case encodingDeltaLength:
		return p.readLengths(h.values)
	default:
		return unsupportedEncoding(h.encoding)
	}
	return nil
}

// holdLevels reads n bytes of definition levels.
func (p *pages) holdLevels(r io.Reader, n int64) error {
	if n > maxLevels {
		return fmt.Errorf("definition levels of a page have %d bytes, want %d at most", n, maxLevels)
	}
	if int64(cap(p.held)) < n {
		p.held = make([]byte, n) //mem:ok maxLevels at most; texts are read before the arenas
	}
	p.held = p.held[:n]
	if _, err := io.ReadFull(r, p.held); err != nil {
		return cut(err)
	}
	p.levelled.Reset(p.held)
	p.levels.reset(&p.levelled, uint(bits.Len(uint(p.maxDef))))
	return nil
}

// readLengths reads the lengths of a page that has them before its values; null rows have none.
func (p *pages) readLengths(values int64) error {
	p.lengths = p.lengths[:0]
	total := int64(0)
	if p.maxDef > 0 { // count those that are there
		for i := values; i > 0; i-- {
			d, err := p.levels.next()
			if err != nil {
				return err
			}
			if d < uint32(p.maxDef) {
				values--
			}
		}
		p.levelled.Reset(p.held)
		p.levels.reset(&p.levelled, p.levels.width)
	}
	if values > maxLengths {
		return fmt.Errorf("a page has %d lengths, want %d at most", values, maxLengths)
	}
	return delta(p.data, values, func(n int64) error {
		if total += n; n < 0 || total > p.raw.N+int64(p.data.Buffered()) {
			return fmt.Errorf("a value has %d bytes, which its page has not", n)
		}
		p.lengths = append(p.lengths, int32(n))
		return nil
	})
}
