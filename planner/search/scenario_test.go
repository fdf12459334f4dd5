package search

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"loadline/mem"
	"loadline/planner/hardware"
	"loadline/planner/shape"
)

// ask makes a question from names.
func ask(t testing.TB, model, machine, task string, change func(*Question)) Question {
	t.Helper()
	cards, err := shape.Load()
	if err != nil {
		t.Fatal(err)
	}
	table, err := hardware.Load()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := cards.ByName(model)
	if !ok {
		t.Fatalf("no model %q", model)
	}
	m, err := ParseMachine(table, machine)
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Shape: s, Machine: m, Task: task}
	if change != nil {
		change(&q)
	}
	return q
}

// scenarios are machines that people have, from a laptop to a cluster.
var scenarios = []struct {
	model, machine, task string
	change               func(*Question)
	want                 string // in the reasons
}{
	{"Llama-3.1-8B", "RTX 4060 Laptop 8GB", Serve, func(q *Question) { q.Context = 8192 }, "layers on the cards"},
	{"Llama-3.2-1B", "RTX 4060 Laptop 8GB", Finetune, func(q *Question) { q.Seq, q.GlobalBatch = 2048, 16 }, "adapter"},
	{"Qwen3-8B", "RTX-4090", Finetune, func(q *Question) { q.Seq, q.GlobalBatch = 4096, 16 }, "adapter"},
	{"Llama-3.1-70B", "2xRTX-4090", Serve, func(q *Question) { q.Context = 8192 }, "W4A16"},
	{"Qwen3-8B", "A100-40GB", Finetune, func(q *Question) { q.Hold.Adapter, q.Framework, q.GlobalBatch = "lora", "deepspeed", 16 }, "adapter"},
	{"Llama-3.1-8B", "RTX-3090", Serve, func(q *Question) { q.Context, q.Concurrency, q.Framework = 16384, 4, "vllm" }, "W4A16"},
	{"Llama-3.2-1B", "A100-80GB", Train, func(q *Question) { q.Seq, q.GlobalBatch = 4096, 64 }, "BF16"},
	{"Llama-3.1-8B", "8xA100-80GB", Train, func(q *Question) { q.Seq, q.GlobalBatch = 8192, 64 }, "ZeRO"},
	{"Llama-3.1-70B", "8xH100-SXM-80GB", Train, func(q *Question) { q.Seq, q.GlobalBatch = 8192, 256 }, "offload"},
	{"Mixtral-8x7B", "8xH100", Serve, func(q *Question) { q.Context, q.Concurrency = 8192, 64 }, "paged"},
	{"Llama-3.1-405B", "8xH200", Serve, func(q *Question) { q.Context, q.Concurrency = 16384, 32 }, "tensor"},
	{"Llama-3.1-70B", "4x8xH100", Train, func(q *Question) { q.Seq, q.GlobalBatch = 8192, 512 }, "ranks"},
}

// TestScenarios checks that every scenario has an answer with its reasons, and that a sweep over the whole space,
// without the search's shortcuts, holds no acceptable plan that is both smaller and faster.
func TestScenarios(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.machine+" "+sc.task+" "+sc.model, func(t *testing.T) {
			q := ask(t, sc.model, sc.machine, sc.task, sc.change)
			a, err := Plans(q)
			if err != nil {
				t.Fatal(err)
			}
			if !a.Fits || len(a.Plans) == 0 {
				t.Fatalf("got no plan that fits; %s; %+v", a.Next, a.Plans)
			}
			best := a.Plans[0]
			t.Logf("%s: of %d plans", a.Hardware, a.Searched)
			for _, p := range a.Plans {
				t.Logf("%v: peak %v [%v, %v] chance %.3f, %.4g s, %.4g tokens/s, bound by %s, host %v", p.Options, p.Peak, p.Range[0], p.Range[1], p.OOMChance, p.StepSeconds, p.TokensPerSecond, p.Bound, p.Host)
			}
			t.Logf("why: %s\nnext: %s", strings.Join(best.Path, "\n     "), a.Next)
			checkPlan(t, &q, a)
			if !strings.Contains(best.Why, sc.want) {
				t.Errorf("the reasons do not speak of %q", sc.want)
			}
			swept := 0
			for level := range a.Question.levels() {
				var found []Plan
				sweep(t, q, level, func(p *Plan) {
					swept++
					if !p.Fits() {
						return
					}
					found = append(found, *p)
					if p.Peak < best.Peak && p.TokensPerSecond > best.TokensPerSecond {
						t.Errorf("smaller and faster: %+v: %v, %.4g tokens/s", p.Config, p.Peak, p.TokensPerSecond)
					}
				})
				if a.Question.enough(found, level) {
					break
				}
			}
			if swept < a.Searched {
				t.Errorf("swept %d plans, fewer than the %d of the search", swept, a.Searched)
			}
		})
	}
}

// checkPlan checks what holds of every answer.
func checkPlan(t *testing.T, q *Question, a *Answer) {
	t.Helper()
	for _, p := range a.Plans {
		sum := mem.Bytes(0)
		for _, n := range p.ByPurpose {
			if n < 0 {
				t.Errorf("%+v: negative bytes: %v", p.Config, p.ByPurpose)
			}
			sum += n
		}
		if sum != p.Peak {
			t.Errorf("%+v: purposes sum to %v, want the peak %v", p.Config, sum, p.Peak)
		}
		largest := mem.Bytes(0)
		for _, s := range p.Stages {
			largest = max(largest, s.Peak)
		}
		if largest != p.Peak {
			t.Errorf("%+v: largest stage %v, want the peak %v", p.Config, largest, p.Peak)
		}
		if p.Range[0] > p.Peak || p.Peak > p.Range[1] || p.OOMChance < 0 || p.OOMChance > 1 {
			t.Errorf("%+v: peak %v in %v, chance %v", p.Config, p.Peak, p.Range, p.OOMChance)
		}
		if !(p.StepSeconds > 0) || !(p.TokensPerSecond > 0) || math.IsInf(p.TokensPerSecond, 0) || p.Bound == "" {
			t.Errorf("%+v: %v s, %v tokens/s, bound by %q", p.Config, p.StepSeconds, p.TokensPerSecond, p.Bound)
		}
		if a.Fits && p.Range[1] > a.Limit {
			t.Errorf("%+v: p90 %v above the limit %v", p.Config, p.Range[1], a.Limit)
		}
		if len(p.Path) < 5 {
			t.Errorf("%+v: got %d reasons: %s", p.Config, len(p.Path), fmt.Sprint(p.Path))
		}
	}
	if a.Next == "" {
		t.Error("nothing is said of the next step up")
	}
}

// sweep tries the full product of every system's axes.
func sweep(t *testing.T, q Question, level int, visit func(*Plan)) {
	t.Helper()
	if err := q.normalize(); err != nil {
		t.Fatal(err)
	}
	for _, system := range q.systems() {
		if q.Framework != "any" && q.Framework != system {
			continue
		}
		a := q.axes(system, level)
		dims := []int{
			len(a.ranks), len(a.tp), len(a.pp), len(a.cp), len(a.ep), len(a.chunks), len(a.zero), len(a.layers), len(a.micro), len(a.precision), len(a.adapter), len(a.optimizer),
			len(a.head), len(a.quant), len(a.kv), len(a.recompute), len(a.offload),
		}
		total := 1
		for _, d := range dims {
			total *= d
		}
		for n := range total {
			at := make([]int, len(dims))
			for i, d := range dims {
				at[i], n = n%d, n/d
			}
			c := Config{
				System: system, Ranks: a.ranks[at[0]], TP: a.tp[at[1]], PP: a.pp[at[2]], CP: a.cp[at[3]], EP: a.ep[at[4]], Interleave: a.chunks[at[5]], ZeRO: a.zero[at[6]], GPULayers: a.layers[at[7]],
				MicroBatch: a.micro[at[8]], Precision: a.precision[at[9]], Adapter: a.adapter[at[10]], Optimizer: a.optimizer[at[11]], LossHead: a.head[at[12]],
				Quant: a.quant[at[13]], KVType: a.kv[at[14]], Recompute: a.recompute[at[15]], Offload: a.offload[at[16]], AdapterRank: q.Hold.AdapterRank,
			}
			ok := q.known(&c)
			if ok && q.Task == Serve {
				ok = q.serves(&c, level)
			} else if ok {
				ok = q.combines(&c) && q.batches(&c)
			}
			if !ok {
				continue
			}
			p, err := q.evaluate(c)
			if err == nil {
				visit(&p)
			}
		}
	}
}
