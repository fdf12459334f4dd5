// Package bounded holds readers of files that are not trusted to what a file may cost them: bytes allocated, in all and not only at
// the peak, and processor time. It serves tests and fuzz targets.
//
// A reader that does not end is ended by a panic, since a fuzzing engine waits for it for ever and then says nothing; the panic makes
// the engine keep the input. Time is the process's own, so that a busy machine does not fail a test; a reader that sleeps is ended
// by the clock on the wall.
//
// What other goroutines do meanwhile counts, so tests that call Run are not parallel.
package bounded

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// CPU is the processor time that a file may take, and Wall the time that it may wait besides.
const (
	CPU  = 5 * time.Second
	Wall = 60 * time.Second
)

// Run calls read and fails t where it has allocated more than base and perByte for each of the file's bytes, or took longer than CPU.
func Run(t testing.TB, file, base, perByte int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, at := used(), time.Now()
	done := make(chan struct{})
	timer := time.AfterFunc(time.Second, func() {
		for {
			if cpu, wall := used()-start, time.Since(at); cpu > CPU || wall > Wall {
				panic(fmt.Sprintf("bounded: a file of %d bytes is not read after %v of processor time, %v in all", file, cpu, wall))
			}
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	defer func() {
		timer.Stop()
		close(done)
	}()
	read()
	runtime.ReadMemStats(&after)
	if err := over(after.TotalAlloc-before.TotalAlloc, used()-start, file, base, perByte); err != nil {
		t.Error(err)
	}
}

func over(allocated uint64, cpu time.Duration, file, base, perByte int) error {
	if most := uint64(base) + uint64(perByte)*uint64(file); allocated > most {
		return fmt.Errorf("a file of %d bytes makes its reader allocate %d bytes, want at most %d", file, allocated, most)
	}
	if cpu > CPU {
		return fmt.Errorf("a file of %d bytes takes %v of processor time, want at most %v", file, cpu, CPU)
	}
	return nil
}

// used is the processor time of the process, 0 where it is not told.
func used() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
