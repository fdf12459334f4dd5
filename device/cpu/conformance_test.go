package cpu_test

import (
	"fmt"
	"testing"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/devicetest"
	"loadline/tensor/kernel"
)

// TestConformance runs the suite with every set, with two threads and, unless the tests are to be short, with one.
func TestConformance(t *testing.T) {
	threads := []int{1, 2}
	if testing.Short() {
		threads = threads[1:]
	}
	for _, set := range kernel.Sets() {
		for _, threads := range threads {
			t.Run(fmt.Sprintf("%s/%d", set.Name(), threads), func(t *testing.T) {
				devicetest.Run(t, func() device.Device { return cpu.New(cpu.Options{Threads: threads, Set: set}) })
			})
		}
	}
}
