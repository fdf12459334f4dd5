package devicetest

import (
	"reflect"
	"testing"

	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
)

// TestReference runs the suite on the reference in float32, and checks that the suite runs every operation there is.
func TestReference(t *testing.T) {
	seen := map[string]bool{}
	run(t, func() device.Device { return ref.New(ref.F32) }, func(op graph.Op) { seen[reflect.TypeOf(op).Name()] = true })
	for _, name := range graphTypes(t, "Kind") {
		if !seen[name] {
			t.Errorf("the suite does not run graph.%s", name)
		}
	}
}

// TestReference64 runs the suite on the reference in float64.
func TestReference64(t *testing.T) {
	Run(t, func() device.Device { return ref.New(ref.F64) })
}
