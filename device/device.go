// Package device is what every device does: it reserves a job's memory in the ledger and runs the job's programs there.
// ref defines results with plain loops, cpu is fast, far pretends that the host cannot read the device's memory. All
// pass the suite of devicetest. Devices decide nothing: order, places and lifetimes are the program's.
package device

import (
	"time"

	"loadline/collective"
	"loadline/compile"
	"loadline/mem"
	"loadline/mem/tier"
)

// Device opens sessions.
type Device interface {
	// Name is the device's short name.
	Name() string
	// Scratch is the bytes of workspace on the device tier that it needs besides the programs' own buffers, e.g. packing
	// panels for each thread. It is part of the plan (compile.Job.Fixed, Workspace) and reserved by Open.
	Scratch(programs []*compile.Program) mem.Bytes
	// Open reserves persistent memory, arenas and scratch of the job in env.Ledger and prepares its programs. What
	// Job.Fixed holds besides Scratch is the caller's to reserve.
	Open(job *compile.Job, env Env) (Session, error)
}

// Env is what a session needs from outside.
type Env struct {
	Ledger *mem.Ledger
	Group  collective.Group // nil means one rank
	Dir    string           // where the file of the disk tier is made; needed only if the job uses that tier
	Home   tier.Store       // holds the States of the disk tier, each from its slot's offset on, to be read only; nil makes a file for them in Dir
}

// Args are the arguments of one run.
type Args struct {
	Rows, Outs int                                // 0 means the program's bounds
	Sink       func(state string, p []byte) error // receives what Save streams, in order; p is valid during the call
	Source     func(state string, p []byte) error // fills p, the next bytes of a State, for Restore

	// Timed is told how long each instruction took, in the order of the program; nil measures nothing. Devices that have no
	// clock leave it alone.
	Timed func(instr int, d time.Duration)
}

// Session is a job's memory on a device. It is used by one goroutine at a time.
type Session interface {
	// Run runs a program to its end. An error leaves States between versions: the caller stops or restores.
	Run(program string, a Args) error
	// Write fills bytes of an Input or State from offset at on, in the value's storage type.
	// A weight in a block type, or in a narrower type than the rows that meet it, is filled by Restore alone and not read back:
	// devices rearrange it.
	Write(name string, at int64, src []byte) error
	// Read copies bytes of an Input, a State, or an Output of the program run last.
	Read(name string, at int64, dst []byte) error
	// Close releases everything, the file of the disk tier included.
	Close() error
}
