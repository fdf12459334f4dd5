// Package devicetest is the conformance suite that every device passes: each operation against the reference device in
// float64, one small program at a time, then whole training steps, batch invariance, and what a session promises.
//
// Every operation runs with its operands in persistent memory, with operands that die in it (so that it works in place
// where it may), and with its accumulators absent, temporary and persistent. Values around an operand are guards that
// must keep their bits, and so must every operand that the operation does not write. Tolerances are named per
// operation, in units of the float32 rounding error 2⁻²⁴, with the reason.
//
// It does not measure speed, and it does not test the compile passes beyond what a step needs.
package devicetest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// mode is where an operation's operands lie.
type mode uint8

const (
	persistent mode = iota // Inputs: nothing can be done in place
	dying                  // Temps that die in the operation; accumulators too
	stateAcc               // as dying, but accumulators are States of gradients
	noAcc                  // Inputs, accumulators absent
	numModes
)

var modeNames = [numModes]string{"persistent", "dying", "state accumulators", "no accumulators"}

// rig builds one program with the data of its Inputs and States.
type rig struct {
	*graph.Builder
	mode  mode
	half  dtype.Type // what operands of two or more axes are stored in
	rng   *rand.Rand
	data  []datum
	outs  []result
	accs  bool // an accumulator was asked for
	guard int
	args  device.Args
}

// datum is what is written to an Input or State before a run. One of f and i is set.
type datum struct {
	name   string
	t      dtype.Type // of f
	f      []float64
	i      []int32
	writes bool // an operation may change it
}

// result is a value to compare after a run.
type result struct {
	name string
	v    graph.Value
	tol  tolerance
}

// newRig starts a program with symbolic bounds b, all in f32.
func newRig(m mode, b graph.Bounds, seed uint64) *rig { return newRigOf(dtype.F32, m, b, seed) }

// newRigOf starts a program whose operands of two or more axes are of type half.
func newRigOf(half dtype.Type, m mode, b graph.Bounds, seed uint64) *rig {
	return &rig{half: half, Builder: graph.NewBuilder("test", b), mode: m, rng: rand.New(rand.NewPCG(seed, 1))}
}

// noise is n normal numbers that float32 holds exactly.
func (r *rig) noise(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(float32(r.rng.NormFloat64()))
	}
	return x
}

// ints is n numbers in 0..below-1.
func (r *rig) ints(n, below int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(r.rng.IntN(below))
	}
	return x
}

// typed is the type of an operand of dims: in the compute type where it has two or more axes.
func (r *rig) typed(dims []graph.Dim) graph.Type {
	ty := graph.F(dims...)
	if len(dims) >= 2 {
		ty.DType = r.half
	}
	return ty
}

// input declares an Input with data, followed by a guard. Data of fewer rows than the bounds goes on with what no
// operation may read; what the type does not hold is rounded to it.
func (r *rig) input(name string, f []float64, ty graph.Type) graph.Value {
	r.data = append(r.data, datum{name: name, t: ty.DType, f: rounded(ty.DType, r.pad(f, ty))})
	v := r.Input(name, ty)
	r.fence()
	return v
}

// pad extends data to the bounds with NaN.
func (r *rig) pad(f []float64, ty graph.Type) []float64 {
	f = slices.Clone(f)
	for int64(len(f)) < ty.Shape.Elems(r.G.Bounds) {
		f = append(f, math.NaN())
	}
	return f
}

// fence declares an Input that nothing reads: it lies next to what was declared before, and must not change.
func (r *rig) fence() {
	r.guard++
	name := fmt.Sprint("guard", r.guard)
	r.data = append(r.data, datum{name: name, f: r.noise(graph.Align / 4)})
	r.Input(name, graph.F(graph.D(graph.Align/4)))
}

// f is a float operand: an Input, or in the modes dying and stateAcc a Temp.
func (r *rig) f(name string, x []float64, dims ...graph.Dim) graph.Value {
	return r.operand(name, x, r.typed(dims))
}

// f32 is f for what stays f32 whatever the compute type: statistics, the weights of experts, logits that are read whole.
func (r *rig) f32(name string, x []float64, dims ...graph.Dim) graph.Value {
	return r.operand(name, x, graph.F(dims...))
}

func (r *rig) operand(name string, x []float64, ty graph.Type) graph.Value {
	v := r.input(name, x, ty)
	if r.mode == dying || r.mode == stateAcc {
		return r.Add(v, r.input(name+".0", make([]float64, len(x)), ty))
	}
	return v
}

// rounded is x as values of type t.
func rounded(t dtype.Type, x []float64) []float64 {
	if bytesType(t) {
		return decoded(t, encoded(t, x), len(x))
	}
	for i := range x {
		switch t {
		case dtype.BF16:
			x[i] = float64(dtype.FromBF16(dtype.ToBF16(float32(x[i]))))
		case dtype.F16:
			x[i] = float64(dtype.FromF16(dtype.ToF16(float32(x[i]))))
		}
	}
	return x
}

// i is an int32 operand. Data of fewer rows than the bounds goes on with an id that is out of every range.
func (r *rig) i(name string, x []int32, dims ...graph.Dim) graph.Value {
	ty := graph.I(dims...)
	x = slices.Clone(x)
	for int64(len(x)) < ty.Shape.Elems(r.G.Bounds) {
		x = append(x, math.MaxInt32)
	}
	r.data = append(r.data, datum{name: name, i: x})
	v := r.Input(name, ty)
	r.fence()
	return v
}

// state is a State with data.
func (r *rig) state(name string, x []float64, p mem.Purpose, dims ...graph.Dim) graph.Value {
	return r.stateOf(name, x, p, r.typed(dims))
}

func (r *rig) stateOf(name string, x []float64, p mem.Purpose, ty graph.Type) graph.Value {
	r.data = append(r.data, datum{name: name, t: ty.DType, f: rounded(ty.DType, r.pad(x, ty)), writes: true})
	v := r.State(name, ty, p)
	r.fence()
	return v
}

// acc is an accumulator of noise of an activation's gradient, as the mode says. n is its elements in this run.
func (r *rig) acc(name string, n int, dims ...graph.Dim) graph.Value {
	return r.accOf(name, n, r.typed(dims))
}

// accW is acc for a weight's gradient, which is f32.
func (r *rig) accW(name string, n int, dims ...graph.Dim) graph.Value {
	return r.accOf(name, n, graph.F(dims...))
}

func (r *rig) accOf(name string, n int, ty graph.Type) graph.Value {
	r.accs = true
	x := r.noise(n)
	switch r.mode {
	case noAcc:
		return graph.None
	case stateAcc:
		return r.stateOf(name, x, mem.Grads, ty)
	}
	return r.operand(name, x, ty)
}

// datum finds the data of a name.
func (r *rig) datum(name string) *datum {
	for i := range r.data {
		if r.data[i].name == name {
			return &r.data[i]
		}
	}
	panic("devicetest: no data " + name)
}

// check compares v after the run.
func (r *rig) check(v graph.Value, tol tolerance) {
	x := r.G.Info(v)
	name := x.Name
	if x.Kind == graph.Temp {
		name = fmt.Sprint("out", len(r.outs))
		r.Output(name, v)
	}
	r.outs = append(r.outs, result{name, v, tol})
}

// job turns the rig's graph into a job of one program.
func (r *rig) job(t testing.TB) *compile.Job {
	t.Helper()
	p, err := compile.Step(r.G, compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	return jobOf(t, p)
}

func jobOf(t testing.TB, programs ...*compile.Program) *compile.Job {
	t.Helper()
	for _, p := range programs {
		if err := compile.Verify(p); err != nil {
			t.Fatal(err)
		}
	}
	j, err := compile.NewJob(mem.Usage{}, programs...)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// host is a session with helpers that fail the test.
type host struct {
	device.Session
	t testing.TB
}

// openOn opens job on d. The caller closes it.
func openOn(t testing.TB, d device.Device, job *compile.Job) host {
	t.Helper()
	env := device.Env{Ledger: mem.NewLedger(mem.Limits{})}
	if job.Arena[mem.Disk]+job.Persistent[mem.Disk] > 0 {
		env.Dir = t.TempDir()
	}
	s, err := d.Open(job, env)
	if err != nil {
		t.Fatal(err)
	}
	return host{s, t}
}

// fill writes the rig's data.
func (h host) fill(r *rig) {
	h.t.Helper()
	for i := range r.data {
		d := &r.data[i]
		if x, ok := h.Session.(ref.Exact); ok && d.f != nil {
			if err := x.WriteF64(d.name, 0, d.f); err != nil {
				h.t.Fatal(err)
			}
			continue
		}
		if err := h.Write(d.name, 0, d.bytes()); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (d *datum) bytes() []byte {
	if bytesType(d.t) {
		return encoded(d.t, d.f)
	}
	var b []byte
	for _, x := range d.f {
		switch d.t {
		case dtype.F16:
			b = binary.LittleEndian.AppendUint16(b, dtype.ToF16(float32(x)))
		case dtype.BF16:
			b = binary.LittleEndian.AppendUint16(b, dtype.ToBF16(float32(x)))
		default:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
		}
	}
	for _, x := range d.i {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

// run runs the program named test.
func (h host) run(a device.Args) { h.runProgram("test", a) }

func (h host) runProgram(name string, a device.Args) {
	h.t.Helper()
	if err := h.Run(name, a); err != nil {
		h.t.Fatal(err)
	}
}

// read returns n bytes of a value.
func (h host) read(name string, n int64) []byte {
	h.t.Helper()
	p := make([]byte, n)
	if err := h.Read(name, 0, p); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// floats returns a value of type ty as float64s: as it is held, where the session can show that.
func (h host) floats(name string, ty graph.Type, b graph.Bounds) []float64 {
	h.t.Helper()
	out := make([]float64, ty.Shape.Elems(b))
	if x, ok := h.Session.(ref.Exact); ok {
		if err := x.ReadF64(name, 0, out); err != nil {
			h.t.Fatal(err)
		}
		return out
	}
	if bytesType(ty.DType) {
		return decoded(ty.DType, h.read(name, ty.DType.Bytes(ty.Shape.Elems(b))), len(out))
	}
	p := h.read(name, ty.Bytes(b))
	for i := range out {
		switch ty.DType {
		case dtype.F16:
			out[i] = float64(dtype.FromF16(binary.LittleEndian.Uint16(p[2*i:])))
		case dtype.BF16:
			out[i] = float64(dtype.FromBF16(binary.LittleEndian.Uint16(p[2*i:])))
		default:
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(p[4*i:])))
		}
	}
	return out
}
