package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"
)

// ErrCut says that a file ends before what its header promises, as one does whose copying was broken off.
var ErrCut = errors.New("cut short")

// prefixBytes is the length of the size in front of the header.
const prefixBytes = 8

// readHeader reads and checks the header of a file of fileBytes bytes. The tensors come in the order of their offsets.
func readHeader(r io.ReaderAt, fileBytes int64) ([]Info, map[string]string, error) {
	if fileBytes < prefixBytes {
		return nil, nil, fmt.Errorf("safetensors: the file is %w: file has %d bytes, too few for a header", ErrCut, fileBytes)
	}
	var prefix [prefixBytes]byte
	if _, err := r.ReadAt(prefix[:], 0); err != nil {
		return nil, nil, fmt.Errorf("safetensors: reading the header's size: %w", noEOF(err))
	}
	n := binary.LittleEndian.Uint64(prefix[:])
	if n > maxHeaderBytes {
		return nil, nil, fmt.Errorf("safetensors: header has %d bytes, want at most %d", n, maxHeaderBytes)
	}
	if int64(n) > fileBytes-prefixBytes {
		return nil, nil, fmt.Errorf("safetensors: the file is %w: header has %d bytes, the file only %d after its size", ErrCut, n, fileBytes-prefixBytes)
	}
	p := make([]byte, n) //mem:ok at most maxHeaderBytes, freed when parsed
	if _, err := r.ReadAt(p, prefixBytes); err != nil {
		return nil, nil, fmt.Errorf("safetensors: reading the header: %w", noEOF(err))
	}
	if !utf8.Valid(p) {
		return nil, nil, errors.New("safetensors: header is not valid UTF-8")
	}
	infos, meta, err := parseHeader(p)
	if err != nil {
		return nil, nil, err
	}
	if err := place(infos, prefixBytes+int64(n), fileBytes); err != nil {
		return nil, nil, err
	}
	return infos, meta, nil
}

// place turns offsets from the end of the header into offsets in the file, and checks that the tensors cover it.
func place(infos []Info, dataAt, fileBytes int64) error {
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name))
	})
	end := int64(0)
	for k := range infos {
		i := &infos[k]
		switch {
		case i.Offset < end:
			return fmt.Errorf("safetensors: tensor %q: begins at %d, inside the one before, which ends at %d", i.Name, i.Offset, end)
		case i.Offset > end:
			return fmt.Errorf("safetensors: tensor %q: begins at %d, want %d, where the one before ends", i.Name, i.Offset, end)
		}
		end += i.Bytes // no overflow: parseTensor has checked Offset + Bytes
		i.Offset += dataAt
	}
	if end > fileBytes-dataAt {
		return fmt.Errorf("safetensors: the file is %w: tensors have %d bytes, the file has %d for them", ErrCut, end, fileBytes-dataAt)
	}
	if end != fileBytes-dataAt {
		return fmt.Errorf("safetensors: tensors have %d bytes, the file has %d for them", end, fileBytes-dataAt)
	}
	return nil
}

// parseHeader reads the JSON. Offsets are from the end of the header.
func parseHeader(p []byte) ([]Info, map[string]string, error) {
	if len(p) == 0 || p[0] != '{' {
		return nil, nil, errors.New("safetensors: header does not begin with {")
	}
	d := json.NewDecoder(bytes.NewReader(p))
	bad := func(err error) error { return fmt.Errorf("safetensors: header: %w", noEOF(err)) }
	if _, err := d.Token(); err != nil { // {
		return nil, nil, bad(err)
	}
	var infos []Info
	var meta map[string]string
	seen := make(map[string]bool)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, bad(err)
		}
		name := key.(string) // the decoder allows no other key
		if seen[name] {
			return nil, nil, fmt.Errorf("safetensors: tensor %q appears twice", name)
		}
		seen[name] = true
		if name == metadataKey {
			if err := d.Decode(&meta); err != nil {
				return nil, nil, fmt.Errorf("safetensors: header: %s: %w", metadataKey, noEOF(err))
			}
			continue
		}
		i, err := parseTensor(d, name)
		if err != nil {
			return nil, nil, err
		}
		infos = append(infos, i)
	}
	if _, err := d.Token(); err != nil { // }
		return nil, nil, bad(err)
	}
	if rest := bytes.TrimRight(p[d.InputOffset():], " "); len(rest) > 0 {
		return nil, nil, fmt.Errorf("safetensors: header goes on with %.20q after its end", rest)
	}
	return infos, meta, nil
}

// parseTensor reads what stands behind a tensor's name and checks it against itself.
func parseTensor(d *json.Decoder, name string) (Info, error) {
	var t struct {
		DType   *DType   `json:"dtype"`
		Shape   *[]int64 `json:"shape"`
		Offsets *[]int64 `json:"data_offsets"`
	}
	bad := func(format string, args ...any) (Info, error) {
		return Info{}, fmt.Errorf("safetensors: tensor %q: "+format, append([]any{name}, args...)...)
	}
	if err := d.Decode(&t); err != nil {
		return bad("%w", noEOF(err))
	}
	if t.DType == nil || t.Shape == nil || t.Offsets == nil {
		return bad("lacks dtype, shape or data_offsets")
	}
	if len(*t.Offsets) != 2 {
		return bad("data_offsets has %d numbers, want 2", len(*t.Offsets))
	}
	from, to := (*t.Offsets)[0], (*t.Offsets)[1]
	if from < 0 || to < from || to > math.MaxInt64/2 {
		return bad("data_offsets [%d, %d] make no sense", from, to)
	}
	i := Info{Name: name, DType: *t.DType, Shape: *t.Shape, Offset: from, Bytes: to - from}
	want, err := i.size()
	if err != nil {
		return Info{}, err
	}
	if want != i.Bytes {
		return bad("%s of shape %v has %d bytes, the file has %d", i.DType, i.Shape, want, i.Bytes)
	}
	return i, nil
}

// noEOF says that an end of file in the middle of something was not expected.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// formatHeader returns the header of a file, its size in front, and fills in the offsets.
func formatHeader(infos []Info, meta map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, prefixBytes))
	b.WriteByte('{')
	if len(meta) > 0 {
		for k, v := range meta {
			if !utf8.ValidString(k) || !utf8.ValidString(v) {
				return nil, fmt.Errorf("safetensors: metadata %q: %q is not valid UTF-8", k, v)
			}
		}
		p, err := json.Marshal(meta)
		if err != nil {
			return nil, fmt.Errorf("safetensors: metadata: %w", err)
		}
		fmt.Fprintf(&b, "%q:%s", metadataKey, p)
	}
	at := int64(0)
	seen := make(map[string]bool, len(infos))
	for k := range infos {
		i := &infos[k]
		n, err := i.size()
		if err != nil {
			return nil, err
		}
		switch {
		case seen[i.Name]:
			return nil, fmt.Errorf("safetensors: tensor %q appears twice", i.Name)
		case i.Name == metadataKey || !utf8.ValidString(i.Name):
			return nil, fmt.Errorf("safetensors: %q cannot name a tensor", i.Name)
		case at%i.DType.Bytes() != 0: // readers view the file as an array of elements
			return nil, fmt.Errorf("safetensors: tensor %q: %s at offset %d is not aligned; Sort puts wide types first", i.Name, i.DType, at)
		case n > math.MaxInt64/2-at:
			return nil, fmt.Errorf("safetensors: tensor %q: the file would have more than 2^62 bytes", i.Name)
		}
		seen[i.Name] = true
		if b.Len() > prefixBytes+1 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(i.Name)
		if err != nil {
			return nil, fmt.Errorf("safetensors: tensor %q: %w", i.Name, err)
		}
		shape, err := json.Marshal(append([]int64{}, i.Shape...)) // [] for a scalar, never null
		if err != nil {
			return nil, fmt.Errorf("safetensors: tensor %q: %w", i.Name, err)
		}
		fmt.Fprintf(&b, `%s:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, i.DType, shape, at, at+n)
		i.Offset, i.Bytes = at, n
		at += n
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	p := b.Bytes()
	if len(p)-prefixBytes > maxHeaderBytes {
		return nil, fmt.Errorf("safetensors: header has %d bytes, want at most %d", len(p)-prefixBytes, maxHeaderBytes)
	}
	binary.LittleEndian.PutUint64(p, uint64(len(p)-prefixBytes))
	for k := range infos {
		infos[k].Offset += int64(len(p))
	}
	return p, nil
}
