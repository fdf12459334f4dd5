package frameworks

import (
	"strings"

	"loadline/planner/hardware"
	"loadline/planner/shape"
)

// Serving is a serving system's speed on any card.
type Serving struct {
	Bandwidth    float64 // the part of a card's streaming rate that reading weights reaches
	Matmul       float64
	LayerSeconds float64 // of a pass, whatever its size
	PassSeconds  float64
	Eager        bool // kernels are launched while the card works, and may take longer than it does
	// Repeat is how often the cache, its heads repeated for every query head, is moved a step; 0 to read it once.
	Repeat float64
}

// LlamaCppServing returns llama.cpp's figures on a card. Its products with a few rows unpack weights in ordinary
// integer units, which keep pace with GDDR but not with HBM, where 18 GB of Q4_K_M are read at 0.8 TB/s on A100 and 1.2 on
// H100, and which reach half of the bandwidth on Apple's processors. Sources: llama-bench tables of LLaMA 3 8B and 70B on 3070 to
// 4090, and on M1 to M3 (github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference, May 2024), and of ten models on A100, H100 and
// B300 (pavlokhmel.com, June 2026).
func LlamaCppServing(q Quant, card hardware.Card) Serving {
	v := Serving{Bandwidth: 0.78, Matmul: 0.5, LayerSeconds: 48e-6, PassSeconds: 0.3e-3}
	if q.Whole() {
		v.Bandwidth = 0.88
	}
	switch {
	case card.Unified:
		v.Bandwidth = 0.48
		if q.Whole() {
			v.Bandwidth = 0.74
		}
	case strings.Contains(card.MemoryType, "HBM"):
		v.Bandwidth, v.LayerSeconds = 0.39, 75e-6
		if q.Whole() {
			v.Bandwidth = 0.5
		}
	}
	return v
}

// ServingOf returns a system's figures: sglang and vllm capture their kernels in graphs, transformers launches each
// from Python and repeats keys and values for every query head.
func ServingOf(name string, s *shape.Shape, q Quant) Serving {
	switch name {
	case "transformers":
		v := Serving{Bandwidth: 0.88, Matmul: 0.6, LayerSeconds: 0.6e-3, PassSeconds: 1e-3, Eager: true, Repeat: 5}
		switch {
		case q.Name == "fp8": // a kernel in Triton for blocks of scales
			v.LayerSeconds = 1.8e-3
		case q.Name == "awq-int4":
			v.LayerSeconds, v.Repeat = 0.5e-3, 1.5
		case !q.Whole():
			v.Bandwidth = 0.35
		}
		return v
	case "litgpt":
		v := Serving{Bandwidth: 0.6, Matmul: 0.5, LayerSeconds: 0.95e-3, PassSeconds: 1e-3, Eager: true}
		if !q.Whole() {
			v.LayerSeconds = 1.7e-3
		}
		return v
	}
	v := Serving{Bandwidth: 0.72, Matmul: 0.75, LayerSeconds: 28e-6, PassSeconds: 0.7e-3}
	switch {
	case q.Name == "gptq-int4" && s.MoE(): // one launch an expert
		v.LayerSeconds = 0.6e-3
	case q.Name == "gptq-int8", q.Bits > 0 && q.Bits < 8:
		v.Bandwidth = 0.5
		v.LayerSeconds = 40e-6
	}
	return v
}

// Generate predicts one batch: a prompt is read, then out tokens are made one by one.
func Generate(j Job, card hardware.Card, v Serving, out int) Timing {
	s := j.Shape
	b, n := one(j.MicroBatch), max(one(j.Ranks), one(j.TP))
	prompt := float64(max(0, j.Seq-out))
	linear, attention := forwardFLOPs(s, prompt, true)
	rate := card.Matmul()
	if j.Weights.Name == "fp8" {
		rate = card.MatmulFP8()
	}
	prefill := b*prompt*(linear+attention)/(rate*v.Matmul*n) + float64(s.Depth())*v.LayerSeconds + v.PassSeconds
	active := float64(s.ActiveParams()) - s.EmbedParams()
	if s.Tied {
		active += embedElems(s)
	}
	bits := j.Weights.bits()
	linearActive := min(active, active-embedElems(s))
	read := linearActive*bits/8 + embedElems(s)*j.Weights.embedBits()/8
	if s.MoE() && b > 1 { // more sequences meet more experts
		read = min(j.Weights.bytes(s), read*min(b, 8))
	}
	kvBits := j.KVBits
	if kvBits == 0 {
		kvBits = 16
	}
	kv := b * s.KVElemsAt(int(prompt)+out/2) * kvBits / 8
	if v.Repeat > 0 && s.KVHeads() > 0 {
		kv *= 1 + v.Repeat*float64(s.Heads)/float64(s.KVHeads())
	}
	stream := card.Stream() * n
	launch := float64(s.Depth()) * v.LayerSeconds
	work := read/(stream*v.Bandwidth) + b*linear/(rate*v.Matmul*n)
	step := work + launch
	if v.Eager {
		step = max(work, launch)
	}
	step += kv/stream + v.PassSeconds
	total := prefill + float64(out)*step
	bound := "memory"
	if prefill > total/2 {
		bound = "compute"
	} else if launch > step/2 {
		bound = "launches"
	}
	return Timing{Seconds: total, Tokens: b * (prompt + float64(out)), Bound: bound}
}
