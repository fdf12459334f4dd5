package local

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"loadline/collective"
	"loadline/mem"
)

func init() { roles["resident"] = playResident }

// playResident checks what the shared memory adds to this process's resident size: nothing beyond SegmentBytes, and all of it once
// every page was used.
func playResident(g *Group, _ string, _ io.Writer) error {
	want := int64(SegmentBytes(g.Size(), g.seg.windowBytes))
	const n = 2_000_000
	part := collective.Partition{Elems: n, Ranks: g.Size()}
	lo, hi := part.Shard(g.Rank())
	x := make([]float32, n)
	if err := g.AllReduce(x); err != nil {
		return err
	}
	got, err := residentShared()
	if err != nil {
		return err
	}
	if got > want {
		return fmt.Errorf("rank %d: %d shared bytes resident, want at most %d", g.Rank(), got, want)
	}
	if err := g.AllGather(x, x[lo:hi], part); err != nil {
		return err
	}
	if got, err = residentShared(); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("rank %d: %d shared bytes resident after an all-gather, want %d", g.Rank(), got, want)
	}
	return g.Barrier()
}

// residentShared returns RssShmem of this process.
func residentShared() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(status, []byte("RssShmem:"))
	if !ok {
		return 0, fmt.Errorf("no RssShmem in the process's status")
	}
	var kib int64
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		return 0, err
	}
	return kib << 10, nil
}

func TestSegmentBytesAreResident(t *testing.T) {
	for _, window := range []int{5000, 300000, DefaultWindowBytes} {
		tr := cast(t, 3, 0, Options{WindowBytes: window}, "resident", "")
		tr.succeed(t)
		info, err := tr.File().Stat()
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(SegmentBytes(3, window)); info.Size() != want {
			t.Errorf("window %d: the file has %d bytes, want %d", window, info.Size(), want)
		}
	}
	if got, want := SegmentBytes(2, 0), mem.Bytes(os.Getpagesize()+2<<20); got != want {
		t.Errorf("SegmentBytes(2, 0) = %d, want %d", got, want)
	}
}
