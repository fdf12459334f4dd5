package devicetest

import (
	"errors"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
)

// testSession checks what a session promises besides results.
func testSession(t *testing.T, open func() device.Device) {
	t.Run("ledger", func(t *testing.T) { testLedger(t, open()) })
	t.Run("names and bounds", func(t *testing.T) { testNames(t, open()) })
	t.Run("programs share states", func(t *testing.T) { testShared(t, open()) })
	t.Run("ids out of range", func(t *testing.T) { testIDs(t, open) })
}

// small is a program that uses persistent memory, an arena and scratch.
func small(t *testing.T) (*rig, *compile.Job) {
	r := newRig(persistent, graph.Bounds{Rows: 8, Outs: 8}, 19)
	x := r.f("x", r.noise(8*5), graph.R(1), graph.D(5))
	w := r.state("w", r.noise(3*5), mem.Weights, graph.D(3), graph.D(5))
	r.check(r.Add(r.MatMul(x, w), r.MatMul(x, w)), exact)
	r.check(r.CrossEntropy(r.MatMul(x, w), r.i("targets", r.ints(8, 3), graph.R(1)), r.f("weight", []float64{1}, graph.D(1))), exact)
	return r, r.job(t)
}

func testLedger(t *testing.T, d device.Device) {
	_, job := small(t)
	var want mem.Usage
	for tier := range mem.Tier(mem.NumTiers) {
		for p := range mem.NumPurposes {
			want.Add(tier, mem.Purpose(p), job.PersistentParts(tier)[p]+job.ArenaParts(tier)[p])
		}
	}
	want.Add(mem.Device, mem.Workspace, d.Scratch(job.Programs))
	l := mem.NewLedger(mem.Limits{})
	s, err := d.Open(job, device.Env{Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.InUse(); got != want {
		t.Errorf("an open session holds %v, want %v", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := l.InUse(); got != (mem.Usage{}) {
		t.Errorf("a closed session holds %v", got)
	}
	l = mem.NewLedger(mem.Limits{Memory: want.Memory() - 1})
	var over *mem.OverBudgetError
	if _, err := d.Open(job, device.Env{Ledger: l}); !errors.As(err, &over) {
		t.Errorf("one byte short: got %v, want an *OverBudgetError", err)
	}
	if got := l.InUse(); got != (mem.Usage{}) {
		t.Errorf("a refused session holds %v", got)
	}
}

func testNames(t *testing.T, d device.Device) {
	r, job := small(t)
	h := openOn(t, d, job)
	defer h.Close()
	for i, b := range h.read("w", 60) {
		if b != 0 {
			t.Fatalf("byte %d of a new state is %d", i, b)
		}
	}
	h.fill(r)
	row := make([]byte, 20)
	must := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: want an error", what)
		}
	}
	must("reading an output before a run", h.Read(r.outs[0].name, 0, row[:4]))
	h.run(device.Args{Rows: 3})
	must("an unknown program", h.Run("tset", device.Args{}))
	must("more rows than the bound", h.Run("test", device.Args{Rows: 9}))
	must("less than no rows", h.Run("test", device.Args{Rows: -1}))
	must("writing an unknown value", h.Write("y", 0, row))
	must("writing an output", h.Write(r.outs[0].name, 0, row))
	must("writing past the end", h.Write("w", 48, row)) // of 60 bytes, rounded up to graph.Align
	must("writing before the start", h.Write("w", -4, row))
	must("reading an unknown value", h.Read("y", 0, row))
	must("reading past the end", h.Read("w", 48, row))
	must("reading before the start", h.Read("w", -4, row))
	// a write in the middle changes that alone
	want := h.read("w", 60)
	h.fill(r)
	if err := h.Write("w", 20, row); err != nil {
		t.Fatal(err)
	}
	got := h.read("w", 60)
	for i := range got {
		if in := i >= 20 && i < 40; in && got[i] != 0 || !in && got[i] != want[i] {
			t.Fatalf("byte %d after a write to bytes 20 to 40: got %d, want %d", i, got[i], want[i])
		}
	}
	h.run(device.Args{})
	if bad := h.untouched(r); bad != "" {
		t.Error(bad)
	}
}

// testShared runs two programs of different bounds on the same State and Input.
func testShared(t *testing.T, d device.Device) {
	a := newRig(persistent, graph.Bounds{Rows: 4, Outs: 1}, 23)
	pool := a.state("pool", a.noise(12*3), mem.KVBlocks, graph.D(12), graph.D(3))
	x := a.f("x", a.noise(4*3), graph.R(1), graph.D(3))
	slots := a.i("slots", []int32{7, 2, 11, 0}, graph.R(1))
	a.KVAppend(pool, x, slots)
	read := graph.NewBuilder("read", graph.Bounds{Rows: 6, Outs: 1})
	rows := read.SelectRows(read.State("pool", graph.F(graph.D(12), graph.D(3)), mem.KVBlocks), read.Input("slots", graph.I(graph.R(1))))
	read.Output("rows", rows)
	var programs []*compile.Program
	for _, g := range []*graph.Graph{a.G, read.G} {
		p, err := compile.Step(g, compile.Options{Machine: cost.Laptop2()})
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	h := openOn(t, d, jobOf(t, programs...))
	defer h.Close()
	h.fill(a)
	h.run(device.Args{})
	h.runProgram("read", device.Args{Rows: 4})
	if got, want := h.read("rows", 48), a.datum("x").bytes(); string(got) != string(want) {
		t.Errorf("rows read back: got %v, want %v", got, want)
	}
}

// testIDs checks that ids out of range are errors, that a device survives them, and that nothing else is written.
func testIDs(t *testing.T, open func() device.Device) {
	for _, c := range []struct {
		name  string
		build func(r *rig)
	}{
		{"token", func(r *rig) {
			r.check(r.Embedding(r.i("ids", []int32{0, 4, 5}, graph.D(3)), r.f("w", r.noise(15), graph.D(5), graph.D(3))), exact)
		}},
		{"negative token", func(r *rig) {
			r.check(r.Embedding(r.i("ids", []int32{0, 4, -1}, graph.D(3)), r.f("w", r.noise(15), graph.D(5), graph.D(3))), exact)
		}},
		{"token's gradient", func(r *rig) {
			ids, dy := r.i("ids", []int32{0, 5, 1}, graph.D(3)), r.f("dy", r.noise(6), graph.D(3), graph.D(2))
			r.check(r.Apply(graph.EmbeddingGrad{Vocab: 5}, ids, dy, graph.None)[0], exact)
		}},
		{"row", func(r *rig) {
			r.check(r.SelectRows(r.f("x", r.noise(15), graph.D(5), graph.D(3)), r.i("ids", []int32{0, 5}, graph.D(2))), exact)
		}},
		{"column", func(r *rig) {
			r.check(r.SelectColumns(r.f("x", r.noise(15), graph.D(5), graph.D(3)), r.i("ids", []int32{0, 3, 1}, graph.D(3))), exact)
		}},
		{"slot", func(r *rig) {
			pool := r.state("pool", r.noise(12), mem.KVBlocks, graph.D(4), graph.D(3))
			r.check(r.KVAppend(pool, r.f("x", r.noise(6), graph.D(2), graph.D(3)), r.i("ids", []int32{1, 4}, graph.D(2))), exact)
		}},
		{"copied block", func(r *rig) {
			pool := r.state("pool", r.noise(24), mem.KVBlocks, graph.D(8), graph.D(3))
			r.check(r.KVCopy(pool, r.i("ids", []int32{0, 2}, graph.D(1), graph.D(2)), 4), exact)
		}},
		{"target", func(r *rig) {
			l := r.f("logits", r.noise(10), graph.D(2), graph.D(5))
			r.check(r.CrossEntropy(l, r.i("ids", []int32{1, 5}, graph.D(2)), r.f("weight", []float64{1}, graph.D(1))), exact)
		}},
		{"target of the loss head", func(r *rig) {
			h, w := r.f("h", r.noise(6), graph.D(2), graph.D(3)), r.f("w", r.noise(15), graph.D(5), graph.D(3))
			r.check(r.HeadLoss(h, w, r.i("ids", []int32{5, 1}, graph.D(2)), r.f("weight", []float64{1}, graph.D(1)), 128), exact)
		}},
		{"target of the loss head's gradient", func(r *rig) {
			h, w := r.f("h", r.noise(6), graph.D(2), graph.D(3)), r.f("w", r.noise(15), graph.D(5), graph.D(3))
			for _, o := range r.Apply(graph.HeadLossGrad{Chunk: 128}, h, w, r.i("ids", []int32{5, 1}, graph.D(2)), r.f("weight", []float64{1}, graph.D(1)), graph.None) {
				r.check(o, exact)
			}
		}},
		{"block of attention", func(r *rig) { r.attend(2, 0, 5) }},
		{"negative block of attention", func(r *rig) { r.attend(-1, 0, 5) }},
		{"sequence of attention", func(r *rig) { r.attend(1, 1, 5) }},
		{"position of attention", func(r *rig) { r.attend(1, 0, 8) }},
		{"negative position of attention", func(r *rig) { r.attend(1, 0, -1) }},
		{"expert", func(r *rig) {
			order, _, _ := r.Dispatch(r.i("ids", []int32{0, 3}, graph.D(2), graph.D(1)), 3)
			r.check(order, exact)
		}},
		{"expert offsets", func(r *rig) {
			x, w := r.f("x", r.noise(6), graph.D(2), graph.D(3)), r.f("w", r.noise(12), graph.D(2), graph.D(2), graph.D(3))
			r.check(r.GroupedMatMul(x, w, r.i("ids", []int32{0, 1, 3}, graph.D(3))), exact)
		}},
	} {
		r := newRig(persistent, graph.Bounds{Rows: 1, Outs: 1}, 29)
		c.build(r)
		h := openOn(t, open(), r.job(t))
		h.fill(r)
		if err := h.Run("test", device.Args{}); err == nil {
			t.Errorf("%s out of range: want an error", c.name)
		}
		if bad := h.untouched(r); bad != "" {
			t.Errorf("%s out of range: %s", c.name, bad)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// attend is one query over two blocks of four keys, the second of them block.
func (r *rig) attend(block, seq, pos int32) {
	k, v := r.f("k", r.noise(16), graph.D(8), graph.D(2)), r.f("v", r.noise(16), graph.D(8), graph.D(2))
	pg := graph.Paging{Table: r.i("table", []int32{0, block}, graph.D(1), graph.D(2)), Seq: r.i("seq", []int32{seq}, graph.D(1)), Pos: r.i("pos", []int32{pos}, graph.D(1))}
	s := graph.AttentionSpec{Heads: 1, KVHeads: 1, HeadDim: 2, Block: 4, Context: 8}
	r.check(r.Attention(r.f("q", r.noise(2), graph.D(1), graph.D(2)), k, v, pg, s), exact)
}
