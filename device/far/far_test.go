package far

import (
	"bytes"
	"errors"
	"runtime/debug"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/kernel"
)

const elems = 200_000 // more than one staging buffer

func compiled(t *testing.T, build func(b *graph.Builder), name string) *compile.Program {
	t.Helper()
	b := graph.NewBuilder(name, graph.Bounds{})
	build(b)
	p, err := compile.Step(b.G, compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// opened is a session with a sum of two States, and a save and a restore of one.
func opened(t *testing.T) (*session, *mem.Ledger, *mem.Plan) {
	t.Helper()
	ty := graph.F(graph.D(elems))
	state := func(b *graph.Builder, name string) graph.Value { return b.State(name, ty, mem.Weights) }
	ps := []*compile.Program{
		compiled(t, func(b *graph.Builder) { b.Output("sum", b.Add(state(b, "x"), state(b, "y"))) }, "add"),
		compiled(t, func(b *graph.Builder) { b.Apply(graph.Save{}, state(b, "x")) }, "save"),
		compiled(t, func(b *graph.Builder) { b.Apply(graph.Restore{}, state(b, "x")) }, "restore"),
	}
	d := New(cpu.Options{Threads: 2, Set: kernel.Best()})
	var fixed mem.Usage
	fixed.Add(mem.Device, mem.Workspace, d.Scratch(ps))
	j, err := compile.NewJob(fixed, ps...)
	if err != nil {
		t.Fatal(err)
	}
	l := mem.NewLedger(mem.Limits{})
	s, err := d.Open(j, device.Env{Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session), l, j.Plan()
}

// faults tells whether f touches memory that it may not.
func faults(f func()) (faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { faulted = recover() != nil }()
	f()
	return false
}

func TestHostCannotReadTheDevice(t *testing.T) {
	s, l, plan := opened(t)
	if err := plan.Check(l.Peak()); err != nil {
		t.Error(err)
	}
	check := func(when string) {
		t.Helper()
		for i, m := range s.cpu.Mappings() {
			if !faults(func() { m[len(m)/2]++ }) {
				t.Errorf("%s: mapping %d can be written", when, i)
			}
		}
	}
	check("after Open")
	x := bytes.Repeat([]byte{0, 0, 128, 63}, elems) // ones
	for _, name := range []string{"x", "y"} {
		if err := s.Write(name, 0, x); err != nil {
			t.Fatal(err)
		}
	}
	check("after Write")
	if err := s.Run("add", device.Args{}); err != nil {
		t.Fatal(err)
	}
	check("after Run")
	got := make([]byte, len(x))
	if err := s.Read("sum", 0, got); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Repeat([]byte{0, 0, 0, 64}, elems); !bytes.Equal(got, want) {
		t.Error("the sum is not 2 everywhere")
	}
	check("after Read")
	var saved []byte
	if err := s.Run("save", device.Args{Sink: func(state string, p []byte) error {
		check("in a sink")
		saved = append(saved, p...)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(saved, x) {
		t.Error("what was saved differs")
	}
	twos := bytes.Repeat([]byte{0, 0, 0, 64}, elems)
	rest := twos
	if err := s.Run("restore", device.Args{Source: func(state string, p []byte) error {
		check("in a source")
		rest = rest[copy(p, rest):]
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Read("x", 0, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, twos) {
		t.Error("what was restored differs")
	}
	stop := errors.New("stop")
	if err := s.Run("save", device.Args{Sink: func(string, []byte) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("got %v, want the sink's error", err)
	}
	check("after an error")
	if err := s.Read("z", 0, nil); err == nil {
		t.Error("read of an unknown name succeeded")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := l.InUse().All(); n != 0 {
		t.Errorf("%v booked after Close", n)
	}
}
