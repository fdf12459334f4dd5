// Package golden reads the reference tensors and loss curves that tests compare with, and compares.
//
// A Set is one safetensors file, read whole. Anything wrong with a file, a name or a type fails the test at once, since the files
// are committed and a test without them proves nothing. Invariant: every tensor of a Set has exactly as many values as its shape says.
//
// It reads F32, F64 and I32 only, copies every value, and trusts nothing about alignment. It is for tests: it is not the reader of
// users' checkpoints, checks no file for hostile sizes beyond its own length, and accounts no memory.
//
// Format: https://huggingface.co/docs/safetensors, "Format".
package golden

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// Set is the tensors of one file.
type Set struct {
	t       testing.TB
	path    string
	entries map[string]entry
	data    []byte
}

// entry is one tensor's header as the format spells it.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"` // begin and end in data
}

// widths holds the bytes of one value of each type this package reads.
var widths = map[string]int{"F32": 4, "F64": 8, "I32": 4}

// Load reads the safetensors file at path and fails t if it cannot.
func Load(t testing.TB, path string) *Set {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	entries, data, err := parse(file)
	if err != nil {
		t.Fatalf("golden: %s: %v", path, err)
	}
	return &Set{t: t, path: path, entries: entries, data: data}
}

// parse splits a file into its header and the bytes that the header's offsets count from.
func parse(file []byte) (map[string]entry, []byte, error) {
	if len(file) < 8 {
		return nil, nil, fmt.Errorf("want at least 8 bytes, file has %d", len(file))
	}
	headerBytes := binary.LittleEndian.Uint64(file)
	if headerBytes > uint64(len(file)-8) {
		return nil, nil, fmt.Errorf("header of %d bytes in a file of %d", headerBytes, len(file))
	}
	header, data := file[8:8+headerBytes], file[8+headerBytes:]
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(header, &raw); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	delete(raw, "__metadata__")
	entries := make(map[string]entry, len(raw))
	for name, text := range raw {
		var e entry
		if err := json.Unmarshal(text, &e); err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		width, known := widths[e.DType]
		if !known {
			return nil, nil, fmt.Errorf("tensor %q: want F32, F64 or I32, file has %s", name, e.DType)
		}
		begin, end := e.Offsets[0], e.Offsets[1]
		if begin < 0 || begin > end || end > len(data) {
			return nil, nil, fmt.Errorf("tensor %q: bytes %d to %d of %d", name, begin, end, len(data))
		}
		want := width
		for _, d := range e.Shape {
			if d < 0 || d > len(data) {
				return nil, nil, fmt.Errorf("tensor %q: shape %v in a file of %d bytes of data", name, e.Shape, len(data))
			}
			want *= d
		}
		if end-begin != want {
			return nil, nil, fmt.Errorf("tensor %q: %s %v wants %d bytes, file has %d", name, e.DType, e.Shape, want, end-begin)
		}
		entries[name] = e
	}
	return entries, data, nil
}

// Names returns the tensors' names, sorted.
func (s *Set) Names() []string {
	names := make([]string, 0, len(s.entries))
	for name := range s.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Has reports whether there is a tensor called name.
func (s *Set) Has(name string) bool {
	_, ok := s.entries[name]
	return ok
}

// Shape returns the shape of a tensor, as a copy.
func (s *Set) Shape(name string) []int {
	s.t.Helper()
	return slices.Clone(s.entry(name, "").Shape)
}

// F32 returns a copy of a float32 tensor's values, row-major, and its shape.
func (s *Set) F32(name string) ([]float32, []int) {
	s.t.Helper()
	return decode(s, name, "F32", func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
}

// F64 returns a copy of a float64 tensor's values, row-major, and its shape.
func (s *Set) F64(name string) ([]float64, []int) {
	s.t.Helper()
	return decode(s, name, "F64", func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
}

// I32 returns a copy of an int32 tensor's values, row-major, and its shape.
func (s *Set) I32(name string) ([]int32, []int) {
	s.t.Helper()
	return decode(s, name, "I32", func(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) })
}

// decode copies the values of a tensor that must have type dtype.
func decode[T any](s *Set, name, dtype string, value func([]byte) T) ([]T, []int) {
	s.t.Helper()
	e := s.entry(name, dtype)
	data, width := s.data[e.Offsets[0]:e.Offsets[1]], widths[dtype]
	out := make([]T, len(data)/width) //mem:ok only tests read goldens
	for i := range out {
		out[i] = value(data[i*width:])
	}
	return out, slices.Clone(e.Shape)
}

// entry returns a tensor's header and fails the test if there is none, or if dtype is not "" and not the tensor's.
func (s *Set) entry(name, dtype string) entry {
	s.t.Helper()
	e, ok := s.entries[name]
	if !ok {
		s.t.Fatalf("golden: %s: no tensor %q", s.path, name)
	}
	if dtype != "" && e.DType != dtype {
		s.t.Fatalf("golden: %s: tensor %q: want %s, file has %s", s.path, name, dtype, e.DType)
	}
	return e
}
