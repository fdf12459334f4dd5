package cpu_test

import (
	"fmt"
	"testing"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/devicetest"
	"loadline/tensor/kernel"
)

// TestConformance runs the suite with every set on two threads, and with the best on one.
func TestConformance(t *testing.T) {
	for _, set := range kernel.Sets() {
		for threads := 2; threads > 0; threads-- {
			if threads == 1 && (testing.Short() || set != kernel.Best()) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", set.Name(), threads), func(t *testing.T) {
				devicetest.Run(t, func() device.Device { return cpu.New(cpu.Options{Threads: threads, Set: set}) })
			})
		}
	}
}
