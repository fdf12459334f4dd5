package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"loadline/internal/regular"
)

// Bounds of a set of files. The index of the largest published model has 20 MB and some 160 files.
const (
	maxIndexBytes = 64 << 20
	maxShards     = 4096
)

// index is a model.safetensors.index.json.
type index struct {
	Metadata struct {
		TotalSize int64 `json:"total_size"`
	} `json:"metadata"`
	WeightMap map[string]string `json:"weight_map"`
}

// Set is the open files of one model, read as if they were one. It may be read from any number of goroutines.
type Set struct {
	files []*File
	infos []Info
	place map[string]*File
}

// OpenSet opens a model: a safetensors file, an index with the files that it names beside it, or a directory that holds one or the
// other under their usual names. The caller closes it.
func OpenSet(path string) (*Set, error) {
	if st, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	} else if st.IsDir() {
		dir := path
		path = filepath.Join(dir, ModelName)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = filepath.Join(dir, IndexName)
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("safetensors: %s has neither %s nor %s", dir, ModelName, IndexName)
			}
		}
	}
	s := &Set{place: map[string]*File{}}
	var err error
	if strings.HasSuffix(path, ".json") {
		err = s.openIndex(path)
	} else {
		err = s.openFile(path, func(string) bool { return true })
	}
	if err != nil {
		s.Close() // read only; the first error says what is wrong
		return nil, err
	}
	return s, nil
}

// openFile adds the tensors of a file that are wanted.
func (s *Set) openFile(path string, want func(name string) bool) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	for _, i := range f.infos {
		if want(i.Name) {
			s.infos = append(s.infos, i)
			s.place[i.Name] = f
		}
	}
	return nil
}

// openIndex opens the files that an index names. Tensors of theirs that it does not list are passed over.
func (s *Set) openIndex(path string) error {
	p, err := regular.ReadAll(path, maxIndexBytes)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	weights, names, err := parseIndex(p)
	if err != nil {
		return fmt.Errorf("%w (in %s)", err, path)
	}
	for _, name := range names {
		if err := s.openFile(filepath.Join(filepath.Dir(path), name), func(tensor string) bool { return weights[tensor] == name }); err != nil {
			return err
		}
	}
	for tensor, name := range weights {
		if s.place[tensor] == nil {
			return fmt.Errorf("safetensors: tensor %q: %s says it is in %s, which has no such tensor", tensor, path, name)
		}
	}
	return nil
}

// parseIndex returns which file every tensor is in, and the files in order.
func parseIndex(p []byte) (weights map[string]string, files []string, err error) {
	var x index
	if err := json.Unmarshal(p, &x); err != nil {
		return nil, nil, fmt.Errorf("safetensors: index: %w", err)
	}
	if len(x.WeightMap) == 0 {
		return nil, nil, errors.New("safetensors: index: has no weight_map")
	}
	seen := map[string]bool{}
	for tensor, name := range x.WeightMap {
		if seen[name] {
			continue
		}
		if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\\\x00:") || !strings.HasSuffix(name, ".safetensors") {
			return nil, nil, fmt.Errorf("safetensors: index: tensor %q is in %q, want the name of a .safetensors file beside it", tensor, name)
		}
		seen[name] = true
		files = append(files, name)
	}
	if len(files) > maxShards {
		return nil, nil, fmt.Errorf("safetensors: index: names %d files, want at most %d", len(files), maxShards)
	}
	slices.Sort(files)
	return x.WeightMap, files, nil
}

// Tensors returns the tensors in the order of the files and within them. Offsets are within each one's file. The shapes are shared: do
// not change them.
func (s *Set) Tensors() []Info { return slices.Clone(s.infos) }

// Tensor returns the tensor of that name, if there is one.
func (s *Set) Tensor(name string) (Info, bool) {
	f := s.place[name]
	if f == nil {
		return Info{}, false
	}
	return f.Tensor(name)
}

// Metadata returns the texts that the first file carries beside its tensors; empty if none.
func (s *Set) Metadata() map[string]string { return s.files[0].Metadata() }

// ReadInto reads a whole tensor into dst, which must be just as long.
func (s *Set) ReadInto(name string, dst []byte) error {
	f := s.place[name]
	if f == nil {
		return fmt.Errorf("safetensors: tensor %q is not in %s", name, s.files[0].f.Name())
	}
	return f.ReadInto(name, dst)
}

// ReadRange reads the bytes of a tensor from offset on, counted from its beginning, until dst is full.
func (s *Set) ReadRange(name string, dst []byte, offset int64) error {
	f := s.place[name]
	if f == nil {
		return fmt.Errorf("safetensors: tensor %q is not in %s", name, s.files[0].f.Name())
	}
	return f.ReadRange(name, dst, offset)
}

// Close closes the files.
func (s *Set) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Paths returns the names of the files.
func (s *Set) Paths() []string {
	var paths []string
	for _, f := range s.files {
		paths = append(paths, f.f.Name())
	}
	return paths
}
