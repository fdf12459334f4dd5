package tier

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"loadline/mem"
)

// /dev/full answers every write with ENOSPC.
func TestFullDisk(t *testing.T) {
	file, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := &FileStore{file: file, path: "/dev/full", bytes: 4096}
	s := NewStream()
	err = s.Wait(s.Start(Job{Store: f, Write: true, Buf: make([]byte, 2048)}))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), `file "/dev/full": the disk is full: want 2 KiB`) {
		t.Errorf("got %v, want one that names the file, its state and the bytes", err)
	}
	if err := errors.Join(f.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err == nil {
		t.Error("the stream forgot the error")
	}
}

func TestCreatedFileHasItsBlocks(t *testing.T) {
	l := mem.NewLedger(mem.Limits{})
	f, err := TempFile(l, mem.Activations, t.TempDir(), mem.MiB)
	if err != nil {
		t.Fatal(err)
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(f.file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	// 512 bytes each. A file system that cannot allocate ahead leaves none, and then says so at the first write.
	if got := mem.Bytes(stat.Blocks) * 512; got != 0 && got < mem.MiB {
		t.Errorf("got %v allocated, want %v", got, mem.MiB)
	}
	if stat.Nlink != 0 {
		t.Errorf("got %d names of a temporary file, want none", stat.Nlink)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
