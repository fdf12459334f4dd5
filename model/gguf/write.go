package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"loadline/internal/whole"
)

// Writer writes a model tensor by tensor, in the order of its infos, each in pieces of any size.
//
//	Create ─▶ Write … Write ─▶ Close: the files are complete and have their names
//	   └──────────┴───────────▶ Abort: nothing is left
//
// Until Close succeeds the bytes are in files beside them, named with whole.Suffix behind, so one path has one Writer at a time.
type Writer struct {
	files     []*whole.File
	infos     []Info
	alignment int64
	next      int   // the tensor that is being written
	done      int64 // how many of its bytes are
	err       error // the first error; nothing is written after it
}

// ErrClosed is the error of a Writer that has been closed or aborted.
var ErrClosed = errors.New("gguf: writer is closed")

// maxWrittenName is what llama.cpp reads of a tensor's name, less the zero behind it.
const maxWrittenName = 63

// Create begins a model at path, which ends in .gguf where it is split. The tensors' places are worked out; keys that say how a file is
// split are the Writer's to set, and dropped from meta. shardBytes is how many bytes of tensors a file has at most, though at least one
// tensor; 0 is no limit. Several files have the names of SplitName.
func Create(path string, infos []Info, meta Metadata, shardBytes int64) (*Writer, error) {
	w := &Writer{infos: slices.Clone(infos), alignment: defaultAlignment}
	meta = meta.Without(splitNoKey, splitCountKey, splitTensorsKey)
	if n, ok := meta.Int(alignmentKey); ok {
		w.alignment = n
	}
	parts, err := w.split(shardBytes)
	if err != nil {
		return nil, err
	}
	headers := make([][]byte, parts)
	for k := range headers {
		m := meta
		if parts > 1 {
			if k > 0 {
				m = nil
				if w.alignment != defaultAlignment {
					m.Set(alignmentKey, uint32(w.alignment))
				}
			}
			m = append(slices.Clone(m), KV{splitNoKey, uint16(k)}, KV{splitCountKey, uint16(parts)}, KV{splitTensorsKey, int32(len(infos))})
		}
		if headers[k], err = w.header(k, m); err != nil {
			return nil, err
		}
	}
	prefix, split := strings.CutSuffix(path, ".gguf")
	if parts > 1 && !split {
		return nil, fmt.Errorf("gguf: %s: is written in %d parts, want a name that ends in .gguf", path, parts)
	}
	for k, p := range headers {
		name := path
		if parts > 1 {
			name = SplitName(prefix, k, parts)
		}
		f, err := whole.Create(name)
		if err == nil {
			w.files = append(w.files, f)
			_, err = f.Write(p)
		}
		if err != nil {
			w.Abort() // the first error says more
			return nil, fmt.Errorf("gguf: %w", err)
		}
	}
	w.skipEmpty()
	return w, nil
}

// split gives every tensor its file and its bytes, and returns the number of files. Offsets count from the beginning of the tensors.
func (w *Writer) split(shardBytes int64) (parts int, err error) {
	if w.alignment < 1 || w.alignment > maxAlignment || w.alignment&(w.alignment-1) != 0 {
		return 0, fmt.Errorf("gguf: %s is %d, want a power of two of at most %d", alignmentKey, w.alignment, maxAlignment)
	}
	if len(w.infos) > maxTensors {
		return 0, fmt.Errorf("gguf: %d tensors, want at most %d", len(w.infos), maxTensors)
	}
	seen := make(map[string]bool, len(w.infos))
	at := int64(0)
	for k := range w.infos {
		i := &w.infos[k]
		n, err := i.size()
		switch {
		case err != nil:
			return 0, err
		case seen[i.Name]:
			return 0, fmt.Errorf("gguf: tensor %q appears twice", i.Name)
		case i.Name == "" || len(i.Name) > maxWrittenName || !utf8.ValidString(i.Name):
			return 0, fmt.Errorf("gguf: %q cannot name a tensor: want 1 to %d bytes of valid UTF-8", i.Name, maxWrittenName)
		case n > 1<<60-at:
			return 0, fmt.Errorf("gguf: tensor %q: the file would have more than 2^60 bytes", i.Name)
		}
		seen[i.Name] = true
		if shardBytes > 0 && at > 0 && n > shardBytes-at {
			parts++
			at = 0
		}
		i.File, i.Offset, i.Bytes = parts, at, n
		at = padded(at+n, w.alignment)
	}
	if parts++; parts > maxSplits {
		return 0, fmt.Errorf("gguf: %d parts of %d bytes, want at most %d", parts, shardBytes, maxSplits)
	}
	return parts, nil
}

// header returns what stands before the tensors of file k, padding included, and makes their offsets count from its beginning.
func (w *Writer) header(k int, meta Metadata) ([]byte, error) {
	if len(meta) > maxKeys {
		return nil, fmt.Errorf("gguf: %d keys, want at most %d", len(meta), maxKeys)
	}
	p := append([]byte(magic), version, 0, 0, 0)
	at := len(p)
	p = binary.LittleEndian.AppendUint64(p, 0)
	p = binary.LittleEndian.AppendUint64(p, uint64(len(meta)))
	seen := make(map[string]bool, len(meta))
	for _, kv := range meta {
		if kv.Key == "" || len(kv.Key) > maxKeyBytes || !utf8.ValidString(kv.Key) || seen[kv.Key] {
			return nil, fmt.Errorf("gguf: key %.80q is empty, too long, not valid UTF-8 or there twice", kv.Key)
		}
		seen[kv.Key] = true
		var err error
		if p, err = appendKV(p, kv); err != nil {
			return nil, err
		}
	}
	n := uint64(0)
	for i := range w.infos {
		if t := &w.infos[i]; t.File == k {
			n++
			p = appendText(p, t.Name)
			p = binary.LittleEndian.AppendUint32(p, uint32(len(t.Shape)))
			for d := range t.Shape {
				p = binary.LittleEndian.AppendUint64(p, uint64(t.Shape[len(t.Shape)-1-d]))
			}
			p = binary.LittleEndian.AppendUint32(p, uint32(t.Type))
			p = binary.LittleEndian.AppendUint64(p, uint64(t.Offset))
		}
	}
	binary.LittleEndian.PutUint64(p[at:], n)
	if len(p) > maxHeaderBytes {
		return nil, fmt.Errorf("gguf: header has %d bytes, want at most %d", len(p), maxHeaderBytes)
	}
	p = append(p, make([]byte, padded(int64(len(p)), w.alignment)-int64(len(p)))...) //mem:ok less than an alignment
	for i := range w.infos {
		if t := &w.infos[i]; t.File == k {
			t.Offset += int64(len(p))
		}
	}
	return p, nil
}

func appendText(p []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(p, uint64(len(s))), s...)
}

func appendKV(p []byte, kv KV) ([]byte, error) {
	kind, array, n, ok := kindOf(kv.Value)
	if !ok {
		return nil, fmt.Errorf("gguf: key %q: a value of type %T cannot be written", kv.Key, kv.Value)
	}
	p = appendText(p, kv.Key)
	if array {
		p = binary.LittleEndian.AppendUint32(p, kindArray)
		p = binary.LittleEndian.AppendUint32(p, uint32(kind))
		p = binary.LittleEndian.AppendUint64(p, uint64(n))
	} else {
		p = binary.LittleEndian.AppendUint32(p, uint32(kind))
	}
	switch v := kv.Value.(type) {
	case string:
		if len(v) > maxStringBytes {
			return nil, fmt.Errorf("gguf: key %q: %d bytes, want at most %d", kv.Key, len(v), maxStringBytes)
		}
		return appendText(p, v), nil
	case []string:
		for _, s := range v {
			if len(s) > maxStringBytes {
				return nil, fmt.Errorf("gguf: key %q: a string of %d bytes, want at most %d", kv.Key, len(s), maxStringBytes)
			}
			p = appendText(p, s)
		}
		return p, nil
	case float32: // Append would take it too, but by reflection
		return binary.LittleEndian.AppendUint32(p, math.Float32bits(v)), nil
	}
	return binary.Append(p, binary.LittleEndian, kv.Value) // all the others are of fixed length
}

// Tensors returns the tensors with their places. The shapes are shared: do not change them.
func (w *Writer) Tensors() []Info { return slices.Clone(w.infos) }

// Paths returns the names that the files will have.
func (w *Writer) Paths() []string {
	var paths []string
	for _, f := range w.files {
		paths = append(paths, f.Path())
	}
	return paths
}

// Write appends p, little-endian, to the tensor name, which must be the first that is not complete.
func (w *Writer) Write(name string, p []byte) error {
	if w.err != nil {
		return w.err
	}
	if len(p) == 0 {
		return nil
	}
	if w.next == len(w.infos) {
		return w.fail(fmt.Errorf("gguf: tensor %q: all tensors are complete", name))
	}
	i := &w.infos[w.next]
	if i.Name != name {
		return w.fail(fmt.Errorf("gguf: tensor %q: want %q, of which %d of %d bytes are written", name, i.Name, w.done, i.Bytes))
	}
	if int64(len(p)) > i.Bytes-w.done {
		return w.fail(fmt.Errorf("gguf: tensor %q: has %d bytes, got %d", name, i.Bytes, w.done+int64(len(p))))
	}
	if _, err := w.files[i.File].Write(p); err != nil {
		return w.fail(fmt.Errorf("gguf: tensor %q: %w", name, err))
	}
	if w.done += int64(len(p)); w.done < i.Bytes {
		return nil
	}
	if err := w.pad(i); err != nil {
		return w.fail(fmt.Errorf("gguf: tensor %q: %w", name, err))
	}
	w.next++
	w.done = 0
	w.skipEmpty()
	return nil
}

// pad fills up to where the next tensor begins, behind the last one too, as llama.cpp's writer does.
func (w *Writer) pad(i *Info) error {
	var zeros [4096]byte
	for n := padded(i.Bytes, w.alignment) - i.Bytes; n > 0; {
		p := zeros[:min(n, int64(len(zeros)))]
		if _, err := w.files[i.File].Write(p); err != nil {
			return err
		}
		n -= int64(len(p))
	}
	return nil
}

// skipEmpty passes the tensors without bytes.
func (w *Writer) skipEmpty() {
	for w.next < len(w.infos) && w.infos[w.next].Bytes == 0 {
		w.next++
	}
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// Close completes the files and gives them their names, the first of several last, in place of files that had them; when it returns nil,
// all are on the disk. If a byte is missing or anything failed, it leaves nothing and returns the first error.
func (w *Writer) Close() error {
	if w.err == nil && w.next < len(w.infos) {
		i := &w.infos[w.next]
		w.err = fmt.Errorf("gguf: tensor %q: has %d bytes, got %d", i.Name, i.Bytes, w.done)
	}
	if err := w.err; err != nil {
		w.Abort() // the first error says more
		w.err = ErrClosed
		return err
	}
	w.err = ErrClosed
	if err := whole.Commit(append(slices.Clone(w.files[1:]), w.files[0])...); err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	return nil
}

// Abort gives the files up and leaves nothing. It does nothing after Close.
func (w *Writer) Abort() error {
	if w.err == nil {
		w.err = ErrClosed
	}
	var errs []error
	for _, f := range w.files {
		errs = append(errs, f.Abort())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	return nil
}
