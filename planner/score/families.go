package score

import (
	"fmt"
	"regexp"
	"strings"

	"loadline/planner/frameworks"
	"loadline/planner/shape"
)

// basicJob fills in what most rows say the same way.
func basicJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	s, err := modelOf(r, cards)
	if err != nil {
		return frameworks.Job{}, err
	}
	return frameworks.Job{
		Shape: s, Ranks: max(1, count(r.Ranks)), MicroBatch: count(r.MicroBatch), GlobalBatch: count(r.GlobalBatch), Seq: count(r.Seq),
		Weights: frameworks.QuantByName(r.DType), Compute: "bf16",
	}, nil
}

// metaMathLongest is what the longest batch of the PEFT benchmark is padded to: its cap of 768 is not reached.
const metaMathLongest = 737

var rankIn = regexp.MustCompile(`rank(\d+)`)

func peftJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	j, err := basicJob(r, cards)
	if err != nil {
		return j, err
	}
	if j.Seq == 0 {
		j.Seq = 768
	}
	j.Seq = min(j.Seq, metaMathLongest)
	method, variant, _ := strings.Cut(r.Extras["method"], "/")
	j.Adapter = frameworks.Adapter{Method: method, Variant: variant, Trainable: float64(count(r.Extras["trainable"]))}
	if m := rankIn.FindStringSubmatch(variant); m != nil {
		j.Adapter.Rank = count(m[1])
	}
	if strings.HasPrefix(method, "full") {
		j.Adapter = frameworks.Adapter{}
	}
	if strings.EqualFold(r.Extras["gc"], "true") {
		j.Recompute = frameworks.Full
	}
	return j, nil
}

// qwenJob reads Qwen's fine-tuning tables: adapters of rank 64 on every projection, checkpointing, one sequence.
func qwenJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	j, err := basicJob(r, cards)
	if err != nil {
		return j, err
	}
	j.Recompute = frameworks.Full
	if has(r.DType, "fp16") {
		j.Compute = "fp16"
	}
	if !r.notes("full-parameter") {
		j.Adapter = frameworks.Adapter{Method: "lora", Rank: 64, Targets: "all", Embedding: r.notes("(emb)")}
	}
	if has(r.Layout, "zero3") || r.notes("zero3") {
		j.Shard = frameworks.ShardWeights
	}
	return j, nil
}

func inferJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	j, err := basicJob(r, cards)
	if err != nil {
		return j, err
	}
	if j.Seq == 0 {
		return j, fmt.Errorf("seq is not recorded")
	}
	if _, version, ok := strings.Cut(r.System, "HF transformers "); ok {
		j.Version = version
	} else {
		j.Version = "4.32" // of the first Qwen models
	}
	if has(r.Notes, "int8 KV") {
		j.KVBits = 8
	}
	return j, nil
}

func deepspeedJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	j, err := basicJob(r, cards)
	if err != nil {
		return j, err
	}
	if j.Seq == 0 {
		j.Seq = 2048
	}
	text := strings.ToLower(r.Layout + ";" + r.Notes + ";" + r.System + ";" + r.Model)
	switch stage := max(r.par("ZeRO"), count(r.Extras["zero"])); {
	case stage > 0:
		j.Shard = frameworks.Sharding(min(stage, 3))
	case has(text, "zero3"), has(text, "zero-3"), has(text, "stage 3"), has(text, "fsdp"):
		j.Shard = frameworks.ShardWeights
	case has(text, "zero2"), has(text, "zero-2"), has(text, "stage 2"):
		j.Shard = frameworks.ShardGrads
	case has(text, "zero1"), has(text, "zero-1"), has(text, "stage 1"):
		j.Shard = frameworks.ShardOptim
	}
	j.CP = max(r.par("SP"), r.par("Ulysses"), 1)
	if has(text, "ulysses") && j.CP == 1 {
		j.CP = j.Ranks
		j.Shard = frameworks.ShardWeights
	}
	if has(text, "offload") {
		if !has(text, "offload_param=false") && !has(text, "offload=none") && !has(text, "offload=false") {
			j.OffloadOptim = 1
			j.OffloadParams = has(text, "param") || has(text, "infinity")
		}
		j.OffloadActs = has(text, "activation offload") || has(text, "act_offload") || has(text, "offload_activ")
	}
	if f, ok := num(r.Extras["optimizer_offload_fraction"]); ok {
		j.OffloadOptim = min(1, max(0, f))
	}
	j.ChunkedCE = has(text, "liger") || has(text, "tiled") || has(text, "chunked") || has(text, "ulysses")
	j.Recompute = frameworks.Full // nobody shards a model this large and keeps its activations, unless they say so
	for _, no := range []string{"gc=false", "no gc", "no ckpt", "no checkpoint", "ckpt=false", "checkpointing=false", "no gradient checkpoint", "act_ckpt=none"} {
		if has(text, no) {
			j.Recompute = frameworks.Keep
		}
	}
	if has(text, "lora") {
		j.Adapter = loraOf(text)
	}
	return j, nil
}

// aoJob reads torchao's tables of optimizers: full training in bf16 with checkpointing.
func aoJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	j, err := basicJob(r, cards)
	if err != nil {
		return j, err
	}
	if j.Seq == 0 {
		j.Seq = 2048
	}
	j.Weights, j.Recompute = frameworks.Quant{}, frameworks.Full
	text := strings.ToLower(r.Notes + ";" + r.DType + ";" + r.Layout)
	j.Compiled = has(text, "compile")
	switch {
	case has(text, "4-bit"), has(text, "4bit"):
		j.Optimizer = "torchao4bit"
	case has(text, "8-bit"), has(text, "8bit"):
		j.Optimizer = "torchao8bit"
	case has(text, "fp8 adam"), has(text, "adamwfp8"), has(text, "adamfp8"):
		j.Optimizer = "torchaofp8"
	}
	if has(text, "offload") {
		j.OffloadOptim = 1
	}
	if has(text, "lora") {
		j.Adapter = loraOf(text)
	}
	return j, nil
}
