package probe

import (
	"testing"
	"time"

	"loadline/device/cpu"
	"loadline/tensor/kernel"
)

func TestTimes(t *testing.T) {
	for _, th := range []int{1, 2} {
		begin := time.Now()
		m, err := Measure(cpu.New(cpu.Options{Threads: th, Set: kernel.Best()}), Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(th, time.Since(begin))
		t.Logf("%.3g %.3g %.3g %v", m.FLOPs, m.Bandwidth, m.Overhead, m.Link)
		for _, r := range m.Rates.List {
			t.Logf("%-24s %8.1f us %7.1f GFLOP/s %7.1f GB/s", r.Key, 1e6*r.Fixed, 1e-9/r.FLOP, 1e-9/r.Byte)
		}
	}
}
