package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// threadSeconds is the CPU time of the calling thread.
func threadSeconds() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic("peer: " + err.Error())
	}
	return float64(t.Nano()) * 1e-9
}

// pages is n zeros outside the Go heap, on huge pages where the kernel has them: what the engine's arena
// gives.
func pages[T any](n int) []T {
	var z T
	const huge = 2 << 20
	size := (n*int(unsafe.Sizeof(z)) + huge - 1) / huge * huge
	b, err := syscall.Mmap(-1, 0, size+huge, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic("peer: " + err.Error())
	}
	b = b[-uintptr(unsafe.Pointer(&b[0]))%huge:]
	_ = syscall.Madvise(b[:size], syscall.MADV_HUGEPAGE) // advice: the numbers say whether it helped
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}
