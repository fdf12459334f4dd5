package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"loadline/internal/whole"
	"loadline/model"
	"loadline/model/safetensors"
	"loadline/tensor/dtype"
)

// runBytes is the buffer in which strided elements are gathered and scattered.
const runBytes = 32 << 10

// ModelFile is model.safetensors being written State by State, each in pieces of any number of elements. The States lie in published
// tensors, perhaps transposed or beside others, so bytes go to their places in any order.
//
// Invariant: Close accepts the file only when every element of every State has been written once.
type ModelFile struct {
	w       *Writer
	f       *os.File
	offset  map[string]int64 // of each published tensor
	width   map[string]int   // bytes of an element, of each State
	params  passing
	bytes   int64 // of the file
	scratch [runBytes]byte
}

// progress is how much of a State has passed.
type progress struct {
	model.Param
	at int // elements
}

// passing is the progress of every State, by name and in the model's order.
type passing struct {
	order []*progress
	named map[string]*progress
}

func follow(params []model.Param) passing {
	all := passing{named: make(map[string]*progress, len(params))}
	for _, p := range params {
		x := &progress{Param: p}
		all.order = append(all.order, x)
		all.named[p.Name] = x
	}
	return all
}

// fileType is the name in the file of a type in which States are stored.
func fileType(t dtype.Type) safetensors.DType {
	switch t {
	case dtype.BF16:
		return safetensors.BF16
	case dtype.F16:
		return safetensors.F16
	}
	return safetensors.F32
}

// published lists the tensors that params lie in, in order of first use, the wider types first. States that share a tensor have one type.
func published(params []model.Param, types func(state string) dtype.Type) []safetensors.Info {
	var infos []safetensors.Info
	seen := map[string]bool{}
	for _, p := range params {
		for _, c := range p.Pieces {
			if seen[c.Name] {
				continue
			}
			seen[c.Name] = true
			i := safetensors.Info{Name: c.Name, DType: fileType(types(p.Name))}
			for _, n := range c.Shape {
				i.Shape = append(i.Shape, int64(n))
			}
			infos = append(infos, i)
		}
	}
	slices.SortStableFunc(infos, func(a, b safetensors.Info) int { return int(b.DType.Bytes() - a.DType.Bytes()) })
	return infos
}

// Model begins model.safetensors for the parameters of a model; types tells the type of each State's storage: F32, BF16 or F16.
func (w *Writer) Model(params []model.Param, types func(state string) dtype.Type) (*ModelFile, error) {
	m := &ModelFile{w: w, params: follow(params), offset: map[string]int64{}, width: map[string]int{}}
	for _, p := range params {
		m.width[p.Name] = int(types(p.Name).Bytes(1))
	}
	if err := m.open(published(params, types)); err != nil {
		return nil, fmt.Errorf("checkpoint: step %d: %s: %w", w.step, ModelName, err)
	}
	return m, nil
}

// open makes the file with its header and its full length.
func (m *ModelFile) open(infos []safetensors.Info) (err error) {
	path := filepath.Join(m.w.temp, ModelName)
	if err := m.w.dir.before("create", path); err != nil {
		return err
	}
	header, infos, err := header(path, infos)
	if err != nil {
		return err
	}
	for _, i := range infos {
		m.offset[i.Name] = i.Offset
		m.bytes = i.Offset + i.Bytes
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(header); err != nil {
		return errors.Join(err, f.Close())
	}
	m.f = f
	return nil
}

// header returns the bytes before the first tensor, and the tensors with their places: what safetensors.Create writes first.
func header(path string, infos []safetensors.Info) ([]byte, []safetensors.Info, error) {
	s, err := safetensors.Create(path, infos, map[string]string{"format": "pt"})
	if err != nil {
		return nil, nil, err
	}
	infos = s.Tensors()
	p := make([]byte, infos[0].Offset) //mem:ok a hundred bytes a tensor, gone when written
	f, err := os.Open(path + whole.Suffix)
	if err == nil {
		_, err = io.ReadFull(f, p)
		err = errors.Join(err, f.Close())
	}
	return p, infos, errors.Join(err, s.Abort())
}

// Write takes the next bytes of a State, elements of its type.
func (m *ModelFile) Write(state string, p []byte) error {
	x := m.params.named[state]
	if x == nil {
		return fmt.Errorf("checkpoint: %q is no weight of the model", state)
	}
	w := m.width[state]
	n := len(p) / w
	if len(p)%w != 0 || n > x.Elems()-x.at {
		return fmt.Errorf("checkpoint: weight %q: has %d elements, got %d bytes after %d", state, x.Elems(), len(p), x.at)
	}
	err := m.w.dir.before("write", m.f.Name())
	if err == nil {
		x.Runs(x.at, n, func(r model.Run) bool {
			err = m.run(&x.Pieces[r.Piece], r, p, w)
			return err == nil
		})
	}
	if err != nil {
		return fmt.Errorf("checkpoint: step %d: %s: %w", m.w.step, ModelName, err)
	}
	x.at += n
	return nil
}

// run writes one stretch of elements of w bytes.
func (m *ModelFile) run(c *model.Piece, r model.Run, p []byte, w int) error {
	at := m.offset[c.Name] + int64(w)*int64(r.At)
	if r.Stride == 1 {
		_, err := m.f.WriteAt(p[w*r.Range:w*(r.Range+r.N)], at)
		return err
	}
	for done := 0; done < r.N; {
		k := min(r.N-done, runBytes/w)
		for i := range k {
			src := w * (r.Range + (done+i)*r.Stride)
			copy(m.scratch[w*i:w*(i+1)], p[src:src+w])
		}
		if _, err := m.f.WriteAt(m.scratch[:w*k], at+int64(w)*int64(done)); err != nil {
			return err
		}
		done += k
	}
	return nil
}

// Close completes the file and leaves it on the disk.
func (m *ModelFile) Close() error {
	err := m.complete()
	if err = errors.Join(err, m.f.Close()); err != nil {
		return fmt.Errorf("checkpoint: step %d: %s: %w", m.w.step, ModelName, err)
	}
	return nil
}

func (m *ModelFile) complete() error {
	for _, x := range m.params.order {
		if x.at != x.Elems() {
			return fmt.Errorf("weight %q has %d elements, got %d", x.Name, x.Elems(), x.at)
		}
	}
	st, err := m.f.Stat()
	if err != nil {
		return err
	}
	if st.Size() != m.bytes {
		return fmt.Errorf("%d bytes, want %d", st.Size(), m.bytes)
	}
	if err := m.w.dir.before("sync", m.f.Name()); err != nil {
		return err
	}
	return m.f.Sync()
}

// Abort gives the file up.
func (m *ModelFile) Abort() { _ = m.f.Close() } // the directory goes as a whole
