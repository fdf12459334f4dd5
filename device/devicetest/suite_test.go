package devicetest

import (
	"flag"
	"reflect"
	"strings"
	"testing"

	"loadline/compile"
	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
)

// TestReference runs the suite on the reference in float32, and checks that the suite runs every operation there is, and
// in place each one that may be.
func TestReference(t *testing.T) {
	seen, inPlace, may := map[string]bool{}, map[string]bool{}, map[string]bool{}
	run(t, func() device.Device { return ref.New(ref.F32) }, func(in *compile.Instr) {
		name := reflect.TypeOf(in.Op).Name()
		seen[name] = true
		if p, ok := in.Op.(graph.InPlace); ok {
			may[name] = true
			for _, a := range p.InPlace() {
				if a.In < len(in.In) && in.In[a.In].Buffer >= 0 && in.In[a.In].Buffer == in.Out[a.Out].Buffer {
					inPlace[name] = true
				}
			}
		}
	})
	if testing.Short() || strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // only some of the suite was asked for
	}
	for _, name := range graphTypes(t, "Kind") {
		if !seen[name] {
			t.Errorf("the suite does not run graph.%s", name)
		}
		if may[name] && !inPlace[name] {
			t.Errorf("the suite does not run graph.%s in place", name)
		}
	}
}

// TestReference64 runs the suite on the reference in float64.
func TestReference64(t *testing.T) {
	Run(t, func() device.Device { return ref.New(ref.F64) })
}
