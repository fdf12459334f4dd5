package local

import (
	"errors"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// sharedFile returns a file of n bytes without a name: macOS has no memfd.
func sharedFile(n int64) (*os.File, error) {
	file, err := os.CreateTemp("", "loadline-ranks-*")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(file.Name()), file.Truncate(n)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// smallPages does nothing: macOS maps files in pages of the base size.
func smallPages([]byte) error { return nil }

// killWithParent does nothing: macOS has no such signal. Ranks look at their parent while they wait.
func killWithParent(*exec.Cmd) {}

// nap sleeps about d.
func nap(d time.Duration) { time.Sleep(d) }

// process watches one process by number and start time.
type process struct {
	pid   int
	start uint64
}

func openProcess(pid int, start uint64) *process { return &process{pid, start} }

// alive reports whether the process runs. A zombie does not.
func (p *process) alive() bool {
	if unix.Kill(p.pid, 0) == unix.ESRCH {
		return false
	}
	k, err := unix.SysctlKinfoProc("kern.proc.pid", p.pid)
	if err != nil {
		return true // it exists, and nothing more can be said
	}
	const zombie = 5 // SZOMB of sys/proc.h
	return k.Proc.P_stat != zombie && (p.start == 0 || startOf(k) == p.start)
}

func (p *process) close() error { return nil }

// processStart returns the start time of a process in microseconds, or 0 where it cannot be read.
func processStart(pid int) uint64 {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0
	}
	return startOf(k)
}

func startOf(k *unix.KinfoProc) uint64 {
	return uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec)
}
