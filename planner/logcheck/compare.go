package logcheck

import (
	"fmt"
	"math"

	"loadline/mem"
	"loadline/planner/frameworks"
	"loadline/planner/search"
)

// Line is one figure, planned and read.
type Line struct {
	Name     string  `json:"name"`
	Planned  float64 `json:"planned"`
	Measured float64 `json:"measured"`
	Bytes    bool    `json:"bytes"` // both are bytes
	Error    float64 `json:"error"` // planned / measured − 1
	LogLine  int     `json:"log_line"`
	Why      string  `json:"why"`
}

// Report is a log against its plan.
type Report struct {
	System string   `json:"system"`
	RanOut bool     `json:"ran_out"`
	Lines  []Line   `json:"lines"`
	Alone  []string `json:"alone"` // figures of the log that the plan says nothing of
}

// near is the difference that needs no explanation.
const near = 0.03

// Compare holds a log against the plan of the job that wrote it. What the log says of the card and its share is
// taken from there, so that a cache is compared at the utilization that was used.
func Compare(l *Log, q search.Question, p search.Plan) (*Report, error) {
	planned, err := expect(l, &q, &p)
	if err != nil {
		return nil, err
	}
	rep := &Report{System: l.System, RanOut: l.RanOut, Lines: []Line{}, Alone: []string{}}
	for _, r := range l.Readings {
		want, ok := planned[r.Name]
		if !ok || want <= 0 || r.Value <= 0 {
			rep.Alone = append(rep.Alone, r.String())
			continue
		}
		line := Line{Name: r.Name, Planned: want, Measured: r.Value, Bytes: r.Bytes, Error: want/r.Value - 1, LogLine: r.Line}
		line.Why = explain(l, &line)
		rep.Lines = append(rep.Lines, line)
	}
	return rep, nil
}

// String writes a reading for people.
func (r Reading) String() string {
	if r.Bytes {
		return fmt.Sprintf("%s %v (line %d)", r.Name, mem.Bytes(r.Value), r.Line)
	}
	return fmt.Sprintf("%s %s (line %d)", r.Name, figure(r.Value), r.Line)
}

// figure writes what is no size: a count whole, a small number with four digits.
func figure(x float64) string {
	if x >= 1000 {
		return search.Number(math.Round(x), 15)
	}
	return search.Number(x, 4)
}

// String writes a line for people.
func (l Line) String() string {
	a, b := figure(l.Planned), figure(l.Measured)
	if l.Bytes {
		a, b = mem.Bytes(l.Planned).String(), mem.Bytes(l.Measured).String()
	}
	return fmt.Sprintf("%s: planned %s, read %s (%+.1f%%): %s", l.Name, a, b, 100*l.Error, l.Why)
}

// expect returns what the plan says of each name.
func expect(l *Log, q *search.Question, p *search.Plan) (map[string]float64, error) {
	by := func(u mem.Purpose) float64 { return float64(p.ByPurpose[u.String()]) }
	c := &p.Config
	out := map[string]float64{Weights: by(mem.Weights), KV: by(mem.KVBlocks)}
	switch l.System {
	case "vllm", "sglang":
		serve := frameworks.Serve{Job: search.ServingJob(*q, *c), Memory: q.Machine.Card.Reported(), Sequences: c.Concurrency}
		if total, ok := l.Get(Total); ok {
			serve.Memory = mem.Bytes(total)
		}
		if share, ok := l.Get(Utilization); ok {
			serve.Utilization = share
		}
		if ctx, ok := l.Get(Context); ok && ctx >= 1 && ctx < 1<<26 {
			serve.Seq = int(ctx)
		}
		v, err := frameworks.VLLM(serve)
		if err != nil {
			return nil, err
		}
		u := v.Usage[mem.Device]
		out[Weights], out[KV], out[KVTokens], out[Concurrency] = float64(u[mem.Weights]), float64(u[mem.KVBlocks]), float64(v.Tokens), v.Concurrency
		out[Activations], out[Graphs], out[Outside] = float64(u[mem.Activations]), float64(u[mem.Workspace]), float64(v.Driver)
	case "llamacpp":
		ranks := float64(max(1, p.Ranks))
		out[Weights], out[KV], out[Compute] = ranks*by(mem.Weights), ranks*by(mem.KVBlocks), by(mem.Workspace)
		// What stays on the CPU is not compared: some versions map the whole file, others a part.
	case "deepspeed", "torch":
		runtime := by(mem.Runtime)
		out[Reserved], out[Process] = float64(p.Peak)-runtime, float64(p.Peak)
		out[Allocated] = float64(search.Allocated(*p))
	}
	return out, nil
}

// explain says what a difference comes from, as far as its size tells.
func explain(l *Log, x *Line) string {
	ratio := x.Measured / x.Planned
	is := func(r float64) bool { return math.Abs(ratio/r-1) < 0.06 }
	switch {
	case math.Abs(x.Error) <= near:
		return "as planned"
	case x.Name == Weights && (is(2) || is(4) || is(3.55)):
		return fmt.Sprintf("%.1f times the planned bytes: the weights were not loaded in the planned format", ratio)
	case x.Name == Weights && (is(0.5) || is(0.25)):
		return "a fraction of the planned bytes: the checkpoint is quantised further, or split over more ranks"
	case x.Name == Weights && ratio > 1:
		return "more than the model's parameters: a vision tower, draft heads or an untied head are loaded too"
	case x.Name == KV || x.Name == KVTokens || x.Name == Concurrency:
		return cacheWords(l, x, ratio)
	case x.Name == Activations && ratio > 1:
		return "the profiling pass is larger than planned: look at max_num_batched_tokens, and at multi-modal inputs, which are profiled at their largest"
	case x.Name == Compute && ratio > 1:
		return "look at n_ubatch and at flash attention: without it, scores of the whole context are kept"
	case x.Name == Graphs:
		return "graphs grow with the batch sizes that are captured"
	case x.Name == Allocated && ratio > 1:
		return "more is alive than planned: evaluation, longer samples than the planned sequence, or a loss that makes logits whole"
	case x.Name == Reserved && ratio > 1:
		return "the allocator keeps more than it uses: try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
	case x.Name == Process && ratio > 1:
		return "memory outside torch: communicators, other processes on the card"
	}
	if ratio < 1 {
		return "less than planned"
	}
	return "more than planned"
}

func cacheWords(l *Log, x *Line, ratio float64) string {
	switch {
	case x.Name == KVTokens && math.Abs(ratio-2) < 0.1:
		return "twice the tokens: the cache is in 8 bits"
	case l.System == "llamacpp" && math.Abs(ratio-0.53) < 0.03:
		return "the cache is in q8_0"
	case ratio < 1:
		return "what is left for the cache is less: weights, activations, graphs or another process take more than planned"
	}
	return "what is left for the cache is more: activations and graphs take less than planned, or the utilization is higher"
}
