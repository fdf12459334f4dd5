package devicetest

import (
	"bytes"
	"errors"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
)

// testStorage saves, zeroes and restores States larger and smaller than a chunk.
func testStorage(t *testing.T, open func() device.Device, saw func(*compile.Instr)) {
	states := []struct {
		name string
		n    int
	}{{"large", 3*graph.ChunkBytes/4 - 7}, {"small", 5}, {"chunk", graph.ChunkBytes / 4}}
	var programs []*compile.Program
	for _, op := range []graph.Op{graph.Save{}, graph.Restore{}, graph.Zero{}} {
		b := graph.NewBuilder(op.Kind(), graph.Bounds{Rows: 1, Outs: 1})
		for _, s := range states {
			b.Apply(op, b.State(s.name, graph.F(graph.D(s.n)), mem.Weights))
		}
		p, err := compile.Step(b.G, compile.Options{Machine: cost.Laptop2()})
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	job := jobOf(t, programs...)
	sawAll(job, saw)
	h := openOn(t, open(), job)
	defer h.Close()
	r := newRig(persistent, graph.Bounds{Rows: 1, Outs: 1}, 31)
	want := map[string][]byte{}
	for _, s := range states {
		d := datum{name: s.name, f: r.noise(s.n)}
		want[s.name] = d.bytes()
		if err := h.Write(s.name, 0, want[s.name]); err != nil {
			t.Fatal(err)
		}
	}
	saved := map[string][]byte{}
	var order []string
	h.runProgram("save", device.Args{Sink: func(state string, p []byte) error {
		if len(p) == 0 || len(p) > graph.ChunkBytes {
			t.Errorf("a chunk of %q has %d bytes", state, len(p))
		}
		if len(order) == 0 || order[len(order)-1] != state {
			order = append(order, state)
		}
		saved[state] = append(saved[state], p...)
		return nil
	}})
	if len(order) != len(states) {
		t.Errorf("states were saved in the order %q", order)
	}
	h.runProgram("zero", device.Args{})
	for _, s := range states {
		if !bytes.Equal(saved[s.name], want[s.name]) {
			t.Errorf("%q was saved as other bytes", s.name)
		}
		if got := h.read(s.name, int64(4*s.n)); !bytes.Equal(got, make([]byte, 4*s.n)) {
			t.Errorf("%q is not zero", s.name)
		}
	}
	h.runProgram("restore", device.Args{Source: func(state string, p []byte) error {
		if n := copy(p, saved[state]); n < len(p) || len(p) > graph.ChunkBytes {
			t.Errorf("asked for %d bytes of %q, %d are left", len(p), state, n)
		}
		saved[state] = saved[state][len(p):]
		return nil
	}})
	for _, s := range states {
		if got := h.read(s.name, int64(4*s.n)); !bytes.Equal(got, want[s.name]) {
			t.Errorf("%q was restored as other bytes", s.name)
		}
		if len(saved[s.name]) > 0 {
			t.Errorf("%d bytes of %q were not asked for", len(saved[s.name]), s.name)
		}
	}
	full := errors.New("the disk is full")
	if err := h.Run("save", device.Args{Sink: func(string, []byte) error { return full }}); !errors.Is(err, full) {
		t.Errorf("a sink that fails: got %v, want its error", err)
	}
	if err := h.Run("restore", device.Args{Source: func(string, []byte) error { return full }}); !errors.Is(err, full) {
		t.Errorf("a source that fails: got %v, want its error", err)
	}
	if h.Run("save", device.Args{}) == nil || h.Run("restore", device.Args{}) == nil {
		t.Error("without sink or source: want errors")
	}
}
