package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sharedFile returns an anonymous file of n bytes, all of them allocated, so that lack of memory shows here and not as a signal at
// first touch. It is a memfd and not /dev/shm, which containers limit to 64 MiB.
func sharedFile(n int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("loadline-ranks", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "loadline-ranks")
	if err := file.Truncate(n); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	for {
		switch err := unix.Fallocate(fd, 0, 0, n); err {
		case nil:
			return file, nil
		case unix.EINTR: // the Go runtime's preemption signal
		default:
			return nil, errors.Join(fmt.Errorf("fallocate: %w", err), file.Close())
		}
	}
}

// smallPages keeps huge pages out of the mapping: one touched byte would count 2 MiB. A kernel without huge pages does not know the
// advice, which is then not needed.
func smallPages(mapping []byte) error {
	if err := unix.Madvise(mapping, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
		return fmt.Errorf("madvise: %w", err)
	}
	return nil
}

// killWithParent makes the kernel kill the command's process when the thread that starts it ends.
func killWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// nap sleeps about d. time.Sleep would be rounded up to a millisecond, the unit of the runtime's poller, when nothing else runs.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // an interrupted sleep is a short one
}

// process watches one process. The open file of /proc stays bound to it, so a later process of the same number is not mistaken for
// it; the start time covers the moment before it was opened.
type process struct {
	pid   int
	start uint64
	fd    int // of /proc/PID/stat, -1 where /proc is not mounted
	gone  bool
	buf   [1024]byte
}

// openProcess watches the process of that number and start time. A start of 0 is any.
func openProcess(pid int, start uint64) *process {
	p := &process{pid: pid, start: start, fd: -1}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/stat", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		p.fd = fd
	case err == unix.ENOENT && start != 0: // we read our own when we joined, so /proc is there and the process is not
		p.gone = true
	}
	return p
}

// alive reports whether the process runs. A zombie does not.
func (p *process) alive() bool {
	if p.gone {
		return false
	}
	if p.fd < 0 {
		return unix.Kill(p.pid, 0) != unix.ESRCH
	}
	n, err := unix.Pread(p.fd, p.buf[:], 0)
	if err == unix.ESRCH {
		p.gone = true
	} else if err == nil {
		state, start, ok := parseStat(p.buf[:n])
		p.gone = ok && (state == 'Z' || state == 'X' || p.start != 0 && start != p.start)
	}
	return !p.gone
}

func (p *process) close() error {
	if p.fd < 0 {
		return nil
	}
	return unix.Close(p.fd)
}

// processStart returns the start time of a process in clock ticks since boot, or 0 where it cannot be read.
func processStart(pid int) uint64 {
	p := openProcess(pid, 0)
	if p.fd < 0 {
		return 0
	}
	defer unix.Close(p.fd)
	n, err := unix.Pread(p.fd, p.buf[:], 0)
	if err != nil {
		return 0
	}
	_, start, _ := parseStat(p.buf[:n])
	return start
}

// parseStat reads the state (field 3) and start time (field 22) of proc_pid_stat(5). Field 2, the command's name, may hold spaces and
// parentheses.
func parseStat(line []byte) (state byte, start uint64, ok bool) {
	at := bytes.LastIndexByte(line, ')')
	if at < 0 || at+2 >= len(line) {
		return 0, 0, false
	}
	state = line[at+2]
	field := 2
	for _, c := range line[at+1:] {
		if c == ' ' {
			field++
			if field > 22 {
				return state, start, true
			}
			continue
		}
		if field == 22 {
			if c < '0' || c > '9' {
				return 0, 0, false
			}
			start = 10*start + uint64(c-'0')
		}
	}
	return 0, 0, false
}
