package arena

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"loadline/mem"
)

// resident returns how many bytes of b are in memory.
func resident(t *testing.T, b []byte) mem.Bytes {
	t.Helper()
	page := os.Getpagesize()
	pages := make([]byte, (len(b)+page-1)/page)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		t.Fatalf("mincore: %v", errno)
	}
	var n mem.Bytes
	for _, p := range pages {
		n += mem.Bytes(p&1) * mem.Bytes(page)
	}
	return n
}

func rss(t *testing.T) mem.Bytes {
	t.Helper()
	n, err := VmRSS()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestUntouchedIsNotResident(t *testing.T) {
	l := mem.NewLedger(mem.Limits{})
	const noise = 4 * mem.MiB // what the Go runtime may do meanwhile
	for _, n := range []mem.Bytes{6 * mem.MiB, 64 * mem.MiB} {
		before := rss(t)
		a, err := New(l, mem.Device, parts{mem.Activations: n})
		if err != nil {
			t.Fatal(err)
		}
		b := a.Bytes()
		if got := resident(t, b); got != 0 {
			t.Errorf("%v, untouched: got %v resident, want none", n, got)
		}
		if got := rss(t) - before; got > noise {
			t.Errorf("%v, untouched: the process grew by %v", n, got)
		}
		half := b[:n/2]
		for i := 0; i < len(half); i += 4096 {
			half[i] = 1
		}
		if got := resident(t, b); got != n/2 { // both halves are whole huge pages
			t.Errorf("%v, half touched: got %v resident, want %v", n, got, n/2)
		}
		if got := rss(t) - before; got < n/2-noise || got > n/2+noise {
			t.Errorf("%v, half touched: the process grew by %v, want about %v", n, got, n/2)
		}
		closed(t, a)
		if got := rss(t) - before; got > noise {
			t.Errorf("%v, closed: the process is still %v larger", n, got)
		}
	}
}

// Small arenas touched at one byte a page cost one page each, whatever the kernel's setting for huge pages.
func TestAdviceReachesTheKernel(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Log("this kernel has no huge pages to advise on; the arenas must still work")
	}
	l := mem.NewLedger(mem.Limits{})
	for _, c := range []struct {
		n    mem.Bytes
		flag string
	}{{4 * mem.MiB, "nh"}, {8 * mem.MiB, "hg"}} {
		for name, make := range map[string]func(*mem.Ledger, mem.Tier, parts) (*Arena, error){"private": New, "shared": NewShared} {
			a, err := make(l, mem.Device, parts{mem.Weights: c.n})
			if err != nil {
				t.Fatal(err)
			}
			b := a.Bytes()
			b[0], b[len(b)-1] = 1, 1
			if got := resident(t, b); got > c.n || c.flag == "nh" && name == "private" && got != 2*mem.Bytes(os.Getpagesize()) {
				t.Errorf("%s of %v with two bytes touched: got %v resident", name, c.n, got)
			}
			if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err == nil {
				if flags := vmFlags(t, uintptr(unsafe.Pointer(&b[0]))); !strings.Contains(flags+" ", " "+c.flag+" ") {
					t.Errorf("%s of %v: got flags %q, want %q among them", name, c.n, flags, c.flag)
				}
			}
			closed(t, a)
		}
	}
}

// vmFlags returns the kernel's flags of the mapping that holds address.
func vmFlags(t *testing.T, address uintptr) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range bytes.Lines(text) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(string(line), "%x-%x ", &from, &to); n == 2 {
			inside = from <= address && address < to
		}
		if flags, ok := bytes.CutPrefix(line, []byte("VmFlags:")); ok && inside {
			return strings.TrimRight(string(flags), "\n ")
		}
	}
	t.Fatalf("no mapping holds %#x", address)
	return ""
}

func TestParseStatus(t *testing.T) {
	const text = "Name:\tx\nVmHWM:\t    1234 kB\nVmRSS:\t 99 kB\nVmBad:\t x kB\n"
	if got, err := parseStatus([]byte(text), "VmHWM:"); err != nil || got != 1234*mem.KiB {
		t.Errorf("VmHWM: got %v, %v", got, err)
	}
	for _, name := range []string{"VmPeak:", "VmBad:"} {
		if _, err := parseStatus([]byte(text), name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error naming it", name, err)
		}
	}
}
