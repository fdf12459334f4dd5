// Package frameworks predicts the memory that training and serving systems take for a job: one file of formulas for
// each system, every term with its source in the system's code. It answers with bytes by purpose at the moment of the
// peak, with what the allocator keeps beyond them, and with what the driver holds.
//
// Letters, as in the files: T tokens of a micro-batch on a rank, h hidden size, q and k widths of all query and
// key-value heads, f width of the MLP, L layers, V vocabulary, P parameters, N ranks that share a state.
//
// Invariants: an Estimate is a pure function of its Job. A formula has no term for a single measurement; what is
// measured instead of derived (allocator slack, contexts) is a named constant of a framework version. Every function
// answers for any valid Shape, and says with an error what it cannot plan.
//
// It does not search, and does not know hardware beyond a job's own fields.
package frameworks

import (
	"fmt"
	"math"

	"loadline/mem"
	"loadline/planner/shape"
)

// Sharding is how far data-parallel ranks share a state, as ZeRO's stages.
type Sharding uint8

// The shardings.
const (
	Replicated   Sharding = iota
	ShardOptim            // ZeRO-1, Megatron's distributed optimizer
	ShardGrads            // ZeRO-2
	ShardWeights          // ZeRO-3, FSDP
)

// Recompute is what a backward pass computes again.
type Recompute uint8

// The policies.
const (
	Keep      Recompute = iota
	Selective           // parts of a layer, see Job.Modules
	PerOp               // torchtitan's selective: every second matrix product and attention are kept
	Full                // a layer is kept as its input
)

// Job is one configuration to be predicted. Counts that are zero count as one, and widths as the shape says.
type Job struct {
	Shape   *shape.Shape
	Version string // of the framework, where formulas differ; empty for the newest known

	Ranks, TP, PP, CP, EP, ETP int
	SequenceParallel           bool
	AsyncTP                    bool // tensor parallelism's collectives travel in pieces while products go on
	ChunkLayers                int  // layers of a virtual pipeline stage; 0 for one stage a rank
	Shard                      Sharding
	LayersPerRank              int // 0 for an even split
	// Stage is the pipeline stage that is asked about, counted from the last: 0 is the last, PP−1 the first. Only
	// Megatron tells them apart; the others answer for the largest.
	Stage int

	MicroBatch, GlobalBatch, Seq int

	Weights Quant  // the type of weights that are not trained, or served
	Compute string // bf16 (also where empty), fp16, fp32
	FP8     bool   // matrix products in 8 bits
	Unfused bool   // attention keeps scores of every pair of tokens
	Local   bool   // Megatron without Transformer Engine
	// Capability is CUDA's compute capability times ten: 80 for A100, 90 for H100; 0 where unknown.
	Capability int
	Dropout    bool
	Recompute  Recompute
	// Modules are the parts that Selective computes again: core_attn, layernorm, moe_act, mlp, mla_up_proj, moe, moe_layer.
	Modules []string
	// BlockLayers is how many layers a stage recomputes, where not all of them; UniformLayers the layers between kept inputs.
	BlockLayers, UniformLayers int

	Adapter   Adapter
	Optimizer string // adamw (also where empty), adamw8bit, torchao8bit, torchao4bit, torchaofp8, muon
	// OffloadOptim is the part of optimizer state kept in host memory, 0 to 1.
	OffloadOptim  float64
	OffloadParams bool // parameters wait in host memory
	OffloadActs   bool // kept activations wait in host memory
	Accumulate    int  // micro-batches a step
	OptimInBack   bool // the optimizer runs inside the backward pass

	Compiled   bool
	ChunkedCE  bool // logits exist for a part of the tokens only
	LossShard  bool // the loss is taken over shards of the vocabulary
	MTPDepth   int  // extra prediction layers, each with a head
	SizeParams float64
	Models     int // copies of the model in memory, as a reference model of DPO; 0 for one
	Sequences  int // sequences a sample holds, as chosen and rejected of DPO; 0 for one
	Nodes      int
	KVBits     float64 // bits of a cached element; 0 for the compute type's
	Prompt     int     // of Seq, tokens read at once before generation
}

// Adapter is a parameter-efficient method.
type Adapter struct {
	Method    string  // lora, dora, ia3, ...; empty for full training
	Variant   string  // what distinguishes two runs of one method, as a framework names it
	Trainable float64 // parameters; 0 for the method's default
	Rank      int
	Targets   string // attention (q and v), mlp, or all
	Embedding bool   // embedding and head are trained too
}

// Quant is how weights are stored.
type Quant struct {
	Name string
	// Bits of one weight of a matrix with its share of scales; 0 means 16.
	Bits float64
	// EmbedBits of embeddings and head; 0 means 16.
	EmbedBits float64
}

// Estimate is what a rank holds at its peak.
type Estimate struct {
	// Usage is what the framework allocates, by tier and purpose.
	Usage mem.Usage
	// Cached is what its allocator keeps beyond that; reserved is the sum.
	Cached mem.Bytes
	// Driver is what neither sees: context, kernels, communicators.
	Driver mem.Bytes
	// Static is the part of Usage that is held all the time.
	Static mem.Bytes
}

// Allocated returns the peak of the framework's allocator on the device.
func (e Estimate) Allocated() mem.Bytes { return e.Usage.Total(mem.Device) }

// Reserved returns what the allocator takes from the driver.
func (e Estimate) Reserved() mem.Bytes { return e.Allocated() + e.Cached }

// Process returns what the driver's tools show.
func (e Estimate) Process() mem.Bytes { return e.Reserved() + e.Driver }

// tally adds terms up in floating point.
type tally struct {
	by   [mem.NumPurposes]float64
	host [mem.NumPurposes]float64
}

func (t *tally) add(p mem.Purpose, n float64) { t.by[p] += n }

// sum returns the device's total.
func (t *tally) sum() float64 {
	n := 0.0
	for _, x := range t.by {
		n += x
	}
	return n
}

// estimate rounds t.
func (t *tally) estimate() Estimate {
	var e Estimate
	for p := range t.by {
		e.Usage.Add(mem.Device, mem.Purpose(p), round(t.by[p]))
		e.Usage.Add(mem.Host, mem.Purpose(p), round(t.host[p]))
	}
	return e
}

func round(x float64) mem.Bytes { return mem.Bytes(math.Round(max(0, min(x, 1<<60)))) }

const gib = 1 << 30

// one returns n, or 1 where n is not set.
func one(n int) float64 { return float64(max(1, n)) }

// check refuses what no formula can answer.
func (j *Job) check() error {
	if j.Shape == nil {
		return fmt.Errorf("frameworks: a job without a model")
	}
	for _, n := range []struct {
		name string
		n    int
	}{
		{"ranks", j.Ranks}, {"tensor parallel ranks", j.TP}, {"pipeline stages", j.PP}, {"context parallel ranks", j.CP}, {"expert parallel ranks", j.EP},
		{"micro-batch", j.MicroBatch}, {"sequence length", j.Seq}, {"models", j.Models}, {"sequences a sample", j.Sequences}, {"chunk layers", j.ChunkLayers},
	} {
		if n.n < 0 || n.n > 1<<27 {
			return fmt.Errorf("frameworks: %s: got %d, want 0 to 2^27", n.name, n.n)
		}
	}
	if j.Stage < 0 || j.Stage > 0 && j.Stage >= max(1, j.PP) {
		return fmt.Errorf("frameworks: pipeline stage %d from the last, want 0 to %d", j.Stage, max(1, j.PP)-1)
	}
	if j.Seq == 0 {
		return fmt.Errorf("frameworks: a job without a sequence length")
	}
	return nil
}

// data returns the ranks that hold the same weights with other data, context parallel ones included.
func (j *Job) data() float64 {
	return max(1, one(j.Ranks)/(one(j.TP)*one(j.PP)))
}

// tokens returns the tokens of a micro-batch on one rank.
func (j *Job) tokens() float64 {
	return one(j.MicroBatch) * float64(j.Seq) / one(j.CP)
}
