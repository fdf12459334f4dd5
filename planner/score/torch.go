package score

import (
	"fmt"
	"regexp"
	"strings"

	"loadline/planner/frameworks"
	"loadline/planner/shape"
)

// alpacaLongest is the longest sample of the alpaca data set, in Llama 2's tokens.
const alpacaLongest = 1044

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
