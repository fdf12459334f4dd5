package arena

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"loadline/mem"
)

type parts = [mem.NumPurposes]mem.Bytes

// closed closes a and fails the test if that fails.
func closed(t *testing.T, a *Arena) {
	t.Helper()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func panics(f func()) (message string) {
	defer func() {
		if v := recover(); v != nil {
			message = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}

func TestRound(t *testing.T) {
	page := max(4*mem.KiB, mem.Bytes(os.Getpagesize()))
	for _, c := range []struct{ n, want mem.Bytes }{
		{0, 0}, {1, page}, {page, page}, {page + 1, 2 * page}, {8*mem.MiB - 1, 8 * mem.MiB}, {8 * mem.MiB, 8 * mem.MiB},
		{8*mem.MiB + 1, 10 * mem.MiB}, {mem.GiB + 1, mem.GiB + 2*mem.MiB},
	} {
		if got := Round(c.n); got != c.want {
			t.Errorf("Round(%d): got %d, want %d", c.n, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := mem.Bytes(rapid.Int64Range(0, 1<<40).Draw(t, "n"))
		r := Round(n)
		if r < n || Round(r) != r || r-n >= 2*mem.MiB {
			t.Fatalf("Round(%d) = %d, whose Round is %d", n, r, Round(r))
		}
	})
}

func TestLedgerAndMappingAgree(t *testing.T) {
	l := mem.NewLedger(mem.Limits{Memory: 32 * mem.MiB})
	for _, c := range []struct {
		tier  mem.Tier
		parts parts
	}{
		{mem.Device, parts{}},
		{mem.Device, parts{mem.Weights: 128 * mem.KiB, mem.Workspace: 64 * mem.KiB}},
		{mem.Host, parts{mem.Staging: 8*mem.MiB - 64*mem.KiB}},
		{mem.Device, parts{mem.Weights: 7 * mem.MiB, mem.Activations: 2*mem.MiB + 1, mem.KVBlocks: 1*mem.MiB - 1}},
		{mem.Host, parts{mem.OptimState: 32 * mem.MiB}},
	} {
		a, err := New(l, c.tier, c.parts)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.InUse()[c.tier]; got != c.parts {
			t.Errorf("%v on %v: the ledger has %v", c.parts, c.tier, got)
		}
		b := a.Bytes()
		if mem.Bytes(len(b)) != l.InUse().Memory() {
			t.Errorf("got %d bytes mapped, want %v", len(b), l.InUse().Memory())
		}
		if len(b) >= int(hugeFrom) {
			if at := uintptr(unsafe.Pointer(&b[0])) % uintptr(hugePage); at != 0 {
				t.Errorf("start is %d past a multiple of 2 MiB", at)
			}
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("byte %d: got %d, want a new arena to be zero", i, b[i])
			}
			b[i] = 0xA5
		}
		closed(t, a)
		if got := l.InUse(); got != (mem.Usage{}) {
			t.Errorf("after Close: got %v, want nothing", got)
		}
	}
	_, err := New(l, mem.Device, parts{mem.Weights: 34 * mem.MiB})
	var over *mem.OverBudgetError
	if !errors.As(err, &over) {
		t.Errorf("past the limit: got %v, want an *mem.OverBudgetError", err)
	}
}

func TestFailedMapReleases(t *testing.T) {
	l := mem.NewLedger(mem.Limits{})
	const tooMuch = 1 << 60 // more than any address space here
	for name, make := range map[string]func(*mem.Ledger, mem.Tier, parts) (*Arena, error){"New": New, "NewShared": NewShared} {
		_, err := make(l, mem.Device, parts{mem.Weights: tooMuch})
		if err == nil || !strings.HasPrefix(err.Error(), "arena: ") || !strings.Contains(err.Error(), "1 EiB") {
			t.Errorf("%s: got %v, want an error naming the length", name, err)
		}
		if got := l.InUse(); got != (mem.Usage{}) {
			t.Errorf("%s: got %v in use, want nothing", name, got)
		}
	}
}

func TestMisusePanics(t *testing.T) {
	l := mem.NewLedger(mem.Limits{})
	page := Round(1)
	a, err := New(l, mem.Device, parts{mem.Weights: page})
	if err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]func(){
		"private arena":   func() { a.Fd() },
		"not rounded":     func() { New(l, mem.Device, parts{mem.Weights: page, mem.Grads: 1}) },
		"not memory":      func() { New(l, mem.Disk, parts{}) },
		"3 past":          func() { F32(a.Bytes()[3:15]) },
		"4 past":          func() { F64(a.Bytes()[4:12]) },
		"want a multiple": func() { I32(a.Bytes()[:7]) },
		"uint16":          func() { U16(a.Bytes()[1:3]) },
	} {
		if got := panics(f); !strings.HasPrefix(got, "arena: ") || !strings.Contains(got, want) {
			t.Errorf("got panic %q, want %q", got, want)
		}
	}
	closed(t, a)
	if got := panics(func() { a.Close() }); got != "arena: double Close" {
		t.Errorf("double Close: got panic %q", got)
	}
	if l.InUse() != (mem.Usage{}) {
		t.Errorf("got %v in use, want nothing", l.InUse())
	}
}

func TestViewsShareMemory(t *testing.T) {
	l := mem.NewLedger(mem.Limits{})
	a, err := New(l, mem.Device, parts{mem.Weights: Round(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, a)
	b := a.Bytes()[:64]
	f := F32(b)
	f[1] = 1 // 0x3f800000
	if got := I32(b)[1]; got != 0x3f800000 {
		t.Errorf("I32: got %#x", got)
	}
	if got := U16(b)[3]; got != 0x3f80 { // little-endian, as every machine that we build for
		t.Errorf("U16: got %#x", got)
	}
	F64(b)[7] = 2
	if b[63] != 0x40 || len(f) != 16 || len(F64(b)) != 8 || len(I32(b)) != 16 || len(U16(b)) != 32 {
		t.Errorf("got last byte %#x and lengths %d %d %d %d", b[63], len(f), len(F64(b)), len(I32(b)), len(U16(b)))
	}
	if F32(nil) != nil || U16(b[:0]) != nil {
		t.Error("views of nothing: want nil")
	}
}

// A child process, this test again with a variable set, attaches to the parent's arena and writes into it.
func TestSharedWithAnotherProcess(t *testing.T) {
	const variable = "ARENA_TEST_CHILD"
	n := 8 * mem.MiB
	if os.Getenv(variable) != "" {
		l := mem.NewLedger(mem.Limits{Memory: n})
		a, err := Attach(l, mem.Device, parts{mem.CommBuffers: n}, 3)
		if err != nil {
			t.Fatal(err)
		}
		b := a.Bytes()
		if b[0] != 7 || l.InUse().Memory() != n {
			t.Fatalf("child: got %d and %v booked, want 7 and %v", b[0], l.InUse().Memory(), n)
		}
		b[len(b)-1] = 9
		closed(t, a)
		return
	}
	l := mem.NewLedger(mem.Limits{})
	a, err := NewShared(l, mem.Device, parts{mem.CommBuffers: n})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, a)
	b := a.Bytes()
	b[0] = 7
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.ExtraFiles = []*os.File{a.File()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	if b[len(b)-1] != 9 {
		t.Errorf("got %d, want what the child wrote", b[len(b)-1])
	}

	_, err = Attach(l, mem.Device, parts{mem.CommBuffers: n + 2*mem.MiB}, a.Fd())
	if err == nil || !strings.Contains(err.Error(), "want 10 MiB, it has 8 MiB") {
		t.Errorf("attaching to more than there is: got %v", err)
	}
	if _, err = Attach(l, mem.Device, parts{mem.CommBuffers: n}, 1<<20); err == nil {
		t.Error("attaching to no descriptor: got no error")
	}
	if got := l.InUse().Memory(); got != n {
		t.Errorf("after failed attaches: got %v in use, want %v", got, n)
	}
	// The mapping outlives the parent's: the memory is that of the file.
	again, err := Attach(l, mem.Device, parts{mem.CommBuffers: n}, a.Fd())
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Bytes()[len(b)-1]; got != 9 {
		t.Errorf("attached here: got %d, want 9", got)
	}
	closed(t, again)
}

func TestHighWaterMark(t *testing.T) {
	l := mem.NewLedger(mem.Limits{})
	n := 64 * mem.MiB
	a, err := New(l, mem.Device, parts{mem.Weights: n})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(a.Bytes()); i += 4096 {
		a.Bytes()[i] = 1
	}
	closed(t, a)
	peak, err := VmHWM()
	if err != nil {
		t.Fatal(err)
	}
	now, err := VmRSS()
	if err != nil {
		t.Fatal(err)
	}
	if peak < n || now > peak {
		t.Errorf("got peak %v and now %v, want a peak of at least %v and no less than now", peak, now, n)
	}
}
