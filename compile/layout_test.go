package compile

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"loadline/graph"
	"loadline/mem"
)

// pieceProgram has the lives of a program that streams States by pieces: each for a few instructions, of sizes that fit badly beside each other.
func pieceProgram(rng *rand.Rand, pieces int) *Program {
	p := &Program{Instrs: make([]Instr, pieces+40)}
	for k := range pieces {
		b := Buffer{Kind: graph.Temp, Bytes: graph.RoundUp(rng.Int64N(1<<20) + 1), First: int32(k), Last: int32(k + 3 + rng.IntN(20))}
		if rng.IntN(3) == 0 {
			b.Bytes = 5 << 17
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// What is planned stays: every buffer of these programs has the place that it had before layouts were made quicker.
func TestLayoutsStay(t *testing.T) {
	var text strings.Builder
	add := func(name string, p *Program, quick bool) {
		layout(p, quick)
		h := fnv.New64a()
		for i := range p.Buffers {
			fmt.Fprintln(h, p.Buffers[i].Offset)
		}
		fmt.Fprintf(&text, "%s quick=%v: %d buffers, arena %d, bound %d, places %x\n", name, quick, len(p.Buffers), p.Arena[mem.Device], p.Bound[mem.Device], h.Sum64())
		if err := Verify(p); err != nil && strings.Contains(err.Error(), "overlap") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := 20 + rng.IntN(150)
		add(fmt.Sprintf("random %d", seed), randomProgram(rng, n, 2*n), seed%3 == 0)
	}
	for seed, n := range []int{30, 100, 300, 700, 1600, 6200} {
		add(fmt.Sprintf("pieces %d", seed), pieceProgram(rand.New(rand.NewPCG(uint64(seed), 6)), n), false)
	}
	golden(t, filepath.Join("testdata", "layouts.txt"), text.String())
}
