package frameworks

import (
	"math"

	"loadline/planner/hardware"
	"loadline/planner/shape"
)

// Profile is what is characteristic of a system's speed on any card. Its figures were chosen for whole systems on the
// published step times.
type Profile struct {
	Name string
	// Matmul is the part of a card's best matrix product rate that the system's reach.
	Matmul float64
	// LayerSeconds is what a layer costs a pass whatever its size: launches, Python.
	LayerSeconds float64
	// Passes is how often elementwise operations read or write the hidden state, a layer and pass.
	Passes float64
	// Overlap is the part of collectives hidden behind computation.
	Overlap float64
	// StepSeconds is a step's fixed cost.
	StepSeconds float64
	// Tensor is the part of tensor parallelism's collectives that is hidden: a layer waits for each of them, unless
	// products are cut into pieces that travel while the next is multiplied.
	Tensor float64
	// Fused is the part of a matrix product's rate that attention reaches from Hopper on, 0 for FlashAttention-2's.
	Fused float64
	// Gain is the part of 8-bit products' gain that scaling and casts leave, 0 for half.
	Gain float64
}

// profiles are the systems'. Megatron's own is of NVIDIA's results with NeMo 24.07 on DGX H100 (NVIDIA/NeMo,
// docs/source/performance/performance_summary.md), whose products and traffic overlap; megatron-deterministic is of
// Megatron-LM's tests, which all set --deterministic-mode, rings for every collective and no fused accumulation of
// gradients. torchtitan's part of hidden tensor traffic is of its Llama 3.1 70B rows with and without async TP.
var profiles = map[string]Profile{
	"megatron":               {Name: "megatron", Matmul: 0.72, LayerSeconds: 150e-6, Passes: 40, Overlap: 0.8, StepSeconds: 0.05, Tensor: 0.6, Fused: 0.7, Gain: 0.9},
	"megatron-deterministic": {Name: "megatron-deterministic", Matmul: 0.5, LayerSeconds: 150e-6, Passes: 40, Overlap: 0.6, StepSeconds: 0.05, Tensor: 0.6},
	"bloom":                  {Name: "bloom", Matmul: 0.62, LayerSeconds: 400e-6, Passes: 60, Overlap: 0.5, StepSeconds: 0.5, Tensor: 0.5},
	"peft":                   {Name: "peft", Matmul: 0.48, LayerSeconds: 0.7e-3, Passes: 60, Overlap: 0, StepSeconds: 0.02},
	"qwen":                   {Name: "qwen", Matmul: 0.66, LayerSeconds: 3.0e-3, Passes: 60, Overlap: 0.5, StepSeconds: 0.05},
	"torchtitan":             {Name: "torchtitan", Matmul: 0.66, LayerSeconds: 150e-6, Passes: 90, Overlap: 0.9, StepSeconds: 0.02, Tensor: 0.75},
	"torchtune":              {Name: "torchtune", Matmul: 0.74, LayerSeconds: 300e-6, Passes: 120, Overlap: 0.8, StepSeconds: 0.02},
	"litgpt":                 {Name: "litgpt", Matmul: 0.6, LayerSeconds: 4.0e-3, Passes: 60, Overlap: 0.3, StepSeconds: 0.002},
	"qlora":                  {Name: "qlora", Matmul: 0.8, LayerSeconds: 0.6e-3, Passes: 60, Overlap: 0.6, StepSeconds: 0.05},
	"foundry":                {Name: "foundry", Matmul: 0.71, LayerSeconds: 150e-6, Passes: 40, Overlap: 0.9, StepSeconds: 0.03},
	"deepspeed":              {Name: "deepspeed", Matmul: 0.6, LayerSeconds: 0.5e-3, Passes: 60, Overlap: 0.5, StepSeconds: 0.05},
	"loadline":               {Name: "loadline", Matmul: 0.7, LayerSeconds: 50e-6, Passes: 20, Overlap: 0.5, StepSeconds: 0.01},
}

// ProfileOf returns a system's profile, DeepSpeed's for one that is not known.
func ProfileOf(name string) Profile {
	if p, ok := profiles[name]; ok {
		return p
	}
	return profiles["deepspeed"]
}

// Timing is a predicted step or pass.
type Timing struct {
	Seconds float64
	Tokens  float64 // of all ranks
	// Bound is what most of the time goes to: compute, memory, link, host or launches.
	Bound string
}

// PerSecond returns tokens a second of all ranks.
func (t Timing) PerSecond() float64 { return t.Tokens / t.Seconds }

// forwardFLOPs returns the arithmetic of one token's forward pass: matrix products, and attention over half of s
// positions where it is causal and skips the rest.
func forwardFLOPs(s *shape.Shape, seq float64, causal bool) (linear, attention float64) {
	linear = 2 * (float64(s.ActiveParams()) - s.EmbedParams())
	if s.Tied {
		linear += 2 * embedElems(s)
	}
	seen := seq
	if causal {
		seen = seq / 2
	}
	for _, l := range s.Layers {
		q, _ := widths(s, l)
		n := seen
		if l.Window > 0 {
			n = min(n, float64(l.Window))
		}
		if l.Mixer == shape.Recurrent || l.Mixer == shape.NoMixer {
			continue
		}
		attention += 4 * q * n
	}
	return linear, attention
}

// TrainStep predicts an optimizer step on n ranks of card. Compute and elementwise memory traffic add up, since
// kernels follow each other; collectives hide behind them in part; a pipeline waits for its first and last stages.
func TrainStep(j Job, card hardware.Card, p Profile) Timing {
	s := j.Shape
	n, tp, pp := one(j.Ranks), one(j.TP), one(j.PP)
	t := j.tokens()
	dp := max(1, n/(tp*pp*one(j.CP)))
	micro := one(j.Accumulate)
	if j.GlobalBatch > 0 {
		micro = max(1, math.Round(float64(j.GlobalBatch)/(dp*one(j.MicroBatch))))
	}
	linear, attention := forwardFLOPs(s, float64(j.Seq), !j.Unfused)
	trained := 2.0 // passes of the backward one: gradients of inputs and of weights
	if j.Adapter.Method != "" {
		trained = 1
	}
	again := 0.0
	switch j.Recompute {
	case Full:
		again = 1
	case PerOp, Selective:
		again = 0.25
	}
	rate := card.Matmul() * p.Matmul
	fast := rate
	if j.FP8 {
		gain := p.Gain
		if gain == 0 {
			gain = 0.5 // scaling and casts take half
		}
		fast = rate + (card.MatmulFP8()*p.Matmul-rate)*gain
	}
	// Small products do not fill the card, nor do widths that split into odd pieces.
	rows := t / (t + (100+40*tp)*card.Matmul()/300e12)
	if int(float64(s.Hidden)/tp)%64 != 0 {
		rows *= 0.72
	}
	flash := 0.55 // of a matrix product's rate, FlashAttention-2
	if card.BF16 > 700e12 {
		flash = 0.42 // it was not written for Hopper
		if p.Fused > 0 {
			flash = p.Fused
		}
	}
	head := 2 * embedElems(s) // stays in 16 bits
	perMicro := t * ((linear-head)*(1+trained+again)/fast + head*(1+trained)/rate + attention*(3.5+again)/rate/flash) / (tp * pp) / rows
	layers := float64(s.Depth()) / pp
	passes := 2 + trained/2 + again
	touches := p.Passes
	if j.Compiled { // fused
		touches /= 3
	}
	memory := t * float64(s.Hidden) * 2 * touches * layers * passes / 3 / max(card.Bandwidth, 1e9) / tp
	if j.Unfused { // scores of every pair are written and read about six times
		memory += t * float64(s.Heads) * float64(j.Seq) * 2 * 6 * layers * passes / 3 / max(card.Bandwidth, 1e9) / tp
	}
	launch := layers * p.LayerSeconds * (1 + trained + again) / 2
	unpack := 0.0
	if !j.Weights.Whole() { // every pass unpacks the weights
		unpack = s.LinearParams() / pp * (2 + again) * unpackSeconds(j.Weights, card)
	}
	link := linkRate(card)
	comm, tensor := 0.0, 0.0
	if tp > 1 { // two all-reduces a layer and direction, again where recomputed
		tensor = layers * (4 + 2*again) * t * float64(s.Hidden) * 2 * 2 * (tp - 1) / tp / link
	}
	weights := float64(s.Params()) * 2 / (tp * pp)
	if !j.Weights.Whole() {
		weights = j.Weights.bytes(s)
	}
	once := 0.0 // a pipeline stage stays gathered for all its micro-batches
	if j.Shard == ShardWeights && dp > 1 && pp > 1 {
		once = weights * 3 * (dp - 1) / dp / link * (1 - p.Overlap)
	} else if j.Shard == ShardWeights && dp > 1 {
		comm += weights * (2 + again/2) * (dp - 1) / dp / link
	}
	gpu := max(perMicro+memory, launch) + unpack
	hidden := p.Tensor
	if j.AsyncTP {
		hidden = max(hidden, 0.95)
	}
	exposed := comm*(1-p.Overlap) + tensor*(1-hidden)
	if comm*p.Overlap > gpu {
		exposed += comm*p.Overlap - gpu
	}
	one := gpu + exposed
	idle := pp - 1
	if j.ChunkLayers > 0 && pp > 1 { // ranks hold several stages of layers, and begin on the next sooner
		idle /= max(1, layers/float64(j.ChunkLayers))
	}
	step := one*(micro+idle) + once
	// Gradients meet once a step, and states are read and written once.
	states := float64(s.Params())
	if j.Adapter.Method != "" {
		states = max(j.Adapter.Trainable, 1e6)
	}
	states /= tp * pp
	sync := 0.0
	if dp > 1 {
		sync = states * 4 / link * (1 - p.Overlap)
	}
	share := 1.0
	if j.Shard >= ShardOptim {
		share = dp
	}
	update := states * 28 / share / max(card.Bandwidth, 1e9)
	if j.OffloadOptim > 0 || j.OffloadParams && j.Adapter.Method == "" {
		update = states * (16/share/card.HostLink() + 20/share/40e9)
	}
	if j.OffloadParams {
		step += weights * (2 + again) / dp / card.HostLink() * micro * (1 - p.Overlap)
	}
	total := step + sync + update + p.StepSeconds
	bound := "compute"
	switch m := max(perMicro, memory, exposed, launch); {
	case m == exposed && exposed > 0:
		bound = "link"
	case m == launch:
		bound = "launches"
	case m == memory:
		bound = "memory"
	}
	return Timing{Seconds: total, Tokens: t * micro * dp * float64(max(1, j.CP)), Bound: bound}
}

// linkRate returns bytes a second that a rank sends while it receives as many.
func linkRate(card hardware.Card) float64 {
	if card.Link > 0 {
		return 0.35 * card.Link // of both directions together; rings reach seven tenths
	}
	return 0.5 * card.HostLink()
}

// unpackSeconds returns the time to unpack one weight for a matrix product of many rows.
func unpackSeconds(q Quant, card hardware.Card) float64 {
	bytes := q.bits()/8 + 2
	slow := 9.0 // GPTQ's kernel multiplies while it unpacks
	switch {
	case q.Name == "nf4", q.Name == "nf4-dq", q.Name == "fp4":
		slow = 2
	case q.Bits >= 8:
		slow = 1.5
	}
	return slow * bytes / max(card.Bandwidth, 1e9)
}
