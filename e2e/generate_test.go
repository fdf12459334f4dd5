package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/data"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/model"
	"loadline/model/weights"
	"loadline/serve"
	"loadline/tensor/kernel"
	"loadline/train"
	"loadline/train/checkpoint"
)

// Each answer is newTokens tokens after one of prompts; together they fit into generateContext.
const (
	newTokens       = 30
	generateContext = 128
)

// prompts are of many lengths: one token, less than the smallest block, a whole block, more than the largest.
func prompts() [][]int32 {
	all := text()
	return [][]int32{all[7:8], all[100:103], all[200:216], all[300:341], all[500:590], all[700:755]}
}

// trained trains a model on a page until it knows some of it by heart, and so writes more than the commonest word, and returns the path of
// its checkpoint.
func trained(t *testing.T, c model.Config) string {
	t.Helper()
	o := train.Defaults(c)
	o.Batch, o.Seq, o.Steps, o.Warmup, o.LR = 4, 64, 300, 10, 1e-2
	return run(t, o, setup{out: t.TempDir(), batches: func() train.Batches {
		s, err := data.NewStream(text()[:1025], data.Options{Batch: o.Batch, Seq: o.Seq})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}).path
}

// answers runs all requests on one engine, in the order given and all at once, and returns the new tokens by prompt.
func answers(t *testing.T, m *weights.Model, dev device.Device, o serve.Options, order []int) (map[int][]int32, serve.Stats) {
	t.Helper()
	o.Config, o.Context = m.Config, generateContext
	j, err := serve.Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	m.Rewind()
	e, err := serve.New(j, dev, device.Env{Ledger: mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()})}, m.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, i := range order {
		if err := e.Add(serve.Request{ID: fmt.Sprint(i), Prompt: prompts()[i], MaxTokens: newTokens}); err != nil {
			t.Fatal(err)
		}
	}
	out := map[int][]int32{}
	for !e.Idle() {
		events, err := e.Step()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range events {
			if x.Kind == serve.Failed {
				t.Fatal(x.Err)
			}
			if x.Kind == serve.Token {
				var i int
				fmt.Sscan(x.ID, &i)
				out[i] = append(out[i], x.Token)
			}
		}
	}
	return out, e.Stats()
}

// Greedy tokens are the same whatever the blocks of the cache, the chunks of the prompt, batch-mates, preemption and threads are, and the
// same as of computing the whole text anew for every token.
func TestGenerateChangesNoToken(t *testing.T) {
	for _, c := range []model.Config{dense(3), experts(2), gpt2(2)} {
		path := trained(t, c)
		for _, set := range kernel.Sets() {
			if testing.Short() && (set != kernel.Best() || c.ModelType == model.GPT2) {
				continue
			}
			t.Run(set.Name()+"/"+c.ModelType, func(t *testing.T) {
				t.Parallel()
				m, err := checkpoint.OpenModel(path)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				dev := func(threads int) device.Device { return cpu.New(cpu.Options{Threads: threads, Set: set}) }
				want := map[int][]int32{}
				different := map[int32]bool{}
				for i := range prompts() {
					got, _ := answers(t, m, dev(1), serve.Options{BlockSize: 16, PrefillChunk: generateContext, NoCache: true}, []int{i})
					if want[i] = got[i]; len(got[i]) != newTokens {
						t.Fatalf("prompt %d: got %d tokens, want %d", i, len(got[i]), newTokens)
					}
					for _, x := range got[i] {
						different[x] = true
					}
				}
				if len(different) < 16 {
					t.Errorf("all answers together have %d different tokens: they prove little", len(different))
				}
				everyTokenAnew(t, m, dev(1), want)
				likeTraining(t, m, dev(1), want)
				compare := func(name string, threads int, o serve.Options, order []int) serve.Stats {
					got, stats := answers(t, m, dev(threads), o, order)
					for _, i := range order {
						if !slices.Equal(got[i], want[i]) {
							t.Errorf("%s: prompt %d: got %v, want %v", name, i, got[i], want[i])
						}
					}
					return stats
				}
				all := []int{3, 5, 4, 0, 1, 2} // the first two outgrow the largest block
				for n, block := range []int{4, 16, 64} {
					for k, chunk := range []int{1, 5, 128} {
						o := serve.Options{BlockSize: block, PrefillChunk: chunk}
						compare(fmt.Sprintf("alone, blocks of %d, chunks of %d", block, chunk), 1+(n+k)%2, o, []int{3})
						o.MaxSeqs = 2 + k
						compare(fmt.Sprintf("%d at a time, blocks of %d, chunks of %d", o.MaxSeqs, block, chunk), 2-(n+k)%2, o, all)
					}
					o := serve.Options{BlockSize: block, PrefillChunk: 5, MaxSeqs: 5, Blocks: generateContext/block + 1}
					if s := compare(fmt.Sprintf("too few blocks of %d", block), 2, o, all); s.Sched.Preemptions == 0 {
						t.Errorf("blocks of %d: nothing is preempted", block)
					}
				}
			})
		}
	}
}

// everyTokenAnew asks for one token at a time, each time with the whole text so far as a prompt and nothing kept.
func everyTokenAnew(t *testing.T, m *weights.Model, dev device.Device, want map[int][]int32) {
	t.Helper()
	o := serve.Options{Config: m.Config, Context: generateContext, BlockSize: 16, PrefillChunk: generateContext, NoCache: true}
	j, err := serve.Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	m.Rewind()
	e, err := serve.New(j, dev, device.Env{Ledger: mem.NewLedger(mem.Limits{})}, m.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i, p := range prompts() {
		for n := range want[i] {
			got, err := e.Generate(t.Context(), serve.Request{ID: "anew", Prompt: slices.Concat(p, want[i][:n]), MaxTokens: 1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got[0].Tokens[0] != want[i][n] {
				t.Errorf("prompt %d, token %d computed anew: got %d, want %d", i, n, got[0].Tokens[0], want[i][n])
			}
		}
	}
}

// tie is the distance of two logits up to which training's graph may choose the other: it sums attention over other tiles, in float32.
const tie = 1e-4

// likeTraining computes the logits of the whole text with the graph that training evaluates, which knows no cache.
func likeTraining(t *testing.T, m *weights.Model, dev device.Device, want map[int][]int32) {
	t.Helper()
	c := m.Config
	for i, p := range prompts() {
		tokens := slices.Concat(p, want[i])
		o := model.TrainOptions{Name: "eval", Batch: 1, Seq: len(tokens)}
		g, err := model.EvalGraph(c, o)
		if err != nil {
			t.Fatal(err)
		}
		for v := range g.Values {
			if g.Values[v].Name == "logits" {
				graph.Edit(g).Output("logits", graph.Value(v))
			}
		}
		eval, err := compile.Step(g, compile.Options{Machine: cost.Laptop2()})
		if err != nil {
			t.Fatal(err)
		}
		load, err := compile.Step(model.RestoreGraph("load", model.StoredStates(g)...), compile.Options{Machine: cost.Laptop2()})
		if err != nil {
			t.Fatal(err)
		}
		j, err := compile.NewJob(mem.Usage{}, eval, load)
		if err != nil {
			t.Fatal(err)
		}
		s, err := dev.Open(j, device.Env{Ledger: mem.NewLedger(mem.Limits{})})
		if err != nil {
			t.Fatal(err)
		}
		n := len(tokens)
		positions, sequences, table := make([]int32, n), make([]int32, n), make([]int32, n/o.KVBlock())
		model.FillStatic(o, 0, positions, sequences, table)
		m.Rewind()
		err = s.Run("load", device.Args{Source: m.Source})
		for name, v := range map[string][]int32{
			model.TokensInput: tokens, model.PositionsInput: positions, model.SequencesInput: sequences, model.TableInput: table, model.TargetsInput: tokens,
		} {
			p := make([]byte, 4*len(v))
			copy(arena.I32(p), v)
			err = errors.Join(err, s.Write(name, 0, p))
		}
		out := make([]byte, 4*n*c.VocabSize)
		err = errors.Join(err, s.Write(model.LossWeightInput, 0, []byte{0, 0, 128, 63}), s.Run("eval", device.Args{}), s.Read("logits", 0, out), s.Close())
		if err != nil {
			t.Fatal(err)
		}
		logits := arena.F32(out)
		for k, got := range want[i] {
			at := len(p) - 1 + k
			row := logits[at*c.VocabSize : (at+1)*c.VocabSize]
			if best := slices.Max(row); !(best-row[got] <= tie) {
				t.Errorf("prompt %d, token %d: training's graph gives token %d the logit %v, the best has %v", i, k, got, row[got], best)
			}
		}
	}
}
