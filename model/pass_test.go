package model

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loadline/device"
	"loadline/graph"
	"loadline/internal/golden"
)

// pager is a toy of what a KV cache does: sequences own blocks in any order, and move to other ones.
type pager struct {
	o     PassOptions
	table [][]int32 // by sequence: its blocks
	done  []int     // by sequence: tokens computed
	free  []int32
}

// copies moves the last, partly filled block of every sequence that has one to a fresh block and returns the pairs.
func (p *pager) copies() []int32 {
	pairs := make([]int32, 0, 2*p.o.MaxCopies)
	for s, n := range p.done {
		if n%p.o.BlockSize == 0 || len(p.free) == 0 || len(pairs) == 2*p.o.MaxCopies {
			continue
		}
		i := n / p.o.BlockSize
		old := p.table[s][i]
		p.table[s][i] = p.free[0]
		pairs = append(pairs, old, p.free[0])
		p.free = append(p.free[1:], old)
	}
	for len(pairs) < 2*p.o.MaxCopies {
		pairs = append(pairs, -1, 0)
	}
	return pairs
}

// Logits through a paged pool, in chunks of any length, mixed with the other sequence's, are bit for bit those of a whole
// forward: a row's bits depend on its sequence alone.
func TestPassGivesTheTrainGraphsLogits(t *testing.T) {
	for _, name := range []string{"dense", "dense_untied", "moe", "gpt2", "dense gelu", "moe gelu_pytorch_tanh"} {
		t.Run(name, func(t *testing.T) {
			name, act, _ := strings.Cut(name, " ") // weights of one activation do for another
			dir := goldenDir + name + "/"
			c, err := ReadConfig(dir + "config.json")
			if err != nil {
				t.Fatal(err)
			}
			if act != "" {
				c.HiddenAct = act
			}
			weights, inputs := golden.Load(t, dir+"weights.safetensors"), golden.Load(t, dir+"activations.safetensors")
			tokens, shape := inputs.I32("tokens")
			o := TrainOptions{Name: "whole", Batch: shape[0], Seq: shape[1]}
			g, err := EvalGraph(c, o)
			if err != nil {
				t.Fatal(err)
			}
			graph.Edit(g).Output(LogitsOutput, find(t, g, "logits"))
			r := open(t, g)
			r.load(c, weights)
			r.static(o)
			r.ints(TokensInput, tokens...)
			r.ints(TargetsInput, tokens...)
			r.run("whole", device.Args{})
			want := r.read(LogitsOutput, len(tokens)*c.VocabSize)
			for seed, block := range []int{1, 5, 16, 48} {
				paged(t, c, weights, tokens, o.Seq, want, block, uint64(seed))
			}
		})
	}
}

// paged runs the sequences of tokens, seq each, through passes of random chunks and compares every row's logits.
func paged(t *testing.T, c Config, weights *golden.Set, tokens []int32, seq int, want []float32, block int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	n := len(tokens) / seq
	o := PassOptions{Name: "pass", MaxRows: 24, MaxOuts: 24, MaxSeqs: n + 1, BlockSize: block, Context: seq, MaxCopies: 3}
	o.Blocks = n*o.TableWidth() + 3
	g, err := PassGraph(c, o)
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, g)
	r.load(c, weights)
	p := &pager{o: o, done: make([]int, n)}
	for _, i := range rng.Perm(o.Blocks) {
		p.free = append(p.free, int32(i))
	}
	for range n {
		p.table = append(p.table, p.free[:o.TableWidth():o.TableWidth()])
		p.free = p.free[o.TableWidth():]
	}
	checked := 0
	for passes := 0; slices.Min(p.done) < seq; passes++ {
		r.ints(CopiesInput, p.copies()...)
		var ids, positions, sequences, slots, rows []int32
		table := make([]int32, o.MaxSeqs*o.TableWidth())
		var places []int // of the rows in tokens
		for _, s := range rng.Perm(n) {
			line := len(table) - (s+1)*o.TableWidth() // any line will do
			copy(table[line:], p.table[s])
			chunk := min(1+rng.IntN(11), seq-p.done[s])
			if passes%3 == 0 {
				chunk = min(1, seq-p.done[s]) // decode
			}
			for range chunk {
				at := p.done[s]
				ids = append(ids, tokens[s*seq+at])
				positions = append(positions, int32(at))
				sequences = append(sequences, int32(line/o.TableWidth()))
				slots = append(slots, p.table[s][at/block]*int32(block)+int32(at%block))
				if rng.IntN(3) > 0 {
					rows = append(rows, int32(len(ids)-1))
					places = append(places, s*seq+at)
				}
				p.done[s]++
			}
		}
		if len(rows) == 0 {
			s := o.MaxSeqs - 1 - int(sequences[0])
			rows, places = []int32{0}, []int{s*seq + int(positions[0])}
		}
		r.ints(TokensInput, ids...)
		r.ints(PositionsInput, positions...)
		r.ints(SequencesInput, sequences...)
		r.ints(SlotsInput, slots...)
		r.ints(RowsInput, rows...)
		r.ints(TableInput, table...)
		r.run("pass", device.Args{Rows: len(ids), Outs: len(rows)})
		got := r.read(LogitsOutput, len(rows)*c.VocabSize)
		for i, at := range places {
			if !slices.Equal(got[i*c.VocabSize:(i+1)*c.VocabSize], want[at*c.VocabSize:(at+1)*c.VocabSize]) {
				t.Fatalf("block %d, seed %d, pass %d: logits of token %d differ from the whole forward's", block, seed, passes, at)
			}
		}
		checked += len(places)
	}
	if checked < len(tokens)/2 {
		t.Errorf("block %d, seed %d: compared only %d of %d rows", block, seed, checked, len(tokens))
	}
}

// A checkpoint goes out and comes back through Save and Restore, in pieces.
func TestSaveAndRestore(t *testing.T) {
	c, _ := mustPreset(t, "gpt2-tiny")
	g, err := EvalGraph(c, TrainOptions{Name: "eval", Batch: 1, Seq: 8})
	if err != nil {
		t.Fatal(err)
	}
	states := StoredStates(g)
	r := open(t, g, SaveGraph("save", states...), RestoreGraph("resume", states...))
	params := map[string]Param{}
	for _, p := range c.Parameters() {
		params[p.Name] = p
	}
	at := map[string]int{}
	r.run("resume", device.Args{Source: func(state string, b []byte) error {
		v := make([]float32, len(b)/4)
		Fill(params[state], 7, at[state], v)
		at[state] += len(v)
		_, err := binary.Encode(b, binary.LittleEndian, v)
		return err
	}})
	var order []string
	saved := map[string][]byte{}
	r.run("save", device.Args{Sink: func(state string, b []byte) error {
		if saved[state] == nil {
			order = append(order, state)
		}
		saved[state] = append(saved[state], b...)
		return nil
	}})
	for i, p := range c.Parameters() {
		if order[i] != p.Name {
			t.Fatalf("saved %q at place %d, want %q", order[i], i, p.Name)
		}
		want := make([]float32, p.Elems())
		Fill(p, 7, 0, want)
		b, err := binary.Append(nil, binary.LittleEndian, want)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b, saved[p.Name]) {
			t.Errorf("%s: saved bytes differ from those restored", p.Name)
		}
	}
}
