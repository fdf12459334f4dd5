// Package cpu runs programs fast on the processor's cores, with the loops of a kernel.Set and a pool of threads.
//
// There is one file per operation, named as in graph. Open binds every instruction to a function and its slices; Run then
// walks the list and allocates nothing on the Go heap.
//
// Invariants: threads split outputs only (tiles, rows, heads, columns of a sum over rows), never a sum, so the number of
// threads changes no bit. Sums over rows ascend and continue the stored accumulator, so chunks change no bit either. A
// row's bits do not depend on the other rows of a call. Scratch depends on the programs alone and is what Open reserves.
// Operands of bf16 and f16 are computed with in f32, in a thread's workspace, and results rounded once; the products of two
// bf16 matrices take them as they are, attention's among them where the set has tiles; there a job that makes gradients multiplies f32 matrices
// in parts (kernel.Set.Parts), whose bits are the same for chunks of a multiple of 32 rows.
// Weights that are narrower than the f32 rows that meet them (f16, bf16 and the block types) lie in panels, which Restore fills.
//
// The package decides nothing about order, places or lifetimes: they are the program's. With the build tag invariants,
// bytes whose life has ended are overwritten with NaN after each instruction.
//
// Source of the attention loops: Dao et al., arXiv 2205.14135 and 2307.08691.
package cpu

import (
	"errors"
	"fmt"
	"time"

	"loadline/collective"
	"loadline/compile"
	"loadline/device"
	"loadline/graph"
	"loadline/internal/par"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/mem/tier"
	"loadline/tensor/kernel"
)

// Options are how a CPU computes.
type Options struct {
	Threads int        // at least 1
	Set     kernel.Set // the inner loops
}

// Validate says what is wrong with o.
func (o Options) Validate() error {
	if o.Threads < 1 {
		return fmt.Errorf("cpu: want at least 1 thread, got %d", o.Threads)
	}
	if o.Set == (kernel.Set{}) {
		return errors.New("cpu: want a kernel set")
	}
	return nil
}

// Device is the processor; it implements device.Device.
type Device struct{ o Options }

// New returns the device. It panics where o.Validate reports an error.
func New(o Options) *Device {
	if err := o.Validate(); err != nil {
		panic("cpu: New: " + err.Error())
	}
	return &Device{o}
}

// Name returns "cpu".
func (d *Device) Name() string { return "cpu" }

// Scratch returns the bytes of workspace: a part for each thread, a part that they share, and one for each that fills panels from a file.
func (d *Device) Scratch(programs []*compile.Program) mem.Bytes {
	worker, ropes, tiles := needs(programs)
	return arena.Round(mem.Bytes(worker*int64(d.o.Threads) + ropes + tiles + stagers*stageNeeds(programs)))
}

// Open reserves the job's memory and binds its programs.
func (d *Device) Open(job *compile.Job, env device.Env) (device.Session, error) {
	s, err := d.OpenSession(job, env)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenSession is Open for a device that is built on this one.
func (d *Device) OpenSession(job *compile.Job, env device.Env) (s *Session, err error) {
	m, err := device.NewMemory(job, env)
	if err != nil {
		return nil, err
	}
	s = &Session{set: d.o.Set, products: d.o.Set, group: env.Group, mem: m, packed: packedStates(job.Programs)}
	for i := range job.Slots {
		if x := &job.Slots[i]; x.Type.DType.Block() && x.Purpose != mem.KVBlocks {
			s.packed[x.Name] = true
		}
	}
	if trains(job.Programs) {
		s.products = d.o.Set.Parts()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if n := d.Scratch(job.Programs); n > 0 {
		var parts [mem.NumPurposes]mem.Bytes
		parts[mem.Workspace] = n
		if s.scratch, err = arena.New(env.Ledger, mem.Device, parts); err != nil {
			return s, fmt.Errorf("cpu: workspace: %w", err)
		}
		s.carve(job.Programs, d.o.Threads)
	}
	s.pool = par.New(d.o.Threads)
	for _, p := range job.Programs {
		x, err := bind(s, p)
		if err != nil {
			return s, err
		}
		s.programs = append(s.programs, x)
	}
	return s, nil
}

// Session is a job on the processor; it implements device.Session.
type Session struct {
	set      kernel.Set
	products kernel.Set       // for products of f32 matrices: in parts where the job trains, whose products are large
	group    collective.Group // nil for one rank
	mem      *device.Memory
	scratch  *arena.Arena
	worker   [][]float32     // by thread
	shared   []float32       // rotary tables, then the tiles of attention, or the rounded rows or the packed operand of a product
	tilesAt  int             // where those begin
	codes    []byte          // the same bytes, for the rows
	packed   map[string]bool // States that lie in panels, which only Restore fills
	stages   [stagers][]byte // weights on the way to their panels
	pool     *par.Pool
	programs []*program

	// Of the run in progress.
	b    graph.Bounds
	args device.Args

	loop     loop       // the loop in progress
	gem      gemm       // the matrix product in progress
	sharing  gemmShared // the same, where B is packed once
	prod     product    // the product with a packed weight in progress
	rounding rounding
}

// program is a bound program.
type program struct {
	*compile.Program
	steps   []step
	tickets []tier.Ticket
	ropes   []*ropeTable
	dead    [][][]float32  // by instruction, with the tag invariants: what it is the last to use
	fetched map[int32]bool // buffers that a Fetch fills with a weight in panels
}

// step is a bound instruction.
type step interface{ run(s *Session) error }

// carve divides the scratch.
func (s *Session) carve(programs []*compile.Program, threads int) {
	worker, ropes, tiles := needs(programs)
	all := arena.F32(s.scratch.Bytes())
	w := int(worker / 4)
	for i := range threads {
		s.worker = append(s.worker, all[i*w:(i+1)*w:(i+1)*w])
	}
	s.shared, s.tilesAt = all[threads*w:][:(ropes+tiles)/4], int(ropes/4)
	s.codes = bytesOf(s.shared[s.tilesAt:])
	stage, n := bytesOf(all[threads*w+len(s.shared):]), stageNeeds(programs)
	for i := range s.stages {
		s.stages[i] = stage[int64(i)*n:][:n:n]
	}
}

// Mappings returns every mapping on the device tier.
func (s *Session) Mappings() [][]byte {
	all := s.mem.Mappings(mem.Device)
	if s.scratch != nil {
		all = append(all, s.scratch.Bytes())
	}
	return all
}

// Run runs a program to its end.
func (s *Session) Run(name string, a device.Args) error {
	var p *program
	for _, x := range s.programs {
		if x.Name == name {
			p = x
		}
	}
	if p == nil {
		return fmt.Errorf("cpu: the job has no program %q", name)
	}
	s.b, s.args = p.Bounds, a
	if a.Rows > s.b.Rows || a.Outs > s.b.Outs || a.Rows < 0 || a.Outs < 0 {
		return fmt.Errorf("cpu: program %q is for at most %d rows and %d outputs, got %d and %d", name, s.b.Rows, s.b.Outs, a.Rows, a.Outs)
	}
	if a.Rows > 0 {
		s.b.Rows = a.Rows
	}
	if a.Outs > 0 {
		s.b.Outs = a.Outs
	}
	s.mem.Ran(nil, s.b)
	for _, r := range p.ropes {
		r.fresh = false
	}
	if invariants {
		poisonArena(s.mem.Arena(mem.Device))
	}
	for t, x := range p.steps {
		var begin time.Time
		if a.Timed != nil {
			begin = time.Now()
		}
		if err := x.run(s); err != nil {
			err = fmt.Errorf("cpu: program %q: instruction %d %s: %w", name, t, p.Instrs[t].Op.Kind(), err)
			if e := s.mem.Drain(); e != nil && !errors.Is(err, e) { // of a copy that has failed, the Wait for it says so
				err = errors.Join(err, e)
			}
			return err
		}
		if a.Timed != nil {
			a.Timed(t, time.Since(begin))
		}
		if invariants {
			poison(p.dead[t])
		}
	}
	s.args = device.Args{}
	s.mem.Ran(p.Program, s.b)
	return nil
}

// Write fills bytes of an Input or State.
func (s *Session) Write(name string, at int64, src []byte) error {
	if err := s.checkPlain(name); err != nil {
		return err
	}
	return s.mem.Write(name, at, src)
}

// Read copies bytes of an Input, a State, or an output of the program run last.
func (s *Session) Read(name string, at int64, dst []byte) error {
	if err := s.checkPlain(name); err != nil {
		return err
	}
	return s.mem.Read(name, at, dst)
}

// Close ends the threads and releases everything.
func (s *Session) Close() error {
	if s.pool != nil {
		s.pool.Close()
	}
	err := s.mem.Close()
	if s.scratch != nil {
		err = errors.Join(err, s.scratch.Close())
		s.scratch = nil
	}
	return err
}
