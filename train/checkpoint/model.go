package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"loadline/model"
	"loadline/model/safetensors"
	"loadline/tensor/dtype"
)

// Model is an open checkpoint with Hugging Face's files: one of ours, or a published one of F32, F16 or BF16 tensors in one file.
type Model struct {
	Path      string // the directory of the files
	Config    model.Config
	Tokenizer string // path of tokenizer.json; empty if there is none

	f       *safetensors.File
	params  passing
	scratch [runBytes]byte
}

// OpenModel opens the checkpoint at path, or the newest one in it, and checks that every tensor of the model is there with the shape
// that the configuration asks for.
func OpenModel(path string) (*Model, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if _, err := os.Stat(filepath.Join(path, ConfigName)); err != nil {
		e, err := Latest(path)
		if errors.Is(err, ErrNone) {
			return nil, fmt.Errorf("checkpoint: %s holds neither %s nor a checkpoint: %w", path, ConfigName, ErrNone)
		}
		if err != nil {
			return nil, err
		}
		path = e.Path
	}
	c, err := model.ReadConfig(filepath.Join(path, ConfigName))
	if err != nil {
		return nil, missing(path, ConfigName, err)
	}
	m := &Model{Path: path, Config: c, params: follow(c.Parameters())}
	if m.f, err = safetensors.Open(filepath.Join(path, ModelName)); err != nil {
		return nil, missing(path, ModelName, err)
	}
	if err := m.check(); err != nil {
		return nil, errors.Join(damaged(path, err), m.f.Close())
	}
	if t := filepath.Join(path, TokenizerName); exists(t) {
		m.Tokenizer = t
	}
	return m, nil
}

// missing says that a file of a checkpoint is not there or not what it should be; an unreadable one is not called damaged.
func missing(path, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(path, fmt.Errorf("%s is missing", name))
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return damaged(path, err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// check compares the file's tensors with the model's.
func (m *Model) check() error {
	for _, x := range m.params.order {
		for i := range x.Pieces {
			c := &x.Pieces[i]
			t, ok := m.tensor(c.Name)
			if !ok {
				return fmt.Errorf("tensor %q is missing", c.Name)
			}
			c.Name = t.Name
			if !sameShape(t.Shape, c.Shape) {
				return fmt.Errorf("tensor %q: want %v, file has %v", c.Name, c.Shape, t.Shape)
			}
			switch t.DType {
			case safetensors.F32, safetensors.F16, safetensors.BF16:
			default:
				return fmt.Errorf("tensor %q is %s: want F32, F16 or BF16", c.Name, t.DType)
			}
		}
	}
	return nil
}

// tensor finds a published tensor, also without the prefix that GPT-2's files lack.
func (m *Model) tensor(name string) (safetensors.Info, bool) {
	if t, ok := m.f.Tensor(name); ok {
		return t, true
	}
	return m.f.Tensor(strings.TrimPrefix(name, "transformer."))
}

func sameShape(a []int64, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != int64(b[i]) {
			return false
		}
	}
	return true
}

// Has tells whether a State is a weight of the model.
func (m *Model) Has(state string) bool { return m.params.named[state] != nil }

// Source fills p with the next float32 elements of a State; after the last one comes the first again. It is a device.Args.Source.
func (m *Model) Source(state string, p []byte) error {
	x := m.params.named[state]
	if x == nil {
		return fmt.Errorf("checkpoint: %q is no weight of the model", state)
	}
	if err := m.ReadAt(state, x.at, p); err != nil {
		return err
	}
	x.at = (x.at + len(p)/4) % x.Elems()
	return nil
}

// Rewind lets Source begin again.
func (m *Model) Rewind() {
	for _, x := range m.params.order {
		x.at = 0
	}
}

// ReadAt fills p with float32 elements of a State, from element at on.
func (m *Model) ReadAt(state string, at int, p []byte) error {
	x := m.params.named[state]
	if x == nil {
		return fmt.Errorf("checkpoint: %q is no weight of the model", state)
	}
	n := len(p) / 4
	if len(p)%4 != 0 || at < 0 || n > x.Elems()-at {
		return fmt.Errorf("checkpoint: weight %q: has %d elements, want %d bytes after %d", state, x.Elems(), len(p), at)
	}
	var err error
	x.Runs(at, n, func(r model.Run) bool {
		err = m.run(x.Pieces[r.Piece].Name, r, p)
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %s: %w", m.Path, err)
	}
	return nil
}

// run reads one stretch.
func (m *Model) run(name string, r model.Run, p []byte) error {
	t, _ := m.f.Tensor(name)
	w := int(t.DType.Bytes())
	if r.Stride == 1 && t.DType == safetensors.F32 {
		return m.f.ReadRange(name, p[4*r.Range:4*(r.Range+r.N)], 4*int64(r.At))
	}
	for done := 0; done < r.N; {
		k := min(r.N-done, runBytes/w)
		s := m.scratch[:k*w]
		if err := m.f.ReadRange(name, s, int64(w)*int64(r.At+done)); err != nil {
			return err
		}
		for i := range k {
			var bits uint32
			switch t.DType {
			case safetensors.F32:
				bits = binary.LittleEndian.Uint32(s[4*i:])
			case safetensors.F16:
				bits = math.Float32bits(dtype.FromF16(binary.LittleEndian.Uint16(s[2*i:])))
			case safetensors.BF16:
				bits = math.Float32bits(dtype.FromBF16(binary.LittleEndian.Uint16(s[2*i:])))
			}
			binary.LittleEndian.PutUint32(p[4*(r.Range+(done+i)*r.Stride):], bits)
		}
		done += k
	}
	return nil
}

// Close closes the files.
func (m *Model) Close() error { return m.f.Close() }
