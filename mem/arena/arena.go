// Package arena turns reservations of a ledger into buffers outside the Go heap, and says how much memory the process holds.
//
// An arena is one anonymous mapping. Its whole length is booked before it is mapped and until it is closed, so the ledger is at all
// times at least what can be resident. Pages are resident only once touched, and start as zeros.
//
// The unit of residency decides the unit of booking. Where an arena is large enough to gain from huge pages they are asked for, one
// touched byte can then cost a whole huge page, and lengths are multiples of one. Smaller arenas refuse huge pages, since a kernel
// set to "always" would otherwise join pages across the end. Round gives the length to plan with; New insists on it.
//
//	        0        8 MiB
//	length  |--------|------------->
//	unit     page     2 MiB, start aligned to it
//	advice   NOHUGE   HUGE
//
// Shared arenas lie in a memory file (a memfd on Linux, an unlinked temporary file elsewhere) that other processes attach to; every
// process books them whole, since shared pages count in each one's resident set.
//
// The package does not sub-allocate: offsets inside an arena are decided at compile time. It holds no state of its own.
//
// Sources: Linux Documentation/admin-guide/mm/transhuge.rst, madvise(2), memfd_create(2), proc_pid_status(5).
package arena

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"loadline/mem"
)

const (
	basePage = 4 * mem.KiB // the smallest unit of booking, so that plans agree between machines of this page size
	hugePage = 2 * mem.MiB
	hugeFrom = 8 * mem.MiB // the length from which huge pages are worth their rounding
)

// Arena is a buffer outside the Go heap, booked in a ledger. It may be used by many goroutines, but closed by one, after the others.
type Arena struct {
	bytes       []byte
	reservation *mem.Reservation
	file        *os.File // the memory that is shared; nil if private
	closed      bool
}

// Round returns the least length of an arena that holds n bytes.
func Round(n mem.Bytes) mem.Bytes {
	unit := max(basePage, mem.Bytes(os.Getpagesize()))
	if n >= hugeFrom {
		unit = max(unit, hugePage)
	}
	return (n + unit - 1) / unit * unit
}

// New books parts in tier t and maps an arena of their sum. It panics if the sum is not its own Round or t is not memory.
func New(l *mem.Ledger, t mem.Tier, parts [mem.NumPurposes]mem.Bytes) (*Arena, error) {
	return build(l, t, parts, nil)
}

// NewShared is New for an arena that other processes can attach to, by File or Fd.
func NewShared(l *mem.Ledger, t mem.Tier, parts [mem.NumPurposes]mem.Bytes) (*Arena, error) {
	return build(l, t, parts, func(n mem.Bytes) (*os.File, error) {
		f, err := memoryFile(n)
		if err != nil {
			return nil, fmt.Errorf("arena: shared memory of %v: %w", n, err)
		}
		return f, nil
	})
}

// Attach maps the shared arena of another process, from a file descriptor that this process inherited. The descriptor stays the
// caller's. The parts are booked here too.
func Attach(l *mem.Ledger, t mem.Tier, parts [mem.NumPurposes]mem.Bytes, fd uintptr) (*Arena, error) {
	return build(l, t, parts, func(n mem.Bytes) (*os.File, error) {
		own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("arena: attach to descriptor %d: %w", fd, err)
		}
		f := os.NewFile(uintptr(own), "arena")
		info, err := f.Stat()
		if err == nil && info.Size() < int64(n) {
			// Touching a mapping past the end of its file is a fatal signal.
			err = fmt.Errorf("want %v, it has %v", n, mem.Bytes(info.Size()))
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("arena: attach to descriptor %d: %w", fd, err)
		}
		return f, nil
	})
}

// build books parts, opens the file to share if there is one, and maps.
func build(l *mem.Ledger, t mem.Tier, parts [mem.NumPurposes]mem.Bytes, open func(mem.Bytes) (*os.File, error)) (a *Arena, err error) {
	if !t.Memory() {
		panic("arena: the " + t.String() + " tier is not memory")
	}
	var n mem.Bytes
	for _, part := range parts {
		n += part
	}
	if n != Round(n) {
		panic(fmt.Sprintf("arena: length %d is not rounded: want %d", int64(n), int64(Round(n))))
	}
	r, err := l.ReserveSplit(t, parts)
	if err != nil {
		return nil, err
	}
	a = &Arena{reservation: r}
	if open != nil {
		if a.file, err = open(n); err != nil {
			r.Release()
			return nil, err
		}
	}
	if n > 0 {
		if a.bytes, err = mapBytes(uintptr(n), a.file); err != nil {
			if a.file != nil {
				a.file.Close()
			}
			r.Release()
			return nil, fmt.Errorf("arena: map %v: %w", n, err)
		}
	}
	return a, nil
}

// Bytes returns the whole buffer. It must not be touched after Close.
func (a *Arena) Bytes() []byte { return a.bytes }

// Fd returns the descriptor of a shared arena; it belongs to the arena. It panics if the arena is private.
func (a *Arena) Fd() uintptr { return a.File().Fd() }

// File returns the file of a shared arena, to hand to a child process; it belongs to the arena. It panics if the arena is private.
func (a *Arena) File() *os.File {
	if a.file == nil {
		panic("arena: a private arena has no file")
	}
	return a.file
}

// Close unmaps the arena and releases its bytes in the ledger. It panics when called twice.
func (a *Arena) Close() error {
	if a.closed {
		panic("arena: double Close")
	}
	a.closed = true
	var err error
	if len(a.bytes) > 0 {
		err = unmap(unsafe.Pointer(unsafe.SliceData(a.bytes)), uintptr(len(a.bytes)))
		a.bytes = nil
	}
	if a.file != nil {
		if e := a.file.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("arena: close: %w", err) // what may still be resident stays booked
	}
	a.reservation.Release()
	return nil
}

// mapBytes maps n bytes, of file if there is one, and gives the advice on huge pages that the length calls for.
func mapBytes(n uintptr, file *os.File) ([]byte, error) {
	flags, fd := unix.MAP_PRIVATE|unix.MAP_ANON, -1
	if file != nil {
		flags, fd = unix.MAP_SHARED, int(file.Fd())
	}
	huge := n >= uintptr(hugeFrom)
	if !huge {
		p, err := unix.MmapPtr(fd, 0, nil, n, unix.PROT_READ|unix.PROT_WRITE, flags)
		if err != nil {
			return nil, err
		}
		return advised(p, n, huge)
	}
	// Huge pages need an aligned start, which only recent kernels give: take address space for one unit more, map inside it, and
	// give back the ends.
	const unit = uintptr(hugePage)
	space, err := unix.MmapPtr(-1, 0, nil, n+unit, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	head := -uintptr(space) & (unit - 1)
	start := unsafe.Add(space, head)
	if _, err := unix.MmapPtr(fd, 0, start, n, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_FIXED); err != nil {
		unmap(space, n+unit)
		return nil, err
	}
	if head > 0 {
		if err := unmap(space, head); err != nil {
			return nil, err
		}
	}
	if tail := unit - head; tail > 0 {
		if err := unmap(unsafe.Add(start, n), tail); err != nil {
			return nil, err
		}
	}
	return advised(start, n, huge)
}

// advised advises on huge pages and returns the mapping as a slice, or unmaps it.
func advised(p unsafe.Pointer, n uintptr, huge bool) ([]byte, error) {
	b := unsafe.Slice((*byte)(p), n)
	if err := adviseHuge(b, huge); err != nil {
		unmap(p, n)
		return nil, err
	}
	return b, nil
}

func unmap(p unsafe.Pointer, n uintptr) error { return unix.MunmapPtr(p, n) }
