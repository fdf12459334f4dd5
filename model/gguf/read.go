package gguf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"loadline/internal/regular"
	"loadline/tensor/quant"
)

// File is an open model, in one file or several. It may be read from any number of goroutines.
type File struct {
	parts   []part
	tensors []Info
	index   map[string]int
}

// part is one open file.
type part struct {
	f *os.File
	h *Header
}

// Open opens a model and checks it. Of a split one it takes the path of any part, and opens the others beside it. The caller closes it.
func Open(path string) (*File, error) {
	g := &File{index: map[string]int{}}
	err := g.open(path)
	if err != nil {
		g.Close() // read only; the first error says what is wrong
		return nil, err
	}
	return g, nil
}

func (g *File) open(path string) error {
	first, err := openPart(path)
	if err != nil {
		return err
	}
	g.parts = []part{first}
	n, ok := first.h.Meta.Int(splitCountKey)
	if !ok || n <= 1 {
		return g.join()
	}
	if n > maxSplits {
		return fmt.Errorf("gguf: %s: %d parts, want at most %d", path, n, maxSplits)
	}
	prefix, i, count, ok := SplitPath(path)
	if !ok || int64(count) != n {
		return fmt.Errorf("gguf: %s: is of %d parts, want a name that ends in -00001-of-%05d.gguf", path, n, n)
	}
	g.parts = make([]part, n)
	g.parts[i] = first
	for k := range g.parts {
		if k != i {
			if g.parts[k], err = openPart(SplitName(prefix, k, count)); err != nil {
				return err
			}
		}
		m := g.parts[k].h.Meta
		no, okNo := m.Int(splitNoKey)
		total, okTotal := m.Int(splitCountKey)
		if !okNo || !okTotal || no != int64(k) || total != n {
			return fmt.Errorf("gguf: %s: says it is part %d of %d, want %d of %d", SplitName(prefix, k, count), no+1, total, k+1, n)
		}
	}
	if err := g.join(); err != nil {
		return err
	}
	if want, ok := g.parts[0].h.Meta.Int(splitTensorsKey); ok && want != int64(len(g.tensors)) {
		return fmt.Errorf("gguf: %s: the parts have %d tensors, want %d", path, len(g.tensors), want)
	}
	return nil
}

func openPart(path string) (part, error) {
	f, err := regular.Open(path)
	if err != nil {
		return part{}, fmt.Errorf("gguf: %w", err)
	}
	st, err := f.Stat()
	if err == nil {
		var h *Header
		if h, err = ReadHeader(io.NewSectionReader(f, 0, st.Size()), st.Size()); err == nil {
			return part{f, h}, nil
		}
	}
	f.Close() // read only; the first error says what is wrong
	return part{}, fmt.Errorf("%w (in %s)", err, path)
}

// join lists the tensors of all parts.
func (g *File) join() error {
	for k, p := range g.parts {
		for _, i := range p.h.Tensors {
			i.File = k
			if _, twice := g.index[i.Name]; twice {
				return fmt.Errorf("gguf: tensor %q appears in two parts (the second is %s)", i.Name, p.f.Name())
			}
			g.index[i.Name] = len(g.tensors)
			g.tensors = append(g.tensors, i)
		}
	}
	return nil
}

// Header returns the header of the first part, which has the model's metadata. It is shared: do not change it.
func (g *File) Header() *Header { return g.parts[0].h }

// Meta returns the model's metadata. It is shared: do not change it.
func (g *File) Meta() Metadata { return g.parts[0].h.Meta }

// DropMeta gives the metadata up, of which a vocabulary is megabytes. What Meta and Header have returned before stays as it is.
func (g *File) DropMeta() {
	for k := range g.parts {
		h := *g.parts[k].h
		h.Meta = nil
		g.parts[k].h = &h
	}
}

// Paths returns the names of the files.
func (g *File) Paths() []string {
	var paths []string
	for _, p := range g.parts {
		paths = append(paths, p.f.Name())
	}
	return paths
}

// Tensors returns the tensors in the order of the headers. The shapes are shared: do not change them.
func (g *File) Tensors() []Info { return slices.Clone(g.tensors) }

// Tensor returns the tensor of that name, if there is one.
func (g *File) Tensor(name string) (Info, bool) {
	k, ok := g.index[name]
	if !ok {
		return Info{}, false
	}
	return g.tensors[k], true
}

// ReadInto reads a whole tensor, as it is stored but little-endian, into dst, which must be just as long.
func (g *File) ReadInto(name string, dst []byte) error {
	if i, ok := g.Tensor(name); ok && int64(len(dst)) != i.Bytes {
		return fmt.Errorf("gguf: tensor %q: has %d bytes, the buffer %d", name, i.Bytes, len(dst))
	}
	return g.ReadRange(name, dst, 0)
}

// ReadRange reads the bytes of a tensor from offset on, counted from its beginning, until dst is full. Of a big-endian file it reads
// whole blocks only.
func (g *File) ReadRange(name string, dst []byte, offset int64) error {
	i, ok := g.Tensor(name)
	if !ok {
		return fmt.Errorf("gguf: tensor %q is not in %s", name, g.parts[0].f.Name())
	}
	if offset < 0 || offset > i.Bytes || int64(len(dst)) > i.Bytes-offset {
		return fmt.Errorf("gguf: tensor %q: has %d bytes, want %d from %d on", name, i.Bytes, len(dst), offset)
	}
	p, block := g.parts[i.File], int64(i.Type.BlockBytes())
	if p.h.BigEndian && (offset%block != 0 || int64(len(dst))%block != 0) {
		return fmt.Errorf("gguf: tensor %q: is big-endian, want whole blocks of %d bytes, not %d from %d on", name, block, len(dst), offset)
	}
	if len(dst) == 0 {
		return nil
	}
	if _, err := p.f.ReadAt(dst, i.Offset+offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("gguf: tensor %q: %w", name, err)
	}
	if p.h.BigEndian {
		if err := quant.SwapBytes(i.Type, dst); err != nil {
			return fmt.Errorf("gguf: tensor %q: %w", name, err)
		}
	}
	return nil
}

// Close closes the files.
func (g *File) Close() error {
	var errs []error
	for _, p := range g.parts {
		if p.f != nil {
			errs = append(errs, p.f.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	return nil
}

var splitPattern = regexp.MustCompile(`^(.+)-(\d{5})-of-(\d{5})\.gguf$`)

// SplitName is the path of part i of n, from 0, as llama.cpp names them.
func SplitName(prefix string, i, n int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, n)
}

// SplitPath takes the path of a part apart. i counts from 0.
func SplitPath(path string) (prefix string, i, n int, ok bool) {
	dir, name := filepath.Split(path)
	m := splitPattern.FindStringSubmatch(name)
	if m == nil {
		return "", 0, 0, false
	}
	i, _ = strconv.Atoi(m[2]) // five digits
	n, _ = strconv.Atoi(m[3])
	if i < 1 || i > n {
		return "", 0, 0, false
	}
	return dir + m[1], i - 1, n, true
}
