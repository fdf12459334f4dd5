package main

import (
	"fmt"
	"io"
	"strings"

	"loadline/mem"
	"loadline/planner/pricing"
	"loadline/planner/search"
)

// pricedGroup is a part of a rank's memory, as the file's keys ask for it and as plan --framework deepspeed has it.
type pricedGroup struct {
	Name string    `json:"name"`
	File mem.Bytes `json:"file_bytes"`
	Plan mem.Bytes `json:"plan_bytes"`
	Why  string    `json:"why"`
}

// pricedDocument is the document of plan --deepspeed.
type pricedDocument struct {
	*pricing.Report
	Fits     *bool         `json:"fits"`        // null without --hardware
	Need     mem.Bytes     `json:"need_bytes"`  // of a rank, with what no key of the file speaks of; 0 without --hardware
	Limit    mem.Bytes     `json:"limit_bytes"` // 0 without --hardware
	Compared []pricedGroup `json:"compared"`
}

// samePlan is what plan --framework deepspeed says of the file's settings, or why it says nothing.
func samePlan(j pricing.Job, s pricing.Settings, m search.Machine) (*search.Answer, string) {
	if s.Precision == "fp32" {
		return nil, "it plans 16-bit weights, and the file turns on neither bf16 nor fp16"
	}
	q := search.Question{Shape: j.Shape, Machine: m, Task: search.Train, Framework: "deepspeed", Seq: j.Seq, Hold: search.Hold{
		Ranks: max(1, j.Ranks), TP: 1, PP: 1, EP: 1, CP: s.SequenceParallel, MicroBatch: s.MicroBatch, ZeRO: &s.Stage, Precision: s.Precision, Recompute: "full", Offload: s.Offload,
		Adapter: "none", Optimizer: "adamw", LossHead: "full",
	}}
	a, err := search.Plans(q)
	switch {
	case err != nil:
		return nil, oneLine(words(err))
	case len(a.Plans) == 0:
		return nil, "it has no plan of these settings"
	}
	return a, ""
}

// compare holds a priced file against the plan, and judges whether it fits: what the file prices is taken from there, and what no key of it
// speaks of from the plan.
func (d *pricedDocument) compare(a *search.Answer) {
	by := func(all ...mem.Purpose) mem.Bytes {
		sum := mem.Bytes(0)
		for _, p := range all {
			sum += a.Plans[0].ByPurpose[p.String()]
		}
		return sum
	}
	states, buckets, runtime := by(mem.Weights, mem.MasterWeights, mem.Grads, mem.OptimState), by(mem.CommBuffers), by(mem.Runtime)
	instead, words := d.instead(a.Question.Shape.Params())
	plans := []mem.Bytes{states, buckets, a.Plans[0].Peak - states - buckets - runtime}
	why := []string{
		"the plan counts ZeRO's stage and offload; keys such as grad_accum_dtype or zero_hpz_partition_size are the file's alone",
		"the plan takes DeepSpeed's defaults" + words,
		"the plan adds what the allocator keeps, a layer's activations while it is computed again, and FP32 gradients of a sub-group; of the file, inputs of layers and logits, where it has a micro-batch",
	}
	for i, g := range d.Groups {
		x := pricedGroup{g.Name, g.Device, plans[i], why[i]}
		if x.File == x.Plan {
			x.Why = "the same"
		}
		d.Compared = append(d.Compared, x)
		switch {
		case i == 0 && g.Keys > 0:
			d.Need += g.Device
		case i == 1:
			d.Need += max(plans[i]+instead, g.Device)
		default:
			d.Need += max(plans[i], g.Device)
		}
	}
	d.Compared = append(d.Compared, pricedGroup{"the driver's context and communicators", 0, runtime, "no key speaks of it"})
	d.Need, d.Limit = d.Need+runtime, a.Limit
	fits := d.Need <= d.Limit
	d.Fits = &fits
}

// instead returns what the file's buckets take more than DeepSpeed's defaults, which the plan has, and says so by key. Sources of the
// defaults: deepspeed/runtime/zero/config.py.
func (d *pricedDocument) instead(params int64) (more mem.Bytes, words string) {
	for _, x := range []struct {
		key      string
		device   mem.Bytes
		elements int64
		from     int
	}{{"reduce_bucket_size", mem.Bytes(4 * min(500e6, params)), 500e6, 0}, {"stage3_max_live_parameters", mem.Bytes(2 * min(1e9, params)), 1e9, 3}} {
		if d.Settings.Stage < x.from {
			continue
		}
		words += fmt.Sprintf(", %s %s elements, %v", x.key, grouped(x.elements), x.device)
		for _, p := range d.Prices {
			if strings.HasSuffix(p.Key, x.key) || strings.HasSuffix(p.Key, strings.TrimPrefix(x.key, "stage3_")) {
				more += p.Device - x.device
				words += fmt.Sprintf(" (the file's: %v)", p.Device)
			}
		}
	}
	if d.Settings.Stage == 3 {
		words += ", and two gathered layers and the embeddings, which no key speaks of"
	}
	return more, words
}

// print writes the comparison and the verdict.
func (d *pricedDocument) print(w io.Writer) {
	rows := [][]string{{"of a rank", "this file", "plan --framework deepspeed"}}
	file, plan := mem.Bytes(0), mem.Bytes(0)
	for _, x := range d.Compared {
		rows = append(rows, []string{x.Name, x.File.String(), x.Plan.String()})
		file, plan = file+x.File, plan+x.Plan
	}
	table(w, append(rows, []string{"together", file.String(), plan.String()}))
	for _, x := range d.Compared {
		if x.File != x.Plan {
			fmt.Fprintf(w, "  %s: %s\n", x.Name, x.Why)
		}
	}
	word := "fits"
	if !*d.Fits {
		word = "does not fit"
	}
	fmt.Fprintf(w, "%s: %v of %v a rank, with the file's bytes where it has keys for them and the plan's for the rest\n", word, d.Need, d.Limit)
}
