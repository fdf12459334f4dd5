package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"loadline/compile"
	"loadline/device"
	"loadline/device/ref"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/model"
	"loadline/serve"
	"loadline/train"
)

// axes are the dimensions of the combinations, by the names of their values.
var axes = [][]string{
	{"none", "full", "attn.core,norm", "auto least", "auto half"}, // recompute
	{"flash", "standard"}, // attention
	{"1", "2"},            // accumulation
	{"off", "host", "disk", "optimizer to disk", "both to host"}, // offload
	{"one rank", "0", "1", "2", "3"},                             // ZeRO, at two ranks
	{model.Llama, model.Mixtral, model.GPT2},
	{"tied", "untied"},
}

// enough is the least number of combinations.
const enough = 64

// combinations chooses combinations, greedily by how many triples of values they are the first to show, until there are enough and every
// pair of values has been seen.
func combinations() [][]int {
	type triple [6]int
	triples := func(c []int, f func(k triple)) {
		for a := range c {
			for b := a + 1; b < len(c); b++ {
				f(triple{a, c[a], b, c[b], -1, -1})
				for d := b + 1; d < len(c); d++ {
					f(triple{a, c[a], b, c[b], d, c[d]})
				}
			}
		}
	}
	var all [][]int
	for c := make([]int, len(axes)); ; {
		all = append(all, append([]int(nil), c...))
		i := 0
		for i < len(c) && c[i] == len(axes[i])-1 {
			c[i] = 0
			i++
		}
		if i == len(c) {
			break
		}
		c[i]++
	}
	pairs := map[triple]bool{}
	for _, c := range all {
		triples(c, func(k triple) {
			if k[4] < 0 {
				pairs[k] = true
			}
		})
	}
	seen := map[triple]bool{}
	var out [][]int
	for len(out) < enough || len(pairs) > 0 {
		best, most := 0, -1
		for i, c := range all {
			n := 0
			triples(c, func(k triple) {
				if !seen[k] {
					n++
				}
				if pairs[k] {
					n += 20
				}
			})
			if n > most {
				best, most = i, n
			}
		}
		triples(all[best], func(k triple) {
			seen[k] = true
			delete(pairs, k)
		})
		out = append(out, all[best])
		all = append(all[:best], all[best+1:]...)
	}
	return out
}

// name joins the names of a combination's values.
func name(c []int) string {
	var s []string
	for i, v := range c {
		s = append(s, axes[i][v])
	}
	return strings.Join(s, " · ")
}

// combined are the options of a combination.
func combined(t *testing.T, c []int) train.Options {
	value := func(axis int) string { return axes[axis][c[axis]] }
	config := map[string]model.Config{model.Llama: dense(4), model.Mixtral: experts(2), model.GPT2: gpt2(4)}[value(5)]
	config.TieWordEmbeddings, config.IntermediateSize = value(6) == "tied", 48
	o := train.Defaults(config)
	// Rows times width is the least that is offloaded, and more than a chunk of the loss head.
	o.Batch, o.Seq, o.Steps, o.Warmup, o.EvalEvery, o.SaveEvery, o.HeadChunk = 3, 44, 2, 1, 2, 1, 128
	o.Attention, o.Accumulate = value(1), c[2]+1
	o.Dropout = 0.1 * float64((c[0]+c[3]+c[4])%2)
	if c[0]%2 == 1 {
		o.Clip = 0 // updates stand in the backward half
	}
	setOffload(&o, value(3))
	if c[4] > 0 {
		o.Ranks, o.Zero = 2, c[4]-1
	}
	switch s := (setup{device: observed(t, nil)}); value(0) {
	case "auto least":
		tightest(t, &o, s)
	case "auto half":
		halfway(t, &o, s)
	default:
		o.Recompute = policy(t, value(0))
	}
	return o
}

// observer compares the bytes in use with the timelines of a job.
type observer struct {
	t         *testing.T
	timelines map[string][]mem.Usage

	mu       sync.Mutex
	compared map[string]int // instructions, by program
	faults   int
}

func newObserver(t *testing.T, j *compile.Job) *observer {
	o := &observer{t: t, timelines: map[string][]mem.Usage{}, compared: map[string]int{}}
	for _, p := range j.Programs {
		o.timelines[p.Name] = p.Timeline()
	}
	return o
}

func (o *observer) observe(program string, instr int, u mem.Usage) {
	want := o.timelines[program][instr]
	o.mu.Lock()
	defer o.mu.Unlock()
	o.compared[program]++
	if u == want {
		return
	}
	if o.faults++; o.faults > 3 {
		return
	}
	for tier := range want {
		for p := range want[tier] {
			if u[tier][p] != want[tier][p] {
				o.t.Errorf("program %q, instruction %d, %v on %v: got %d bytes, the timeline says %d", program, instr, mem.Purpose(p), mem.Tier(tier), u[tier][p], want[tier][p])
			}
		}
	}
}

// all is the number of instructions compared. It fails unless each program ran.
func (o *observer) all() (n int) {
	for program := range o.timelines {
		if o.compared[program] == 0 {
			o.t.Errorf("program %q did not run", program)
		}
		n += o.compared[program]
	}
	return n
}

// observed makes a reference device for each rank that tells f, perhaps nil.
func observed(t *testing.T, f func(program string, instr int, u mem.Usage)) func(int) device.Device {
	return func(int) device.Device {
		d := ref.New(ref.F32)
		d.Observe = f
		return d
	}
}

// In whole training jobs (start, steps, evaluation, save, resume) the bytes in use are those that Timeline says, at every instruction, in
// every tier and for every purpose.
func TestTimelineOfTraining(t *testing.T) {
	chosen := combinations()
	if testing.Short() {
		chosen = chosen[:len(chosen)/3]
	}
	var mu sync.Mutex
	instructions, replays, copies, runs := 0, 0, 0, 0
	t.Run("combinations", func(t *testing.T) {
		for _, c := range chosen {
			t.Run(name(c), func(t *testing.T) {
				t.Parallel()
				o := combined(t, c)
				s := setup{device: observed(t, nil), out: t.TempDir()}
				j := plan(t, o, s)
				moved := 0
				for i := range j.Step.Instrs {
					if j.Step.Instrs[i].Ticket >= 0 {
						moved++
					}
				}
				// What is computed again need not be carried as well.
				if o.Offload && o.Recompute.Policy == compile.None && moved == 0 {
					t.Error("nothing is offloaded")
				}
				seen := newObserver(t, j.Job)
				s.device = observed(t, seen.observe)
				half := *j
				half.Options.Steps = 1
				execute(t, &half, s)
				s.resume = s.out
				execute(t, j, s)
				mu.Lock()
				defer mu.Unlock()
				instructions += seen.all()
				copies += moved
				runs++
				if nested(j.Step) {
					replays++
				}
			})
		}
	})
	t.Logf("%d combinations, %d instructions compared; %d with nested replay, %d copies between tiers", runs, instructions, replays, copies)
	if !testing.Short() && (runs < 60 || replays == 0 || copies == 0) {
		t.Errorf("got %d combinations, %d with nested replay, %d copies: want 60, 1 and 1 at least", runs, replays, copies)
	}
}

// The same for a serving pass: prompts in chunks, several sequences, too few blocks for all of them.
func TestTimelineOfServing(t *testing.T) {
	instructions := 0
	for _, c := range []model.Config{dense(2), experts(2), gpt2(2)} {
		j, err := serve.Plan(serve.Options{Config: c, Context: 40, MaxSeqs: 3, BlockSize: 4, PrefillChunk: 7, Blocks: 14}, ref.New(ref.F32))
		if err != nil {
			t.Fatal(err)
		}
		seen := newObserver(t, j.Job)
		e, err := serve.New(j, observed(t, seen.observe)(0), device.Env{Ledger: mem.NewLedger(mem.Limits{})}, fresh(c))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := e.Add(serve.Request{ID: fmt.Sprint(i), Prompt: text()[100*i : 100*i+20], MaxTokens: 6 + 3*i}); err != nil {
				t.Fatal(err)
			}
		}
		for !e.Idle() {
			if _, err := e.Step(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.Generate(context.Background(), serve.Request{ID: "alone", Prompt: text()[:1], MaxTokens: 2}, nil); err != nil {
			t.Fatal(err)
		}
		instructions += seen.all()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d instructions compared", instructions)
}

// fresh makes start values of weights, twelve times as large as a training would: the model has opinions.
func fresh(c model.Config) serve.Source {
	params, at := map[string]model.Param{}, map[string]int{}
	for _, p := range c.Parameters() {
		p.Init.Std *= 12
		params[p.Name] = p
	}
	return func(state string, p []byte) error {
		x, ok := params[state]
		if !ok {
			return fmt.Errorf("no weight %q", state)
		}
		model.Fill(x, 1, at[state], arena.F32(p))
		at[state] += len(p) / 4
		return nil
	}
}
