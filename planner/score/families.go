package score

import (
	"fmt"
	"math"
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

// alpacaLongest is the longest sample of the alpaca data set, in Llama 2's tokens.
const alpacaLongest = 1044

// metaMathLongest is what the longest batch of the PEFT benchmark is padded to: its cap of 768 is not reached.
const metaMathLongest = 737

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

var (
	bloomSep   = regexp.MustCompile(`[;/]`)
	bloomHid   = regexp.MustCompile(`(?i)(?:^|[;/ ])N?HIDDEN=(\d+)`)
	bloomHeads = regexp.MustCompile(`(?i)NHEADS=(\d+)`)
	bloomDepth = regexp.MustCompile(`(?i)NLAYERS=(\d+)`)
	bloomBatch = regexp.MustCompile(`GBS=(\d+)`)
	bloomOwn   = regexp.MustCompile(`(?:^|[;/ ])Layers=(\d+)`)
)

// bloomVocab is BLOOM's vocabulary.
const bloomVocab = 250_880

func bloomJob(r *Row) (frameworks.Job, error) {
	find := func(re *regexp.Regexp) int {
		for _, part := range bloomSep.Split(r.ArchText, -1) {
			if m := re.FindStringSubmatch(strings.TrimSpace(part)); m != nil {
				return count(m[1])
			}
		}
		return 0
	}
	h := find(bloomHid)
	if h == 0 {
		return frameworks.Job{}, fmt.Errorf("NHIDDEN is not recorded")
	}
	depth := find(bloomOwn)
	if depth == 0 {
		depth = find(bloomDepth)
	}
	if depth == 0 {
		size, ok := shape.SizeIn(r.Model)
		if !ok {
			return frameworks.Job{}, fmt.Errorf("the number of layers is not recorded")
		}
		depth = int(math.Round((size - bloomVocab*float64(h)) / (12 * float64(h) * float64(h))))
	}
	heads := find(bloomHeads)
	if heads == 0 {
		heads = max(1, h/128)
	}
	if depth < 1 || depth > 4096 {
		return frameworks.Job{}, fmt.Errorf("got %d layers", depth)
	}
	s := &shape.Shape{
		Name: r.Model, Arch: "bloom", Hidden: h, Heads: heads, HeadDim: max(1, h/heads), Vocab: bloomVocab, Tied: true,
		NormBias: true, QKVBias: true, OutBias: true, MLPBias: true, Norms: 2, EmbedNorm: true,
	}
	for range depth {
		s.Layers = append(s.Layers, shape.Layer{KVHeads: heads, HeadDim: s.HeadDim, FFN: 4 * h})
	}
	j := frameworks.Job{
		Shape: s, Ranks: count(r.Ranks), TP: r.par("TP"), PP: r.par("PP"), MicroBatch: count(r.MicroBatch), GlobalBatch: count(r.GlobalBatch), Seq: count(r.Seq),
		Recompute: frameworks.Full, Compute: "fp16", Unfused: true,
	}
	if j.Seq == 0 {
		j.Seq = 2048
	}
	if g := find(bloomBatch); g > 0 {
		j.GlobalBatch = g
	}
	if r.par("ZeRO") >= 1 {
		j.Shard = frameworks.ShardOptim
	}
	if has(r.DType, "accum") {
		j.Compute = "bf16-fp32grads"
	}
	if dp := r.par("DP"); dp > 0 { // said or implied
		j.Ranks = dp * max(1, j.TP) * max(1, j.PP)
	}
	return j, s.Validate()
}

var dated = regexp.MustCompile(`20(\d\d)(\d\d)`)

func titanJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	j, err := basicJob(r, cards)
	if err != nil {
		return j, err
	}
	if count(r.Ranks) == 0 {
		return j, fmt.Errorf("n_gpus is not recorded")
	}
	if j.Seq == 0 {
		j.Seq = 8192
	}
	j.TP, j.PP, j.CP = r.par("TP"), r.par("PP"), r.par("CP")
	j.Shard, j.FP8 = frameworks.ShardWeights, has(r.DType, "fp8")
	j.Compiled = r.notes("compile") && !r.notes("eager")
	j.Recompute = frameworks.PerOp
	switch {
	case r.notes("ac=full"):
		j.Recompute = frameworks.Full
	case r.notes("ac=none"):
		j.Recompute = frameworks.Keep
	}
	// Benchmarks are named by their month; torch 2.8 came in 2025.
	j.Version = "2.8"
	if m := dated.FindStringSubmatch(r.Source); m != nil && m[1]+m[2] < "2505" {
		j.Version = "2.6"
	}
	return j, nil
}

// tuneJob reads torchtune's rows; a cumulative one has the options of those above it too.
func tuneJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	j, err := basicJob(r, cards)
	if err != nil {
		return j, err
	}
	var all []string
	for _, b := range r.Before {
		all = append(all, b.Notes)
	}
	all = append(all, r.Notes)
	said := func(words ...string) bool {
		for _, n := range all {
			for _, w := range words {
				if has(n, w) {
					return true
				}
			}
		}
		return false
	}
	if len(r.Before) == 0 && said("unpacked") && !said("+packed") {
		j.Seq = min(j.Seq, 700) // the longer of two of alpaca's samples
	}
	j.ChunkedCE = true
	if j.Seq == 0 { // tutorials of the first versions, on alpaca
		j.Seq, j.ChunkedCE = alpacaLongest, false
	}
	j.Compiled = said("compile")
	if said("activation ckpt", "activation checkpoint") {
		j.Recompute = frameworks.Full
	}
	j.OptimInBack, j.OffloadActs = said("optim in bwd", "optimizer in backward"), said("activation offload")
	if said("8bit", "8-bit") {
		j.Optimizer = "adamw8bit"
	}
	last := strings.ToLower(r.Notes)
	if strings.Contains(last, "lora") {
		j.Adapter = loraOf(last)
		if strings.Contains(last, "qlora") {
			j.Weights = frameworks.QuantByName("nf4-dq")
		}
	}
	if strings.HasPrefix(last, "cumulative:") {
		j.ChunkedCE = said("chunked ce")
	} else { // the recipes' defaults
		j.Recompute = frameworks.Full
		j.OffloadParams = strings.Contains(last, "cpu offload")
	}
	if j.Ranks > 1 {
		j.Shard = frameworks.ShardWeights
	}
	return j, nil
}

var loraRank = regexp.MustCompile(`\br(?:ank)?[ =]?(\d+)`)

// loraOf reads an adapter in words, as "LoRA r64 all".
func loraOf(text string) frameworks.Adapter {
	a := frameworks.Adapter{Method: "lora", Rank: 8, Targets: "attention"}
	if m := loraRank.FindStringSubmatch(text); m != nil {
		a.Rank = count(m[1])
	}
	if strings.Contains(text, " all") {
		a.Targets = "all"
	}
	return a
}

func colossalJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	s, err := modelOf(&Row{Model: "Llama-2-" + strings.Fields(r.Model + " 7B")[0]}, cards)
	if err != nil {
		return frameworks.Job{}, err
	}
	j := frameworks.Job{
		Shape: s, Ranks: max(1, count(r.Ranks)), MicroBatch: count(r.MicroBatch), Seq: count(r.Seq), Recompute: frameworks.Full,
		Shard: frameworks.ShardGrads, Sequences: 2, Models: 1,
	}
	if j.Seq == 0 {
		j.Seq = 2048
	}
	switch {
	case has(r.Model, "SimPO"):
	case has(r.Model, "ORPO"):
		j.Adapter.Variant = "orpo"
	case has(r.Model, "DPO"), has(r.Model, "KTO"):
		j.Models = 2
	default:
		j.Sequences = 1
	}
	if has(r.Layout, "cpu") {
		j.OffloadOptim = 1
	}
	return j, nil
}

func litJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	j, err := basicJob(r, cards)
	if err != nil {
		return j, err
	}
	if j.Seq == 0 {
		j.Seq = 256
		if r.notes("inference") {
			j.Seq = 300 // a short prompt and 256 new tokens
		}
	}
	if r.notes("full") {
		if j.MicroBatch*j.Ranks < 8 { // config_hub's global batches are 8 and more
			j.Accumulate = 2
		}
	} else if !r.notes("inference") {
		j.Adapter = frameworks.Adapter{Method: "lora", Rank: 8, Targets: "attention"}
		if r.notes("alpaca2k") {
			j.Adapter.Rank = 32
			switch j.Shape.Arch { // config_hub adapts everything in small models
			case "gemma", "gemma2", "phi", "phi3":
				j.Adapter.Targets, j.Adapter.Rank = "all", 16
			}
			if strings.Contains(j.Shape.Name, "TinyLlama") {
				j.Adapter.Targets = "all"
			}
		}
		j.Adapter.Trainable = float64(count(strings.ReplaceAll(r.Extras["trainable"], ",", "")))
	}
	if has(r.Layout, "FSDP") {
		j.Shard = frameworks.ShardWeights
	} else if !r.notes("full") || count(r.Ranks) <= 1 {
		j.Ranks = 1
	}
	return j, nil
}

func qloraJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	j, err := basicJob(r, cards)
	if err != nil {
		return j, err
	}
	if j.Seq == 0 {
		j.Seq = 2048
	}
	if has(r.DType, "nf4") {
		j.Weights = frameworks.QuantByName("nf4-dq")
	}
	j.Recompute = frameworks.Full
	if strings.HasPrefix(strings.ToUpper(r.Layout), "FSDP") {
		j.Shard = frameworks.ShardWeights
	}
	j.OffloadParams = truth(r.Extras["cpu_offload"])
	j.Adapter = frameworks.Adapter{Method: "lora", Rank: 64, Targets: "all"}
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
	text := strings.ToLower(r.Layout + ";" + r.Notes + ";" + r.System)
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
	if has(text, "gc=true") || has(text, "ckpt") || has(text, "checkpoint") || has(text, "ulysses") {
		j.Recompute = frameworks.Full
	}
	if has(text, "lora") {
		j.Adapter = loraOf(text)
	}
	return j, nil
}
