// Package ref is the reference device: the definition of every operation as the simplest loop that is right, one file
// per operation, named as in package graph. It shares no arithmetic with the other devices.
//
// Numbers: with F32 a value is held as float32; with F64 every float value is held and computed as float64, so that
// gradients can be checked by central differences. Where an operation's comment does not say otherwise, sums and
// functions of one result run in float64 and are rounded once when they are stored. A sum over rows that continues an
// accumulator is rounded to the value's type after every tensor.BlockRows rows, so cutting it there changes no bit.
// Values of 16-bit types are held as wider numbers and rounded to their type whenever an operation writes them.
// Collectives carry float32.
//
// Memory: buffers are Go slices from a counting allocator that knows neither offsets nor Buffer.First and Last. It scans
// the operands itself, allocates a buffer at its first use, frees it after its last, and counts Buffer.Bytes, the bytes
// of the planned type, by tier and purpose; Device.Observe sees the count at every instruction. That proves the
// program's timeline. Lower tiers, Disk too, are Go slices as well, and copies between tiers are done at once.
//
// Invariants: a fresh or freed buffer holds NaN (or the least int32), so what is read before it is written, or after it
// is free, shows. Buffers named in Program.Outputs live until the next run.
package ref

import (
	"fmt"

	"loadline/compile"
	"loadline/device"
	"loadline/mem"
)

// Precision is the type that a Device computes in.
type Precision uint8

// The precisions.
const (
	F32 Precision = iota
	F64
)

// Device is the reference device.
type Device struct {
	// Observe, if not nil, is called while each instruction runs with the bytes in use: the program's persistent buffers
	// and the temporary ones alive. It is read by Open.
	Observe func(program string, instr int, u mem.Usage)

	precision Precision
}

// New returns a reference device that computes in p.
func New(p Precision) *Device { return &Device{precision: p} }

// Name is "ref" or "ref64".
func (d *Device) Name() string {
	if d.precision == F64 {
		return "ref64"
	}
	return "ref"
}

// Scratch is 0: what ref needs besides the programs' buffers is not worth planning.
func (d *Device) Scratch([]*compile.Program) mem.Bytes { return 0 }

// Open prepares the job. The session is an Exact.
func (d *Device) Open(job *compile.Job, env device.Env) (device.Session, error) {
	if env.Ledger == nil {
		return nil, fmt.Errorf("ref: no ledger to reserve in")
	}
	if d.precision == F64 {
		return open[float64](d, job, env)
	}
	return open[float32](d, job, env)
}

// Exact is a session whose float values can be read and written without rounding.
type Exact interface {
	device.Session
	// WriteF64 fills elements of an Input or State from element at on.
	WriteF64(name string, at int, src []float64) error
	// ReadF64 copies elements of an Input, a State, or an Output of the program run last.
	ReadF64(name string, at int, dst []float64) error
}

// real is a type that ref computes in.
type real interface{ float32 | float64 }
