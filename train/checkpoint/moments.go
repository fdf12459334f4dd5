package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"

	"loadline/model/safetensors"
	"loadline/tensor"
)

// Moment is a State of the optimizer: a flat tensor, whole in one file or cut into shards (tensor.Shard) over all files.
type Moment struct {
	Name  string
	Elems int // of the whole tensor
}

// Moments is the optimizer state of an open checkpoint. It may be read by any number of ranks, whatever the number that wrote it.
type Moments struct {
	path  string
	files []*safetensors.File
}

// MomentInfos lists the tensors of one rank's file; with ranks 1 those of the only file.
func MomentInfos(all []Moment, ranks, rank int) []safetensors.Info {
	infos := make([]safetensors.Info, len(all))
	for i, m := range all {
		lo, hi := tensor.Shard(m.Elems, ranks, rank)
		infos[i] = safetensors.Info{Name: m.Name, DType: safetensors.F32, Shape: []int64{int64(hi - lo)}}
	}
	return infos
}

// OpenMoments opens the files of a checkpoint that s describes and checks that they hold all of the States.
func OpenMoments(path string, s *State, all []Moment) (*Moments, error) {
	m := &Moments{path: path}
	for rank := range s.files() {
		f, err := safetensors.Open(filepath.Join(path, StateName(rank)))
		if err != nil {
			return nil, errors.Join(missing(path, StateName(rank), err), m.Close())
		}
		m.files = append(m.files, f)
		for _, i := range MomentInfos(all, s.files(), rank) {
			if t, ok := f.Tensor(i.Name); !ok || t.DType != i.DType || len(t.Shape) != 1 || t.Shape[0] != i.Shape[0] {
				err := fmt.Errorf("%s: want %q of %d elements", StateName(rank), i.Name, i.Shape[0])
				return nil, errors.Join(damaged(path, err), m.Close())
			}
		}
	}
	return m, nil
}

// ReadAt fills p with float32 elements of a State, from element at of the whole tensor on.
func (m *Moments) ReadAt(s Moment, at int, p []byte) error {
	for rank, f := range m.files {
		lo, hi := tensor.Shard(s.Elems, len(m.files), rank)
		from, to := max(lo, at), min(hi, at+len(p)/4)
		if from >= to {
			continue
		}
		if err := f.ReadRange(s.Name, p[4*(from-at):4*(to-at)], 4*int64(from-lo)); err != nil {
			return fmt.Errorf("checkpoint: %s: %w", m.path, err)
		}
	}
	return nil
}

// Close closes the files.
func (m *Moments) Close() error {
	var errs []error
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
