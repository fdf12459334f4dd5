package parquet

import "fmt"

// Encodings, kinds of pages and codecs.
const (
	encodingPlain           = 0
	encodingPlainDictionary = 2
	encodingRLE             = 3
	encodingDeltaLength     = 6
	encodingRLEDictionary   = 8

	pageData       = 0
	pageIndex      = 1
	pageDictionary = 2
	pageDataV2     = 3

	codecNone   = 0
	codecSnappy = 1
	codecGzip   = 2
	codecZstd   = 6
)

// encodings and codecs are the names of what is not read, as the format has them.
var (
	encodings = map[int64]string{4: "BIT_PACKED", 5: "DELTA_BINARY_PACKED", 7: "DELTA_BYTE_ARRAY", 9: "BYTE_STREAM_SPLIT"}
	codecs    = map[int64]string{3: "LZO", 4: "brotli", 5: "LZ4", 7: "LZ4_RAW"}
)

// header is a page's PageHeader.
type header struct {
	kind, raw, packed int64
	values, encoding  int64
	defEncoding       int64
	defBytes          int64 // of version 2
	repBytes          int64
	plain             bool // of version 2: nothing is compressed
}

// readHeader reads a page's header.
func (p *pages) readHeader() (h header, err error) {
	t := &thrift{r: p.file}
	h = header{kind: -1, raw: -1, packed: -1, values: -1, encoding: -1, defEncoding: encodingRLE}
	t.structure(func(id int, kind byte) bool {
		switch {
		case kind == thriftI32 && id == 1:
			h.kind = t.int()
		case kind == thriftI32 && id == 2:
			h.raw = t.int()
		case kind == thriftI32 && id == 3:
			h.packed = t.int()
		case kind == thriftStruct && (id == 5 || id == 7 || id == 8):
			t.structure(func(field int, kind byte) bool {
				switch {
				case id == 8 && field == 7 && (kind == thriftTrue || kind == thriftFalse):
					h.plain = kind == thriftFalse
					return true
				case kind != thriftI32:
					return false
				case field == 1:
					h.values = t.int()
				case id == 8 && field == 4, id != 8 && field == 2:
					h.encoding = t.int()
				case id == 5 && field == 3:
					h.defEncoding = t.int()
				case id == 8 && field == 5:
					h.defBytes = t.int()
				case id == 8 && field == 6:
					h.repBytes = t.int()
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
	if t.err != nil {
		return h, t.err
	}
	p.rest -= t.n
	if h.packed < 0 || h.raw < 0 || h.packed > p.rest {
		return h, fmt.Errorf("a page has %d bytes and %d decompressed, %d are there", h.packed, h.raw, max(p.rest, 0))
	}
	p.rest -= h.packed
	return h, nil
}

func unsupportedEncoding(n int64) error {
	name, ok := encodings[n]
	if !ok {
		name = fmt.Sprint(n)
	}
	return unsupported("its encoding is " + name)
}
