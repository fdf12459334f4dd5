package compile

import (
	"fmt"
	"path/filepath"
	"testing"

	"loadline/cost"
	"loadline/graph"
	"loadline/mem"
)

// below compiles the graphs of a step whose optimizer's States lie on disk.
func below(t *testing.T, s shape, o TrainOptions, z ZeroOptions, piece int64) (all []*Program) {
	t.Helper()
	gs, err := Train(s.forward("step"), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gs {
		if g, err = Zero(g, z); err != nil {
			t.Fatal(err)
		}
		p, err := Step(OffloadStates(g, StatesOptions{Tier: mem.Disk, Piece: piece}), Options{Machine: cost.Laptop2()})
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// The text of a step whose moments lie on disk: the largest weights are updated in two pieces.
func TestOffloadStatesText(t *testing.T) {
	doc := shape{d: 64, layers: 2, heads: 4, kv: 2, ffn: 160, vocab: 256, batch: 2, seq: 64, tied: true, chunk: 128}
	clip := adamw()
	clip.Clip = 1
	golden(t, filepath.Join("testdata", "optimizer.txt"), below(t, doc, clip, ZeroOptions{0, 1}, 64<<10)[0].Text())
}

// Every element of every State that lies below is read, then written, once and in order; none is on the device but in a Temp; and no more of
// them are there at a time than there is room for.
func TestOffloadStates(t *testing.T) {
	const piece = 48 << 10
	for rule := range optimizerNames {
		for _, clip := range []float32{0, 1} {
			for _, accumulate := range []int{1, 2} {
				for stage := range 4 {
					o := adamw()
					o.Optimizer, o.Clip, o.Accumulate, o.Momentum = Optimizer(rule), clip, accumulate, 0.9
					z := ZeroOptions{stage, 1 + min(stage, 1)}
					name := fmt.Sprintf("%v, clip %g, %d micro-batches, stage %d", o.Optimizer, clip, accumulate, stage)
					ps := below(t, llama, o, z, piece)
					last := ps[len(ps)-1]
					checkBelow(t, name, last, piece)
					if ps[0] != last { // a micro-batch updates nothing
						for i := range ps[0].Buffers {
							if ps[0].Buffers[i].Tier != mem.Device {
								t.Errorf("%s: a micro-batch has %q on %v", name, ps[0].Buffers[i].Name, ps[0].Buffers[i].Tier)
							}
						}
					}
				}
			}
		}
	}
}

func checkBelow(t *testing.T, name string, p *Program, piece int64) {
	t.Helper()
	read, wrote := map[int32]int64{}, map[int32]int64{}
	size := func(o Operand) int64 { return o.Type.Shape.Elems(p.Bounds) }
	largest, states := int64(0), 0
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Purpose != mem.OptimState || !b.Persistent() {
			continue
		}
		if states++; b.Tier != mem.Disk {
			t.Errorf("%s: %q lies on %v", name, b.Name, b.Tier)
		}
	}
	if states == 0 {
		t.Errorf("%s: there are no States", name)
	}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		switch o := in.Op.(type) {
		case graph.Fetch:
			b := in.In[0].Buffer
			if read[b] != int64(o.At) || wrote[b] > read[b] {
				t.Errorf("%s: %q is read at %d after %d elements", name, p.Buffers[b].Name, o.At, read[b])
			}
			read[b] += size(in.Out[0])
			largest = max(largest, p.Buffers[in.Out[0].Buffer].Bytes)
		case graph.Offload:
			b := in.Out[0].Buffer
			if wrote[b] != int64(o.At) || wrote[b]+size(in.In[0]) > read[b] {
				t.Errorf("%s: %q is written at %d after %d elements", name, p.Buffers[b].Name, o.At, wrote[b])
			}
			wrote[b] += size(in.In[0])
		}
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if n := b.Type.Shape.Elems(p.Bounds); b.Tier == mem.Disk && (read[int32(i)] != n || wrote[int32(i)] != n) {
			t.Errorf("%s: of %q, %d elements, %d are read and %d written", name, b.Name, n, read[int32(i)], wrote[int32(i)])
		}
	}
	for _, u := range p.Timeline() {
		if n := int64(u[mem.Device][mem.OptimState]); n > roomPieces*piece+2*largest {
			t.Errorf("%s: %d bytes of States are on the device", name, n)
			break
		}
	}
}

// Copies that the link does not carry in time are waited for, and the less the faster it is; Seconds count that.
func TestWaitsForStates(t *testing.T) {
	clip := adamw()
	clip.Clip = 1
	g := llama.step(t, clip)
	plain := mustStep(t, g, Options{})
	if plain.Waits != 0 {
		t.Errorf("without the pass: waits %v", plain.Waits)
	}
	g = OffloadStates(g, StatesOptions{Tier: mem.Disk})
	last := 0.0
	for i, rate := range []float64{1e15, 1e9, 1e6} {
		m := cost.Laptop2()
		m.Link[mem.Disk] = rate
		p := mustStep(t, g, Options{Machine: m})
		if i > 0 && p.Waits <= last || p.Seconds < p.Waits {
			t.Errorf("at %g bytes/s: waits %v, %v at the rate before, of %v", rate, p.Waits, last, p.Seconds)
		}
		last = p.Waits
	}
	var bytes float64
	for i := range plain.Buffers {
		if b := &plain.Buffers[i]; b.Purpose == mem.OptimState {
			bytes += 2 * float64(b.Type.Bytes(plain.Bounds))
		}
	}
	if want := bytes / 1e6; last < 0.9*want || last > want {
		t.Errorf("at 1 MB/s: waits %v s for %v bytes both ways", last, bytes)
	}
}

// A program stays on the Go heap while it runs, inside the Runtime line of a plan: its lists hold no more than it has, and so do those of
// operands, of which every instruction has its own.
func TestProgramsHoldNoMoreThanTheyHave(t *testing.T) {
	for _, p := range below(t, llama, adamw(), ZeroOptions{0, 1}, 48<<10) {
		if cap(p.Instrs) != len(p.Instrs) || cap(p.Buffers) != len(p.Buffers) {
			t.Errorf("%s: got room for %d instructions and %d buffers, want %d and %d", p.Name, cap(p.Instrs), cap(p.Buffers), len(p.Instrs), len(p.Buffers))
		}
		for i := range p.Instrs {
			if in := &p.Instrs[i]; cap(in.In) != len(in.In) || cap(in.Out) != len(in.Out) {
				t.Fatalf("%s: instruction %d: got room for %d and %d operands, want %d and %d", p.Name, i, cap(in.In), cap(in.Out), len(in.In), len(in.Out))
			}
		}
	}
}
