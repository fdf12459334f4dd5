package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/model"
	"loadline/train"
)

// Rig is training steps that are there to be timed: of one model, under one or several settings, open at once on one device. The
// settings share weights, moments and one arena, so that they can take turns, and a disturbance meets all of them alike. Weights are
// made up, tokens too.
type Rig struct {
	jobs    []*train.Job
	all     []*compile.Program // of all jobs
	session device.Session     // nil while it is not open
}

// Open compiles settings and opens them. They have to agree in what they keep between steps: the model, the precision, the optimizer.
func Open(dev device.Device, dir string, settings ...train.Options) (*Rig, error) {
	r, err := Compile(dev, settings...)
	if err != nil {
		return nil, err
	}
	return r, r.Open(dev, dir)
}

// Compile is a Rig that is not open.
func Compile(dev device.Device, settings ...train.Options) (*Rig, error) {
	r := &Rig{}
	for i, o := range settings {
		j, err := train.Compile(o, dev, train.FixedBytes{})
		if err != nil {
			return nil, err
		}
		r.jobs = append(r.jobs, j)
		for _, p := range r.programs(i) {
			if !slices.Contains(r.all, p) {
				p.Name = fmt.Sprintf("%d.%s", i, p.Name)
				r.all = append(r.all, p)
			}
		}
	}
	return r, nil
}

// Open opens what is compiled, on the device that it was compiled for, for the first time or again after Close. After an error nothing is held.
func (r *Rig) Open(dev device.Device, dir string) error {
	job, err := compile.NewJob(mem.Usage{}, r.all...)
	if err != nil {
		return err
	}
	if r.session, err = dev.Open(job, device.Env{Ledger: mem.NewLedger(mem.Limits{}), Dir: dir}); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if err := r.fill(job); err != nil {
		return errors.Join(err, r.Close())
	}
	return nil
}

// programs are what a step of setting i runs.
func (r *Rig) programs(i int) (out []*compile.Program) {
	j := r.jobs[i]
	for range j.Options.Accumulate {
		out = append(out, j.Step)
	}
	for _, name := range []string{train.NormProgram, train.UpdateProgram} {
		for _, p := range j.Programs {
			if p.Name == name || strings.HasSuffix(p.Name, "."+name) {
				out = append(out, p)
			}
		}
	}
	return out
}

// Job is setting i, compiled.
func (r *Rig) Job(i int) *train.Job { return r.jobs[i] }

// Samples describes the instructions of a step of setting i, in order of execution. They are without times.
func (r *Rig) Samples(i int) (out []cost.Sample) {
	for _, p := range r.programs(i) {
		for k := range p.Instrs {
			out = append(out, describeInstr(p, &p.Instrs[k]))
		}
	}
	return out
}

// Same tells whether settings i and j are one program: the same instructions on buffers in the same places.
func (r *Rig) Same(i, j int) bool {
	return slices.EqualFunc(r.programs(i), r.programs(j), func(p, q *compile.Program) bool {
		return reflect.DeepEqual(p.Instrs, q.Instrs) && reflect.DeepEqual(p.Buffers, q.Buffers)
	})
}

// Step makes a step of setting i and returns how long it took.
func (r *Rig) Step(i int) (time.Duration, error) {
	begin := time.Now()
	for _, p := range r.programs(i) {
		if err := r.session.Run(p.Name, device.Args{}); err != nil {
			return 0, fmt.Errorf("probe: %w", err)
		}
	}
	return time.Since(begin), nil
}

// Watch makes a step of setting i and tells f of every instruction how long it took.
func (r *Rig) Watch(i int, f func(p *compile.Program, in *compile.Instr, d time.Duration)) error {
	for _, p := range r.programs(i) {
		timed := func(at int, d time.Duration) { f(p, &p.Instrs[at], d) }
		if err := r.session.Run(p.Name, device.Args{Timed: timed}); err != nil {
			return fmt.Errorf("probe: %w", err)
		}
	}
	return nil
}

// Close releases everything.
func (r *Rig) Close() error {
	s := r.session
	r.session = nil
	return s.Close()
}

// pieceBytes is how much is written at a time.
const pieceBytes = 16 << 10

// fill writes every weight and input. Zeros would do for the time, but draw less power than numbers.
func (r *Rig) fill(job *compile.Job) error {
	o := &r.jobs[0].Options
	rows := o.Batch * o.Seq
	shape := model.TrainOptions{Batch: o.Batch, Seq: o.Seq}
	positions, sequences, table := make([]int32, rows), make([]int32, rows), make([]int32, rows/shape.KVBlock()) //mem:ok measuring, outside of any plan
	model.FillStatic(shape, 0, positions, sequences, table)
	tokens := make([]int32, rows) //mem:ok measuring, outside of any plan
	for i := range tokens {
		tokens[i] = int32(uint32(i) * 2654435761 >> 8 % uint32(o.Config.VocabSize))
	}
	hyper := make([]float32, graph.HyperLen)
	hyper[graph.HyperLR], hyper[graph.HyperBias1], hyper[graph.HyperBias2], hyper[graph.HyperGrad] = 1e-4, 0.1, 0.05, 1
	ints := map[string][]int32{
		model.PositionsInput: positions, model.SequencesInput: sequences, model.TableInput: table, model.TokensInput: tokens,
		model.TargetsInput: tokens, model.SeedInput: {1, 0},
	}
	floats := map[string][]float32{model.LossWeightInput: {1 / float32(rows)}, compile.HyperInput: hyper}
	for k := range job.Slots {
		s := &job.Slots[k]
		var err error
		switch {
		case ints[s.Name] != nil:
			err = r.write(s.Name, ints[s.Name])
		case floats[s.Name] != nil:
			err = r.write(s.Name, floats[s.Name])
		case s.Kind == graph.State && (s.Purpose == mem.Weights || s.Purpose == mem.MasterWeights):
			err = r.noise(s)
		}
		if err != nil {
			return fmt.Errorf("probe: %s: %w", s.Name, err)
		}
	}
	return nil
}

func (r *Rig) write(name string, data any) error {
	p, err := binary.Append(nil, binary.LittleEndian, data)
	if err != nil {
		return err
	}
	return r.session.Write(name, 0, p)
}

// noise fills a weight with numbers of about 0.02 in any type: of f32 the upper half is a bf16, and an f16 of the same bits is small too.
func (r *Rig) noise(s *compile.Slot) error {
	n := s.Type.Bytes(graph.Bounds{})
	width := s.Type.DType.Bytes(1)
	piece := make([]byte, min(n, pieceBytes)) //mem:ok 16 KiB at most
	for i := int64(0); i+width <= int64(len(piece)); i += width {
		x := uint32(i) * 2654435761
		v := (float32(x>>8)/(1<<24) - 0.5) * 0.08
		if width == 4 {
			binary.LittleEndian.PutUint32(piece[i:], math.Float32bits(v))
		} else {
			binary.LittleEndian.PutUint16(piece[i:], uint16(math.Float32bits(v)>>16)&0xbfff)
		}
	}
	for at := int64(0); at < n; at += int64(len(piece)) {
		if err := r.session.Write(s.Name, at, piece[:min(int64(len(piece)), n-at)]); err != nil {
			return err
		}
	}
	return nil
}
