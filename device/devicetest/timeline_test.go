package devicetest

import (
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/mem"
)

// observed runs p on the reference so many times and returns the bytes that its allocator counted at every instruction.
func observed(t *testing.T, p *compile.Program, runs int, fill func(h host)) []mem.Usage {
	t.Helper()
	var got []mem.Usage
	d := ref.New(ref.F32)
	d.Observe = func(program string, instr int, u mem.Usage) {
		if program != p.Name || instr != len(got) {
			t.Fatalf("observed instruction %d of %q after %d", instr, program, len(got))
		}
		got = append(got, u)
	}
	h := openOn(t, d, jobOf(t, p))
	defer h.Close()
	fill(h)
	for range runs { // the second starts with the outputs of the first
		got = got[:0]
		h.runProgram(p.Name, device.Args{})
	}
	return got
}

func sameTimeline(t *testing.T, p *compile.Program, got []mem.Usage) {
	t.Helper()
	want := p.Timeline()
	if len(got) != len(want) {
		t.Fatalf("observed %d instructions, want %d", len(got), len(want))
	}
	for i := range want {
		for tier := range want[i] {
			for purpose, n := range want[i][tier] {
				if got[i][tier][purpose] != n {
					t.Errorf("instruction %d %s: %v on %v: counted %d bytes, the timeline says %d", i, p.Instrs[i].Op.Kind(), mem.Purpose(purpose), mem.Tier(tier), got[i][tier][purpose], n)
				}
			}
		}
	}
}

// TestTimelineOfSteps compares the counting allocator with the timeline over training steps, recomputed and offloaded.
func TestTimelineOfSteps(t *testing.T) {
	for i, d := range decoders {
		for _, v := range variants {
			t.Run(d.name+"/"+v.name, func(t *testing.T) {
				s := newStep(d)
				v.o.Machine = cost.Laptop2()
				p, err := compile.Step(s.G, v.o)
				if err != nil {
					t.Fatal(err)
				}
				sameTimeline(t, p, observed(t, p, 1+i/4, func(h host) { h.fill(s.rig) }))
			})
		}
	}
}

// TestTimelineByHand compares it with numbers that a reader can check.
func TestTimelineByHand(t *testing.T) {
	r := newRig(persistent, graph.Bounds{Rows: 16, Outs: 16}, 43)
	r.data = append(r.data, datum{name: "x", f: r.noise(16 * 16)})
	x := r.Input("x", graph.F(graph.R(1), graph.D(16)))               // 1024 bytes of staging
	w := r.State("w", graph.F(graph.D(32), graph.D(16)), mem.Weights) // 2048
	r.data = append(r.data, datum{name: "w", f: r.noise(32 * 16)})
	a := r.MatMul(x, w)         // 2048
	b := r.MatMul(x, w)         // 2048
	c := r.SwiGLU(a, b)         // in the place of a
	r.Output("c", r.Softmax(c)) // in the place of c
	r.Output("d", r.MatMul(c, r.State("v", graph.F(graph.D(1), graph.D(32)), mem.Weights)))
	p, err := compile.Step(r.G, compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	got := observed(t, p, 2, func(h host) { h.fill(r) })
	sameTimeline(t, p, got)
	// c is read once more after its softmax, so the softmax is not in place
	want := []mem.Bytes{2048, 4096, 4096, 4096, 4096 + 64}
	for i, n := range want {
		if u := got[i]; u[mem.Device][mem.Activations] != n || u[mem.Device][mem.Staging] != 1024 || u[mem.Device][mem.Weights] != 2048+128 {
			t.Errorf("instruction %d: counted %v, want activations %d, staging 1024, weights 2176", i, u, n)
		}
	}
}

// TestTimelineOfStorage counts the staging buffer of a save, and of a restore.
func TestTimelineOfStorage(t *testing.T) {
	b := graph.NewBuilder("save", graph.Bounds{Rows: 1, Outs: 1})
	b.Apply(graph.Save{}, b.State("large", graph.F(graph.D(graph.ChunkBytes)), mem.OptimState))
	b.Apply(graph.Save{}, b.State("small", graph.F(graph.D(3)), mem.Weights))
	p, err := compile.Step(b.G, compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	var got []mem.Usage
	d := ref.New(ref.F64)
	d.Observe = func(_ string, _ int, u mem.Usage) { got = append(got, u) }
	h := openOn(t, d, jobOf(t, p))
	defer h.Close()
	h.runProgram("save", device.Args{Sink: func(string, []byte) error { return nil }})
	sameTimeline(t, p, got)
	if n := got[0][mem.Device][mem.Workspace]; n != graph.ChunkBytes {
		t.Errorf("saving the large state: counted %d bytes of workspace, want %d", n, graph.ChunkBytes)
	}
}
