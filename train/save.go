package train

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"loadline/compile"
	"loadline/device"
	"loadline/mem"
	"loadline/model"
	"loadline/model/safetensors"
	"loadline/tensor"
	"loadline/tensor/dtype"
	"loadline/train/checkpoint"
)

// Save writes a checkpoint of the step that is done, and returns its path. Every rank calls it at the same step. Tensors go from the
// device's staging buffer to the files; an error on any rank is one on all, and leaves what was there before.
func (t *Trainer) Save() (string, error) {
	if t.broken != nil {
		return "", t.broken
	}
	if t.saved == t.step {
		return t.last, nil
	}
	s := &saver{Trainer: t}
	err := t.agree(s.begin())
	if err == nil {
		err = t.agree(s.open())
	}
	if err == nil {
		err = t.agree(s.stream())
	}
	var path string
	if err == nil {
		if t.group.Rank() == 0 {
			path, err = s.w.Commit(s.state())
		}
		err = t.agree(err)
	}
	if err != nil {
		s.abort()
		return "", err
	}
	if path == "" {
		e, err := checkpoint.Latest(t.env.Out.Path)
		if err != nil {
			return "", err
		}
		path = e.Path
	}
	t.saved, t.last = t.step, path
	return path, nil
}

// saver is a save in progress on one rank.
type saver struct {
	*Trainer
	w       *checkpoint.Writer     // nil before begin
	model   *checkpoint.ModelFile  // of rank 0; nil when closed
	moments *checkpoint.TensorFile // nil where rank 0 writes for all, or when closed
	infos   []safetensors.Info
}

// begin makes the directory.
func (s *saver) begin() (err error) {
	if s.group.Rank() == 0 {
		s.w, err = s.env.Out.Begin(s.step)
	} else {
		s.w = s.env.Out.Join(s.step)
	}
	return err
}

// sharded tells whether every rank holds a part of the moments.
func (s *saver) sharded() bool { return s.o.Zero >= 1 }

// open begins the files that this rank writes.
func (s *saver) open() (err error) {
	rank, files := s.group.Rank(), 1
	if s.sharded() {
		files = s.group.Size()
	}
	if rank == 0 {
		params := s.o.Config.Parameters()
		types := func(name string) dtype.Type { return s.states[name].typ.DType }
		if s.model, err = s.w.Model(params, types); err != nil {
			return err
		}
		var elems int64
		for _, p := range params {
			elems += int64(p.Elems())
		}
		s.w.Expect(checkpoint.ModelName, elems)
		for r := range files {
			var n int64
			for _, i := range checkpoint.MomentInfos(s.Trainer.moments(), files, r) {
				n += i.Shape[0]
			}
			s.w.Expect(checkpoint.StateName(r), n)
		}
		if err := s.texts(); err != nil {
			return err
		}
	}
	if rank < files {
		s.moments, err = s.w.Tensors(checkpoint.StateName(rank), checkpoint.MomentInfos(s.Trainer.moments(), files, rank))
	}
	return err
}

// texts writes the small files.
func (s *saver) texts() error {
	config, err := model.EncodeConfig(s.o.Config)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(config))
		return err
	}
	if err := s.w.File(checkpoint.ConfigName, write); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.env.Files)) {
		if err := s.w.File(name, s.env.Files[name]); err != nil {
			return err
		}
	}
	return nil
}

// gathered is what the zero pass puts behind the name of a weight that it gathers.
const gathered = ".full"

// stream runs the save program into the open files and closes them.
func (s *saver) stream() error {
	clear(s.at)
	var failed error
	err := s.session.Run(SaveProgram, device.Args{Sink: func(name string, p []byte) error {
		x := s.states[strings.TrimSuffix(compile.StateOf(name), gathered)]
		if failed == nil && x == nil {
			failed = fmt.Errorf("train: the save program streams %q, which is no state", name)
		}
		if failed == nil {
			failed = s.take(x, p)
		}
		return nil // the run goes to its end, so that no rank waits in a collective for one that failed
	}})
	if failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if s.model != nil {
		if err := s.model.Close(); err != nil {
			return err
		}
		s.model = nil
	}
	if s.moments != nil {
		if err := s.moments.Close(); err != nil {
			return err
		}
		s.moments = nil
	}
	return nil
}

// take writes the next bytes of a State: weights come whole, masters and moments, which are f32, as this rank holds them.
func (s *saver) take(x *state, p []byte) error {
	if x.purpose == mem.Weights {
		if s.model == nil {
			return nil
		}
		return s.model.Write(x.name, p)
	}
	if s.moments == nil {
		return nil
	}
	files := 1
	if s.sharded() {
		files = s.group.Size()
	}
	lo, hi := x.shard(s.group.Size(), s.group.Rank()) // what this rank holds: its file's part, or more
	from, to := tensor.Shard(x.elems(), files, s.group.Rank())
	at := lo + s.at[x.name]
	s.at[x.name] += len(p) / 4
	from, to = max(from, at), min(to, hi, at+len(p)/4)
	if from >= to {
		return nil
	}
	return s.moments.Write(x.name, p[4*(from-at):4*(to-at)])
}

func (s *saver) state() checkpoint.State {
	x := checkpoint.State{
		Agree: s.o.agree(), Ranks: s.group.Size(), Sharded: s.sharded(), Position: s.env.Train.Position(),
		Losses: s.losses, ValLosses: s.valLosses, LR: s.o.LR, Kernels: s.env.Kernels,
	}
	if s.scaler != nil {
		x.LossScale = &s.scaler.LossScale
	}
	return x
}

// abort gives up what was begun.
func (s *saver) abort() {
	if s.model != nil {
		s.model.Abort()
	}
	if s.moments != nil {
		s.moments.Abort()
	}
	if s.w != nil && s.group.Rank() == 0 {
		_ = s.w.Abort() // the next Open of the directory removes what is left
	}
}
