package parquet

import (
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// decompress prepares data, whose bytes are raw in number.
func (p *pages) decompress(codec, raw int64) error {
	var r io.Reader = &p.body
	switch codec {
	case codecNone:
		if p.body.N != raw {
			return fmt.Errorf("a page has %d bytes and %d decompressed, and is not compressed", p.body.N, raw)
		}
	case codecSnappy:
		if p.snappy == nil {
			p.snappy = &snappy{}
		}
		p.packed.Reset(&p.body)
		if err := p.snappy.reset(p.packed); err != nil {
			return err
		}
		r = p.snappy
	case codecGzip:
		if p.gzip == nil {
			p.gzip = &gzip.Reader{}
		}
		p.packed.Reset(&p.body)
		if err := p.gzip.Reset(p.packed); err != nil {
			return cut(err)
		}
		r = p.gzip
	case codecZstd:
		if p.zstd == nil {
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			if err != nil {
				return err
			}
			p.zstd = d
		}
		if err := p.zstd.Reset(&p.body); err != nil {
			return err
		}
		r = p.zstd
	default:
		name, ok := codecs[codec]
		if !ok {
			name = fmt.Sprintf("codec %d", codec)
		}
		return unsupported("it is compressed with " + name)
	}
	p.raw = io.LimitedReader{R: r, N: raw}
	p.data.Reset(&p.raw)
	return nil
}

// readDictionary reads the dictionary of a chunk.
func (p *pages) readDictionary(h header) error {
	if h.encoding != encodingPlain && h.encoding != encodingPlainDictionary {
		return unsupportedEncoding(h.encoding)
	}
	if h.raw > maxDictionary || h.values < 0 || h.values > maxEntries || 4*h.values > h.raw {
		return fmt.Errorf("a dictionary has %d values of %d bytes, want %d of %d MiB at most", h.values, h.raw, maxEntries, maxDictionary>>20)
	}
	if err := p.decompress(p.codec, h.raw); err != nil {
		return err
	}
	n := int(h.raw - 4*h.values)
	if cap(p.dictionary) < n {
		p.dictionary = make([]byte, 0, n) //mem:ok maxDictionary at most; texts are read before the arenas
	}
	p.dictionary, p.ends = p.dictionary[:0], append(p.ends[:0], 0)
	for range h.values {
		n, err := uint32At(p.data)
		if err != nil {
			return err
		}
		at := len(p.dictionary)
		if int64(n) > int64(cap(p.dictionary)-at) {
			return fmt.Errorf("a value of a dictionary has %d bytes, its page %d more", n, cap(p.dictionary)-at)
		}
		p.dictionary = p.dictionary[:at+int(n)]
		if _, err := io.ReadFull(p.data, p.dictionary[at:]); err != nil {
			return cut(err)
		}
		p.ends = append(p.ends, int32(len(p.dictionary)))
	}
	return nil
}
