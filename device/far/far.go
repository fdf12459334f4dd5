// Package far is a pretend discrete device, so that no code assumes that the host can read what a device holds. It computes
// as cpu does, but the memory of the device tier is inaccessible except while a program runs or a copy is under way: a
// stray access from the host faults.
//
// Invariants: between calls of a session every mapping on the device tier is without access. What crosses the border goes
// through one staging buffer, small enough to belong to the Go runtime's share; the callbacks of Save and Restore see that
// buffer, never the device's memory.
//
// It is slower than cpu by those copies, and it does not model a link's speed.
package far

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"loadline/compile"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/mem"
)

// Device is the pretend device; it implements device.Device.
type Device struct{ cpu *cpu.Device }

// New returns a device that computes as o says. It panics where o.Validate reports an error.
func New(o cpu.Options) *Device { return &Device{cpu.New(o)} }

// Name returns "far".
func (d *Device) Name() string { return "far" }

// Scratch returns the workspace of the device tier: cpu's.
func (d *Device) Scratch(programs []*compile.Program) mem.Bytes { return d.cpu.Scratch(programs) }

// stageBytes is the size of the staging buffer.
const stageBytes = 64 << 10

// Open reserves the job's memory and takes the host's access away.
func (d *Device) Open(job *compile.Job, env device.Env) (device.Session, error) {
	inner, err := d.cpu.OpenSession(job, env)
	if err != nil {
		return nil, err
	}
	s := &session{cpu: inner, stage: make([]byte, stageBytes), copies: map[string]bool{}}
	for _, p := range job.Programs {
		for i := range p.Instrs {
			if p.Instrs[i].Ticket >= 0 {
				s.copies[p.Name] = true
			}
		}
	}
	s.sink, s.source = s.toSink, s.fromSource
	if err := s.protect(unix.PROT_NONE); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// session is a job behind the border.
type session struct {
	cpu    *cpu.Session
	stage  []byte
	copies map[string]bool // programs with copies that run beside the instructions
	args   device.Args     // of the run in progress
	closed bool            // whether the border stays closed during callbacks

	sink, source func(state string, p []byte) error
}

const open = unix.PROT_READ | unix.PROT_WRITE

// protect sets the host's access to everything on the device tier.
func (s *session) protect(prot int) error {
	for _, m := range s.cpu.Mappings() {
		if err := unix.Mprotect(m, prot); err != nil {
			return fmt.Errorf("far: protect %v: %w", mem.Bytes(len(m)), err)
		}
	}
	return nil
}

// inside runs f with access.
func (s *session) inside(f func() error) error {
	if err := s.protect(open); err != nil {
		return err
	}
	return errors.Join(f(), s.protect(unix.PROT_NONE))
}

// Run runs a program to its end.
func (s *session) Run(program string, a device.Args) error {
	s.args, s.closed = a, !s.copies[program]
	if a.Sink != nil {
		a.Sink = s.sink
	}
	if a.Source != nil {
		a.Source = s.source
	}
	if err := s.protect(open); err != nil {
		return err
	}
	err := s.cpu.Run(program, a)
	s.args = device.Args{}
	if e := s.protect(unix.PROT_NONE); e != nil {
		return errors.Join(err, e)
	}
	return err
}

// toSink hands the caller a copy of what Save streams.
func (s *session) toSink(state string, p []byte) error {
	for len(p) > 0 {
		n := copy(s.stage, p)
		if err := s.outside(s.args.Sink, state, n); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// fromSource lets the caller fill the staging buffer.
func (s *session) fromSource(state string, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), len(s.stage))
		if err := s.outside(s.args.Source, state, n); err != nil {
			return err
		}
		copy(p, s.stage[:n])
		p = p[n:]
	}
	return nil
}

// outside calls back with n bytes of the staging buffer, without access to the device tier unless a copy needs it.
func (s *session) outside(f func(string, []byte) error, state string, n int) error {
	if !s.closed {
		return f(state, s.stage[:n])
	}
	if err := s.protect(unix.PROT_NONE); err != nil {
		return err
	}
	return errors.Join(f(state, s.stage[:n]), s.protect(open))
}

// Write fills bytes of an Input or State, a staging buffer at a time.
func (s *session) Write(name string, at int64, src []byte) error {
	return s.cross(len(src), func(lo, hi int, stage []byte) error {
		copy(stage, src[lo:hi])
		return s.inside(func() error { return s.cpu.Write(name, at+int64(lo), stage) })
	})
}

// Read copies bytes of an Input, a State, or an output of the program run last, a staging buffer at a time.
func (s *session) Read(name string, at int64, dst []byte) error {
	return s.cross(len(dst), func(lo, hi int, stage []byte) error {
		if err := s.inside(func() error { return s.cpu.Read(name, at+int64(lo), stage) }); err != nil {
			return err
		}
		copy(dst[lo:hi], stage)
		return nil
	})
}

// cross calls f for n bytes in pieces of the staging buffer; once for no bytes, so that names are checked.
func (s *session) cross(n int, f func(lo, hi int, stage []byte) error) error {
	for lo := 0; ; {
		hi := min(n, lo+len(s.stage))
		if err := f(lo, hi, s.stage[:hi-lo]); err != nil {
			return err
		}
		if lo = hi; lo >= n {
			return nil
		}
	}
}

// Close releases everything.
func (s *session) Close() error { return s.cpu.Close() }
