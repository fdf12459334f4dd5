package bounded

import (
	"strings"
	"testing"
	"time"
)

var kept [][]byte

func TestOver(t *testing.T) {
	for _, x := range []struct {
		allocated uint64
		cpu       time.Duration
		want      string
	}{
		{1000 + 8*10, CPU, ""},
		{1000 + 8*10 + 1, 0, "allocate 1081 bytes, want at most 1080"},
		{0, CPU + 1, "want at most 5s"},
	} {
		err := over(x.allocated, x.cpu, 10, 1000, 8)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: got %v", x, err)
		}
	}
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()      {}
func (r *recorder) Error(...any) { r.failed = true }

func TestRunCountsWhatIsFreed(t *testing.T) {
	for perByte, fails := range map[int]bool{2000: false, 10: true} {
		r := &recorder{TB: t}
		Run(r, 1000, 64<<10, perByte, func() {
			for range 10 {
				kept = [][]byte{make([]byte, 100<<10)}
			}
		})
		if r.failed != fails {
			t.Errorf("%d for each byte: failed is %v", perByte, r.failed)
		}
	}
	start := used()
	for at := time.Now(); time.Since(at) < 20*time.Millisecond; {
	}
	if used() <= start {
		t.Error("processor time does not pass")
	}
}
