// Package search finds the plans of a job on a described machine: it enumerates precision, ZeRO stage, tensor,
// pipeline, data, expert and context parallelism, micro-batch, recompute, offload, adapter, optimizer, loss head,
// weight and cache formats, and layers on the card or the CPU, predicts memory and time of each by the closed forms of
// package frameworks, and answers with the best three, the reasons in words, and what the next step up would take.
//
// Invariants: what a question holds is held, what it leaves open is searched. Of all plans of the space that keep the
// chance of running out below Risk, none is both smaller and faster than the first answer. What would change a
// model's answers is tried only where it is held, or where nothing else fits: 8-bit arithmetic in training and
// optimizers of few bits; in serving weights below eight bits, which the objectives cost and fewest cards take at
// once, or a cache of eight bits; then both, and layers on the CPU; then weights below four bits. A server that lets
// sequences wait fits with one, but what else holds them all is looked for too, and tokens a second decide.
//
// It is a pure function of the question: it reads no file and measures nothing. Rates between nodes and of host
// memory, which package hardware does not list, are fields of Machine with stated defaults. Of Loadline's own runs,
// where it has a device for the hardware, it finds three that are worth compiling; the caller compiles them, and
// Answer.Include puts the exact plans among the others.
package search

import (
	"loadline/mem"
	"loadline/planner/frameworks"
	"loadline/planner/shape"
)

// Tasks.
const (
	Train    = "train"    // all weights, from scratch or on
	Finetune = "finetune" // all weights or an adapter
	Serve    = "serve"
)

// Objectives.
const (
	Speed  = "speed"  // most tokens a second
	Cost   = "cost"   // fewest card-seconds a token
	Fewest = "fewest" // fewest cards, then speed
)

// Risk is the largest chance of running out that a plan may have.
const Risk = 0.1

// Question is what is asked. Zero values are left open, or take the defaults that CLI users see.
type Question struct {
	Shape     *shape.Shape
	Machine   Machine
	Task      string // default Serve
	Framework string // empty or any for all that do the task
	Objective string // default Speed

	Seq         int // of training; default 4096
	Context     int // of serving, prompt and answer; default 4096
	Output      int // of Context, tokens that are generated; default a quarter
	Concurrency int // sequences served at once; default 1
	GlobalBatch int // sequences a step; default one micro-batch a data-parallel rank

	// Memory limits the peak of every rank; 0 for the card's own.
	Memory mem.Bytes
	// Stored is how the weights are, where a file says so; then serving searches no other format.
	Stored *frameworks.Quant

	// Own says that Loadline has a device for the machine, and runs the model.
	Own bool

	// Factors multiply what the formulas say of a system's purpose, by "vllm/activations", as logs of the user's own
	// runs taught; absent ones are 1.
	Factors map[string]float64

	Hold Hold
}

// Hold is what is fixed; zero values are searched.
type Hold struct {
	Ranks, TP, PP, CP, EP, MicroBatch int
	Interleave                        int // stages of layers that a rank of Megatron's pipeline holds
	ZeRO                              *int
	Precision                         string // bf16, fp16, fp8
	Recompute                         string // none, selective, full
	Offload                           string // none, optimizer, "optimizer,weights", weights
	Adapter                           string // none, lora, qlora
	AdapterRank                       int    // default 16
	Optimizer                         string // adamw, adamw8bit, torchao8bit, torchao4bit
	LossHead                          string // full, chunked
	Quant                             string // one of Quants
	KVType                            string // f16, fp8, q8_0, q4_0
	GPULayers                         *int   // of llama.cpp
}

// Config is one point of the space.
type Config struct {
	System             string
	Ranks, TP, PP, CP  int
	EP, DP             int
	Interleave         int // stages of layers that a pipeline rank holds; 1 for one
	ZeRO               int
	MicroBatch         int
	Accumulate         int
	Precision          string
	Recompute, Offload string
	Adapter            string
	AdapterRank        int
	Optimizer          string
	LossHead           string
	Quant, KVType      string
	GPULayers          int // of llama.cpp; all where it is the model's depth
	Concurrency        int // sequences of one replica
}

// Stage is the peak of one kind of rank.
type Stage struct {
	Name      string               `json:"name"` // "stage 1 of 4 (first)"
	Peak      mem.Bytes            `json:"peak_bytes"`
	ByPurpose map[string]mem.Bytes `json:"by_purpose"`
}

// Plan is one configuration with what is predicted of it. Peak is of the worst rank, the driver's context included,
// at the moment that ByPurpose describes.
type Plan struct {
	Config          Config               `json:"-"`
	Peak            mem.Bytes            `json:"peak_bytes"`
	Range           [2]mem.Bytes         `json:"peak_range"` // 10th and 90th percentile
	OOMChance       float64              `json:"oom_chance"`
	ByPurpose       map[string]mem.Bytes `json:"by_purpose"` // sums to Peak
	Ranks           int                  `json:"ranks"`
	StepSeconds     float64              `json:"step_seconds"` // of serving: between two tokens of a sequence
	TokensPerSecond float64              `json:"tokens_per_second"`
	Bound           string               `json:"bound"` // what most of the time goes to
	Host            mem.Bytes            `json:"host_bytes"`
	Disk            mem.Bytes            `json:"nvme_bytes"`
	Stages          []Stage              `json:"stages"`
	Options         map[string]any       `json:"options"` // by flag
	Why             string               `json:"why"`
	// Of systems that let sequences wait: those that run at once, the most of the asked length that the card has room for, and their tokens.
	Running     int      `json:"running_sequences,omitempty"`
	Most        int      `json:"most_sequences,omitempty"`
	CacheTokens int64    `json:"kv_capacity_tokens,omitempty"`
	Path        []string `json:"path"` // the decisions, each with its numbers

	usable   mem.Bytes // of Peak
	estimate frameworks.Estimate
}

// Point is a plan that none beats in both memory and speed.
type Point struct {
	Name            string    `json:"name"`
	Peak            mem.Bytes `json:"peak_bytes"`
	TokensPerSecond float64   `json:"tokens_per_second"`
}

// Answer is what is found.
type Answer struct {
	Fits     bool      `json:"fits"`
	Hardware string    `json:"hardware"`    // the match, as it is said
	Limit    mem.Bytes `json:"limit_bytes"` // of every rank's peak
	Plans    []Plan    `json:"plans"`       // best first; the least one alone where nothing fits
	Next     string    `json:"next"`        // what the next step up would take
	Searched int       `json:"searched"`
	// Frontier is ordered by memory: what fits, without plans that another beats in both memory and speed.
	Frontier []Point `json:"frontier"`
	// Own are the settings of our own that are worth compiling, for Include; they are not among Plans before.
	Own []Plan `json:"-"`
	// Asked are the model and the hardware as they were typed, for Command; empty ones are named as they were understood.
	Asked [2]string `json:"-"`
	// Question is what was asked, with its defaults filled in.
	Question Question `json:"-"`
}

// cost returns card-seconds a token.
func (p *Plan) cost() float64 { return float64(p.Ranks) / p.TokensPerSecond }

// Fits tells whether the plan's chance of running out is below Risk.
func (p *Plan) Fits() bool { return p.OOMChance <= Risk }
