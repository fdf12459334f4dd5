package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"loadline/graph"
	"loadline/mem"
)

// randomProgram has buffers of random sizes and lives: some long, most short, many alike.
func randomProgram(rng *rand.Rand, instrs, buffers int) *Program {
	p := &Program{Instrs: make([]Instr, instrs)}
	sizes := []int64{64, 64, 128, 640, 4096, 4096, 65536}
	for range buffers {
		life := 1 + rng.IntN(6)
		if rng.IntN(4) == 0 {
			life = 1 + rng.IntN(instrs)
		}
		first := rng.IntN(max(1, instrs-life+1))
		b := Buffer{Kind: graph.Temp, Bytes: sizes[rng.IntN(len(sizes))], First: int32(first), Last: int32(min(first+life, instrs) - 1)}
		if rng.IntN(8) == 0 {
			b.Bytes = graph.RoundUp(rng.Int64N(100_000) + 1)
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// Sets of offsets give the places that a look at each buffer gives.
func TestOccupied(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := randomProgram(rng, 1+rng.IntN(70), 1+rng.IntN(120))
		ids := p.arenaBuffers(mem.Device)
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		limit := bound(p, ids)
		downs := map[string]func(int32) bool{"up": nil, "both ends": func(i int32) bool { return p.Buffers[i].Last-p.Buffers[i].First < 3 }}
		for name, down := range downs {
			for _, tight := range []bool{false, true} {
				plain := &placer{p: p, offset: make([]int64, len(p.Buffers)), down: down, tight: tight}
				sets := &placer{p: p, offset: make([]int64, len(p.Buffers)), down: down, tight: tight, taken: newOccupied(len(p.Instrs))}
				for again := range 2 { // the second begins with what the first has left
					a, b := plain.fit(ids, limit, math.MaxInt64), sets.fit(ids, limit, math.MaxInt64)
					if a != b || !slices.Equal(plain.offset, sets.offset) {
						t.Fatalf("seed %d, %s, tight %v, time %d: sizes %d and %d, offsets\n%v and\n%v", seed, name, tight, again+1, a, b, plain.offset, sets.offset)
					}
					if c := plain.fit(ids, limit, a); c != a {
						t.Fatalf("seed %d: of a most of its size %d fit gives %d", seed, a, c)
					}
					if c := sets.fit(ids, limit, a-1); c < a {
						t.Fatalf("seed %d: of a most below its size %d fit gives %d", seed, a, c)
					}
				}
			}
		}
	}
}

func TestMaxima(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := 1; n < 40; n++ {
		x := make([]int64, n)
		for i := range x {
			x[i] = rng.Int64N(100)
		}
		m := newMaxima(x)
		for first := range n {
			for last := first; last < n; last++ {
				if got, want := m.over(int32(first), int32(last)), slices.Max(x[first:last+1]); got != want {
					t.Fatalf("%v: got %d from %d to %d, want %d", x, got, first, last, want)
				}
			}
		}
	}
}

// BenchmarkStep compiles a training step of many layers.
func BenchmarkStep(b *testing.B) {
	for _, layers := range []int{32, 125, 250, 500} {
		c := shape{d: 64, layers: layers, heads: 4, kv: 2, ffn: 160, vocab: 256, batch: 1, seq: 64, tied: true, chunk: 128}
		g := c.step(b, adamw())
		for _, r := range []Policy{None, Full} {
			b.Run(fmt.Sprintf("%d/%v", layers, Recompute{Policy: r}), func(b *testing.B) {
				for b.Loop() {
					mustStep(b, g, Options{Recompute: Recompute{Policy: r}})
				}
			})
		}
		b.Run(fmt.Sprintf("%d/auto", layers), func(b *testing.B) {
			full := mustStep(b, g, Options{Recompute: Recompute{Policy: Full}})
			for b.Loop() {
				mustStep(b, g, Options{Recompute: Recompute{Policy: Auto}, Limit: full.Arena[mem.Device] * 5 / 4})
			}
		})
	}
}
