package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"loadline/compile"
	"loadline/device"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/model"
	"loadline/model/weights"
	"loadline/tensor/dtype"
	"loadline/train/checkpoint"
)

// resumeFrom finds the checkpoint to go on from; none has an empty path.
func (t *Trainer) resumeFrom() (checkpoint.Entry, error) {
	path := t.env.Resume
	if path == "" {
		return checkpoint.Entry{}, nil
	}
	if _, err := os.Stat(filepath.Join(path, checkpoint.TrainerName)); err == nil {
		s, err := checkpoint.ReadState(path)
		if err != nil {
			return checkpoint.Entry{}, err
		}
		return checkpoint.Entry{Step: s.Step, Path: path}, nil
	}
	e, err := checkpoint.Latest(path)
	if errors.Is(err, checkpoint.ErrNone) {
		return checkpoint.Entry{}, nil
	}
	return e, err
}

// start fills the States of step 0.
func (t *Trainer) start() error {
	if t.env.Weights != "" {
		m, err := t.openModel(t.env.Weights)
		if err := t.agree(err); err != nil {
			return errors.Join(err, closeModel(m))
		}
		err = t.restore(InitProgram, func(s *state, at int, p []byte) error { return m.ReadAt(s.weight(), at, p) })
		return errors.Join(err, closeModel(m))
	}
	return t.restore(InitProgram, t.fresh)
}

// fresh makes start values, element by element the same on any rank.
func (t *Trainer) fresh(s *state, at int, p []byte) error {
	model.Fill(t.params[s.weight()], t.o.Seed, at, arena.F32(p))
	return nil
}

// openModel opens a model and checks that it is the one that the job trains.
func (t *Trainer) openModel(path string) (*weights.Model, error) {
	m, err := checkpoint.OpenModel(path)
	if err != nil {
		return nil, err
	}
	have := *t.o
	have.Config = m.Config
	if a, b := have.agree()["model"], t.o.agree()["model"]; a != b {
		return nil, errors.Join(&checkpoint.Disagreement{Name: "model", Have: a, Want: b}, m.Close())
	}
	return m, nil
}

func closeModel(m *weights.Model) error {
	if m == nil {
		return nil
	}
	return m.Close()
}

// resume fills the States from a checkpoint.
func (t *Trainer) resume(e checkpoint.Entry) error {
	r, err := t.openCheckpoint(e.Path)
	if err := t.agree(err); err != nil {
		return errors.Join(err, r.close())
	}
	err = t.restore(ResumeProgram, func(s *state, at int, p []byte) error {
		if s.purpose == mem.Weights {
			return r.model.ReadAt(s.name, at, p)
		}
		return r.moments.ReadAt(checkpoint.Moment{Name: s.name, Elems: s.elems()}, at, p)
	})
	if err := errors.Join(err, r.close()); err != nil {
		return err
	}
	t.step, t.last = r.state.Step, e.Path
	if t.env.Out != nil && sameFile(filepath.Dir(e.Path), t.env.Out.Path) {
		t.saved = t.step
	}
	t.losses, t.valLosses = r.state.Losses, r.state.ValLosses
	if t.scaler != nil {
		return t.scaler.Restore(*r.state.LossScale)
	}
	return nil
}

// sameFile tells whether two paths name one directory.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// reader is an open checkpoint.
type reader struct {
	state   *checkpoint.State
	model   *weights.Model
	moments *checkpoint.Moments
}

func (r *reader) close() error {
	err := closeModel(r.model)
	if r.moments != nil {
		err = errors.Join(err, r.moments.Close())
	}
	return err
}

// openCheckpoint opens and checks everything that resuming needs, and moves the stream of tokens. Rank 0 reads all files for their
// checksums, so that damage is found before anything is built on it.
func (t *Trainer) openCheckpoint(path string) (*reader, error) {
	r := &reader{}
	var err error
	if r.state, err = checkpoint.ReadState(path); err != nil {
		return r, err
	}
	if err := r.state.Check(t.o.agree()); err != nil {
		return r, err
	}
	if t.scaler != nil && r.state.LossScale == nil {
		return r, fmt.Errorf("train: resume: %s holds no loss scale", path)
	}
	if t.group.Rank() == 0 {
		if err := r.state.Verify(path); err != nil {
			return r, err
		}
	}
	if r.model, err = t.openModel(path); err != nil {
		return r, err
	}
	if r.moments, err = checkpoint.OpenMoments(path, r.state, t.moments()); err != nil {
		return r, err
	}
	if err := t.env.Train.Seek(r.state.Position); err != nil {
		return r, fmt.Errorf("train: resume: %w", err)
	}
	return r, nil
}

// moments lists the masters and the optimizer's States.
func (t *Trainer) moments() []checkpoint.Moment {
	var all []checkpoint.Moment
	for i := range t.job.states {
		if s := &t.job.states[i]; s.kept() {
			all = append(all, checkpoint.Moment{Name: s.name, Elems: s.elems()})
		}
	}
	return all
}

// restore runs a program whose Restores are fed by read, which fills p with float32 elements of a whole State from element at on; they
// are rounded where the State is narrow. Where this rank holds a shard it is asked for that; what a shard's buffer has beyond it is 0.
func (t *Trainer) restore(program string, read func(s *state, at int, p []byte) error) error {
	clear(t.at)
	var failed error
	err := t.session.Run(program, device.Args{Source: func(name string, p []byte) error {
		s := t.states[compile.StateOf(name)]
		lo, hi := s.shard(t.group.Size(), t.group.Rank())
		at := t.at[s.name]
		w := s.width()
		t.at[s.name] += len(p) / w
		n := max(0, min(len(p)/w, hi-lo-at))
		clear(p[w*n:])
		if failed == nil && n > 0 {
			failed = t.fill(s, lo+at, p[:w*n], read)
		}
		return nil // the run goes to its end, so that no rank waits in a collective for one that failed
	}})
	if failed != nil {
		err = failed
	}
	if err := t.agree(err); err != nil {
		return fmt.Errorf("train: %s: %w", program, err)
	}
	return nil
}

// fill fills p, elements of a State in its storage type from element at on, from what read gives in float32.
func (t *Trainer) fill(s *state, at int, p []byte, read func(s *state, at int, p []byte) error) error {
	round := dtype.ToBF16
	switch s.typ.DType {
	case dtype.F32:
		return read(s, at, p)
	case dtype.F16:
		round = dtype.ToF16
	}
	for len(p) > 0 {
		wide := t.wide[:min(2*len(p), len(t.wide))]
		if err := read(s, at, wide); err != nil {
			return err
		}
		x := arena.F32(wide)
		for i, v := range x {
			binary.LittleEndian.PutUint16(p[2*i:], round(v))
		}
		at, p = at+len(x), p[2*len(x):]
	}
	return nil
}
