package far_test

import (
	"testing"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/devicetest"
	"loadline/device/far"
	"loadline/tensor/kernel"
)

func TestConformance(t *testing.T) {
	devicetest.Run(t, func() device.Device { return far.New(cpu.Options{Threads: 2, Set: kernel.Best()}) })
}
