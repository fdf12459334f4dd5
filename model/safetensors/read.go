package safetensors

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"loadline/internal/regular"
)

// File is an open file. It may be read from any number of goroutines.
type File struct {
	f     *os.File
	infos []Info
	index map[string]int
	meta  map[string]string
}

// Open opens a file and checks it. The caller closes it.
func Open(path string) (*File, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	s, err := open(f)
	if err != nil {
		f.Close() // read only; the first error says what is wrong
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return s, nil
}

func open(f *os.File) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	infos, meta, err := readHeader(f, st.Size())
	if err != nil {
		return nil, err
	}
	s := &File{f: f, infos: infos, index: make(map[string]int, len(infos)), meta: meta}
	for k, i := range infos {
		s.index[i.Name] = k
	}
	return s, nil
}

// Tensors returns the tensors in the order of the file. The shapes are shared: do not change them.
func (s *File) Tensors() []Info { return slices.Clone(s.infos) }

// Tensor returns the tensor of that name, if there is one.
func (s *File) Tensor(name string) (Info, bool) {
	k, ok := s.index[name]
	if !ok {
		return Info{}, false
	}
	return s.infos[k], true
}

// Metadata returns the texts that the file carries beside its tensors; empty if none.
func (s *File) Metadata() map[string]string {
	if s.meta == nil {
		return map[string]string{}
	}
	return maps.Clone(s.meta)
}

// ReadInto reads a whole tensor into dst, which must be just as long.
func (s *File) ReadInto(name string, dst []byte) error {
	if i, ok := s.Tensor(name); ok && int64(len(dst)) != i.Bytes {
		return fmt.Errorf("safetensors: tensor %q: has %d bytes, the buffer %d", name, i.Bytes, len(dst))
	}
	return s.ReadRange(name, dst, 0)
}

// ReadRange reads the bytes of a tensor from offset on, counted from its beginning, until dst is full.
func (s *File) ReadRange(name string, dst []byte, offset int64) error {
	i, ok := s.Tensor(name)
	if !ok {
		return fmt.Errorf("safetensors: tensor %q is not in %s", name, s.f.Name())
	}
	if offset < 0 || offset > i.Bytes || int64(len(dst)) > i.Bytes-offset {
		return fmt.Errorf("safetensors: tensor %q: has %d bytes, want %d from %d on", name, i.Bytes, len(dst), offset)
	}
	if _, err := s.f.ReadAt(dst, i.Offset+offset); err != nil && len(dst) > 0 {
		return fmt.Errorf("safetensors: tensor %q: %w", name, noEOF(err))
	}
	return nil
}

// Close closes the file.
func (s *File) Close() error {
	if err := s.f.Close(); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}
