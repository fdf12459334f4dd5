package search

import (
	"slices"
	"strings"

	"loadline/mem"
	"loadline/planner/frameworks"
	"loadline/planner/hardware"
	"loadline/planner/shape"
)

// format is a type that weights are served in.
type format struct {
	name    string
	bits    float64
	gguf    bool
	level   int // of the search at which it is tried: 0 changes no answer that anybody has measured, 2 changes them noticeably
	perplex string
}

// formats are what weights are served in, with the bits of a weight. Those of llama.cpp are of a whole file of
// Llama-2-7B, whose mix of types other models share.
var formats = []format{
	{"bf16", 16, false, 0, ""}, {"fp8", 8.002, false, 0, ""}, {"awq-int4", 4.156, false, 1, "+0.13 perplexity on Llama-2-7B"}, {mxfp4, 4.25, false, 1, ""},
	{"q8_0", 8.5, true, 0, "+0.003 perplexity on Llama-3-8B"}, {"q6_k", 6.5625, true, 1, "+0.022 perplexity on Llama-3-8B"},
	{"q5_k_m", 5.68, true, 1, "+0.057 perplexity on Llama-3-8B"}, {"q4_k_m", 4.84, true, 1, "+0.175 perplexity on Llama-3-8B"},
	{"q3_k_m", 3.91, true, 2, "+0.66 perplexity on Llama-3-8B"}, {"q2_k", 3.35, true, 2, "+3.5 perplexity on Llama-3-8B"},
}

// mxfp4 is 4-bit floats that share an exponent by 32. Models of gpt_oss are trained to it, and exist in nothing else.
const mxfp4 = "mxfp4"

// ships returns the format that the model's makers publish it in where that is not 16 bits, or nothing.
func (q *Question) ships() string {
	if q.Shape.Arch == "gpt_oss" {
		return mxfp4
	}
	return ""
}

// reads tells whether a system serves a format of weights that the question leaves open.
func (q *Question) reads(system string, f *format) bool {
	switch {
	case system == "transformers":
		return f.name == "bf16" || f.name == "awq-int4" && q.ships() == ""
	case q.ships() != "":
		return f.name == q.ships()
	case f.name == mxfp4, f.name == "fp8" && q.Machine.Card.FP8 == 0:
		return false
	}
	return f.name == "bf16" || f.gguf == (system == "llamacpp")
}

// rank is the level at which a configuration is tried, by what it does to answers and speed: weights of 16 and 8 bits first; then weights
// of four, or a cache of eight; then both, or layers on the CPU; then fewer bits. What is held costs nothing.
func (q *Question) rank(c *Config) int {
	weights, level := 0, 0
	for _, f := range formats {
		if f.name == c.Quant && f.name != q.ships() && q.Hold.Quant == "" {
			weights = f.level
		}
	}
	if weights == 1 && q.Objective != Speed {
		weights = 0
	}
	level = weights
	if c.KVType != "f16" && q.Hold.KVType == "" {
		level++
	}
	if c.System == "llamacpp" && q.partly(c) {
		level = max(level, 2)
	}
	if weights == 2 {
		level = 3
	}
	return level
}

// partly tells whether layers stay on the CPU that the question lets go to the cards.
func (q *Question) partly(c *Config) bool {
	return c.System == "llamacpp" && c.GPULayers < q.Shape.Depth() && q.Hold.GPULayers == nil
}

// Quants returns the names of the formats that weights are served in.
func Quants() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// levels of serving: see rank.
const servingLevels = 4

func (q *Question) servingAxes(system string, level int, a *axes) {
	h, m := &q.Hold, &q.Machine
	var fit []string
	for _, f := range formats {
		if q.reads(system, &f) && q.rank(&Config{Quant: f.name, KVType: "f16"}) <= level {
			fit = append(fit, f.name)
		}
	}
	switch { // a format that the system does not read leaves its space empty
	case q.Stored != nil:
		fit = nil
		if (system == "llamacpp") == (q.Stored.Name == ggufName) {
			fit = []string{"stored"}
		}
	case h.Quant != "":
		i := slices.IndexFunc(formats, func(f format) bool {
			return f.name == h.Quant
		})
		if f := formats[i]; f.name != "bf16" && f.gguf != (system == "llamacpp") && f.name != q.ships() || f.name == mxfp4 && system == "transformers" {
			fit = nil
		} else {
			fit = []string{h.Quant}
		}
	}
	a.quant, a.recompute, a.offload = fit, []string{"none"}, []string{"none"}
	switch system {
	case "vllm", "sglang":
		a.tp, a.pp = heldInt(h.TP, powers(min(m.PerNode, 64))...), heldInt(h.PP, powers(min(m.Cards(), 16))...)
		if level > 0 && m.Card.FP8 > 0 {
			a.kv = heldWord(h.KVType, "f16", "fp8")
		}
	case "llamacpp":
		a.layers = []int{q.Shape.Depth()}
		for n := q.Shape.Depth() - 1; n >= 0 && level > 1 && m.Card.Vendor != HostVendor; n-- { // slow: rather fewer bits than layers on the CPU
			a.layers = append(a.layers, n)
		}
		if h.GPULayers != nil {
			a.layers = []int{*h.GPULayers}
		}
		if level > 0 {
			a.kv = heldWord(h.KVType, "f16", "q8_0")
		}
		fallthrough
	case "transformers":
		a.ranks = heldInt(h.Ranks, powers(m.PerNode)...) // layers follow each other over the cards of a node
	}
}

// serves tells whether a serving configuration makes sense in its system and at a level, and sets the sequences of a replica.
func (q *Question) serves(c *Config, level int) bool {
	c.Concurrency = q.Concurrency
	if q.rank(c) > level {
		return false
	}
	if c.CP > 1 || c.EP > 1 {
		return false
	}
	switch c.System {
	case "vllm", "sglang":
		if c.DP > q.Concurrency { // a replica without work
			return false
		}
		if c.KVType != "f16" && c.KVType != "fp8" {
			return false
		}
		c.Concurrency = ceilDiv(q.Concurrency, c.DP)
		return c.PP <= c.Concurrency || q.Hold.PP > 0 || c.DP == 1
	case "llamacpp":
		c.DP = 1
		return c.TP*c.PP == 1 && c.KVType != "fp8"
	}
	c.DP = 1
	return c.TP*c.PP == 1 && (c.KVType == "f16" || c.System == Own)
}

// stored returns the format of a configuration's weights.
func (q *Question) stored(c *Config) frameworks.Quant {
	if c.Quant == "stored" {
		return *q.Stored
	}
	for _, f := range formats {
		if f.name == c.Quant {
			w := frameworks.Quant{Name: f.name, Bits: f.bits}
			if f.name == mxfp4 && q.Shape.MoE() { // of experts alone
				experts, linear := 0.0, q.Shape.LinearParams()
				for i := range q.Shape.Layers {
					experts += q.Shape.ExpertParams(i)
				}
				w.Bits = (experts*f.bits + max(0, linear-experts)*16) / linear
			}
			if f.gguf {
				w.EmbedBits = f.bits
			}
			return w
		}
	}
	return frameworks.Quant{Name: "bf16"}
}

// kvBits returns the bits of a cached element.
func kvBits(name string) float64 {
	switch name {
	case "fp8":
		return 8
	case "q8_0":
		return 8.5
	case "q4_0":
		return 4.5
	}
	return 16
}

// serving predicts one configuration.
func (q *Question) serving(c Config) (Plan, error) {
	switch c.System {
	case Own:
		return q.ownServing(c)
	case "llamacpp":
		return q.llamaCpp(c)
	case "transformers":
		return q.transformers(c)
	}
	p, err := q.paged(c)
	if err != nil {
		return Plan{}, err
	}
	c = p.Config
	j := ServingJob(*q, c)
	v := frameworks.ServingOf(c.System, q.Shape, j.Weights)
	prompt := max(1, q.Context-q.Output)
	t := frameworks.Generate(j, q.Machine.Card, v, q.Output)
	read := j
	read.Seq = prompt
	first := frameworks.Generate(read, q.Machine.Card, v, 0).Seconds
	step := (t.Seconds-first)/float64(q.Output) + q.meet(&c, float64(j.MicroBatch))
	first += q.meet(&c, float64(j.MicroBatch*prompt))
	p.StepSeconds, p.Bound = step, t.Bound
	made := float64(c.Concurrency * c.DP)
	p.TokensPerSecond = min(made, float64(q.Concurrency)) * float64(q.Output) / (first + step*float64(q.Output))
	return p, nil
}

// paged predicts the memory of vLLM or SGLang. Sequences that the cache does not hold wait until others end: a plan has as many at a time as
// fit, one at least.
func (q *Question) paged(c Config) (Plan, error) {
	const unbounded = mem.Bytes(1) << 44
	most := 0
	at := func(n int) (Plan, error) {
		c := c
		c.Concurrency = n
		full, err := frameworks.VLLM(frameworks.Serve{Job: ServingJob(*q, c), Memory: unbounded, Sequences: max(1, min(256, n)), BatchTokens: q.batchTokens()})
		if err != nil {
			return Plan{}, err
		}
		e := full.Estimate
		kv := mem.Bytes(0)
		if full.Concurrency > 0 {
			kv = mem.Bytes(float64(e.Usage[mem.Device][mem.KVBlocks]) / full.Concurrency * float64(n))
		}
		kv += mem.Bytes(q.Shape.StateBytes()) * mem.Bytes(n) / mem.Bytes(c.TP*c.PP)
		e.Usage[mem.Device][mem.KVBlocks] = kv
		need := e.Allocated() + max(0, e.Driver-hardware.Context)
		low, high := frameworks.Spread{Sigma: servingSpread}.Range(need)
		return q.plan(c, e, need, low, high), nil
	}
	fits := func(n int) bool {
		p, err := at(n)
		return err == nil && p.Fits()
	}
	for step := 1 << 16; step > 0; step /= 2 {
		if fits(most + step) {
			most += step
		}
	}
	p, err := at(max(1, min(c.Concurrency, most)))
	p.Most, p.Running = most*c.DP, min(q.Concurrency, p.Config.Concurrency*c.DP)
	p.CacheTokens = int64(p.Most) * int64(q.Context)
	return p, err
}

// queues tells whether a plan lets sequences wait.
func (q *Question) queues(p *Plan) bool { return p.Running > 0 && p.Running < q.Concurrency }

// ServingJob returns a configuration of vLLM or SGLang as the formulas take it. The question is an answer's.
func ServingJob(q Question, c Config) frameworks.Job {
	return frameworks.Job{
		Shape: q.Shape, TP: c.TP, PP: c.PP, Ranks: c.TP, MicroBatch: ceilDiv(c.Concurrency, c.PP), Seq: q.Context, Weights: q.stored(&c), KVBits: kvBits(c.KVType),
	}
}

// ggufName is the name of formats of GGUF files, which llama.cpp alone reads.
const ggufName = "gguf"

// Stored returns the format of the weights that a GGUF file holds, for Question.Stored.
func Stored(g *shape.GGUF) *frameworks.Quant {
	return &frameworks.Quant{Name: ggufName, Bits: g.LinearBits, EmbedBits: g.OtherBits}
}

// batchTokens is max_num_batched_tokens: vLLM's default, or less where less is asked for.
func (q *Question) batchTokens() int { return min(8192, max(2048, q.Context)) }

// meet returns the seconds that tensor-parallel ranks exchange a pass of so many tokens, two all-reduces a layer.
func (q *Question) meet(c *Config, tokens float64) float64 {
	if c.TP == 1 {
		return 0
	}
	link := max(0.35*q.Machine.Card.Link, q.Machine.Card.HostLink()/2, 1e9)
	each := 12e-6 + tokens*float64(q.Shape.Hidden)*2*2*float64(c.TP-1)/float64(c.TP)/link
	return 2 * float64(q.Shape.Depth()) * each
}

// transformers predicts generate with layers spread over the cards.
func (q *Question) transformers(c Config) (Plan, error) {
	j := frameworks.Job{Shape: q.Shape, Ranks: 1, MicroBatch: c.Concurrency, Seq: q.Context, Weights: q.stored(&c)}
	e, err := frameworks.HFInference(j)
	if err != nil {
		return Plan{}, err
	}
	for u := range e.Usage[mem.Device] {
		e.Usage[mem.Device][u] /= mem.Bytes(c.Ranks)
	}
	e.Cached /= mem.Bytes(c.Ranks)
	need := e.Reserved() + max(0, e.Driver-hardware.Context)
	low, high := frameworks.SpreadOf("hf-inference").Range(need)
	p := q.plan(c, e, need, low, high)
	v := frameworks.ServingOf("transformers", q.Shape, j.Weights)
	t := frameworks.Generate(j, q.Machine.Card, v, q.Output)
	read := j
	read.Seq = max(1, q.Context-q.Output)
	first := frameworks.Generate(read, q.Machine.Card, v, 0).Seconds
	p.StepSeconds, p.Bound = (t.Seconds-first)/float64(q.Output), t.Bound
	p.TokensPerSecond = float64(q.Concurrency*q.Output) / t.Seconds
	return p, nil
}

// perplexity returns what a format costs in quality, as published, or nothing.
func perplexity(name string) string {
	for _, f := range formats {
		if f.name == strings.ToLower(name) {
			return f.perplex
		}
	}
	return ""
}
