package score

import (
	"fmt"
	"strconv"
	"strings"

	"loadline/planner/frameworks"
	"loadline/planner/shape"
)

// megatronJob reads a row of Megatron's arguments, absent ones at their defaults.
func megatronJob(r *Row) (frameworks.Job, error) {
	s, err := megatronShape(r)
	if err != nil {
		return frameworks.Job{}, err
	}
	j := frameworks.Job{
		Shape: s, Ranks: count(r.Ranks), TP: r.par("TP"), PP: r.par("PP"), CP: r.par("CP"), EP: r.par("EP"), ETP: r.par("ETP"),
		SequenceParallel: truth(r.Parallel["sp"]), ChunkLayers: r.par("VPPL"),
		MicroBatch: count(r.MicroBatch), GlobalBatch: count(r.GlobalBatch), Seq: count(r.Seq),
		Compute: "bf16", FP8: has(r.DType, "fp8"), Dropout: true, // its default is 0.1
		MTPDepth: r.arch("mtp-num-layers", 0),
	}
	if has(r.DType, "fp16") && !has(r.DType, "bf16") {
		j.Compute = "fp16"
	}
	if truth(r.Parallel["distopt"]) {
		j.Shard = frameworks.ShardOptim
	}
	switch r.Parallel["shard"] {
	case "optim_grads":
		j.Shard = frameworks.ShardGrads
	case "optim_grads_params":
		j.Shard = frameworks.ShardWeights
	}
	// The local implementation has no fused attention; Transformer Engine chooses it unless told otherwise.
	switch r.Extras["attention-backend"] {
	case "unfused", "local":
		j.Unfused = true
	case "flash", "fused":
	default:
		j.Unfused = r.Extras["transformer-impl"] == "local" && !truth(r.Extras["use-flash-attn"])
	}
	j.Local = r.Extras["transformer-impl"] == "local"
	j.Capability = capability(r.GPU)
	switch r.Extras["recompute-granularity"] {
	case "full":
		j.Recompute = frameworks.Full
		if n := count(r.Extras["recompute-num-layers"]); n > 0 {
			if r.Extras["recompute-method"] == "block" {
				j.BlockLayers = n
			} else {
				j.UniformLayers = n
			}
		}
	case "selective":
		j.Recompute = frameworks.Selective
		j.Modules = strings.Fields(strings.Trim(r.Extras["recompute-modules"], "[]"))
		if len(j.Modules) == 0 {
			j.Modules = []string{"core_attn"}
		}
	}
	j.OffloadActs = truth(r.Extras["fine-grained-activation-offloading"])
	if f, ok := num(r.Extras["optimizer_offload_fraction"]); ok {
		j.OffloadOptim = min(1, max(0, f))
	} else if f, ok := num(r.Extras["optimizer-offload-fraction"]); ok {
		j.OffloadOptim = min(1, max(0, f))
	}
	if strings.Contains(r.Model, "muon") {
		j.Optimizer = "muon"
	}
	return j, nil
}

// megatronShape builds the model of a row's flags.
func megatronShape(r *Row) (*shape.Shape, error) {
	h, heads := r.arch("hidden-size", 0), r.arch("num-attention-heads", 0)
	if h == 0 || heads == 0 {
		return nil, fmt.Errorf("hidden-size or num-attention-heads is not recorded")
	}
	bert := strings.HasPrefix(r.Model, "bert/")
	s := &shape.Shape{
		Name: r.Model, Arch: "megatron", Hidden: h, Heads: heads, HeadDim: r.arch("kv-channels", h/heads),
		Vocab: r.arch("vocab-size", 50257), Tied: !truth(r.Arch["untie-embeddings-and-output-weights"]), Gated: truth(r.Arch["swiglu"]),
		NormBias: r.Arch["normalization"] != "RMSNorm", Norms: 2, QKVBias: true, OutBias: true, MLPBias: true,
		TopK: r.arch("moe-router-topk", 2), SharedFFN: r.arch("moe-shared-expert-intermediate-size", 0),
	}
	if bert && r.Arch["vocab-size"] == "" {
		s.Vocab = 30522 // BERT's word pieces
	}
	if r.Arch["position-embedding-type"] == "" {
		s.Positions = count(r.Seq)
	}
	ffn := r.arch("ffn-hidden-size", 4*h)
	if s.Gated && r.Arch["ffn-hidden-size"] == "" {
		ffn = (4 * h * 2 / 3) / 64 * 64 // arguments.py
	}
	kv := r.arch("num-query-groups", heads)
	experts := r.arch("num-experts", 0)
	s.ExpertFFN = r.arch("moe-ffn-hidden-size", ffn)
	mla := truth(r.Arch["multi-latent-attention"]) || r.Arch["mla"] == "1"
	if mla { // MLATransformerConfig's defaults
		s.QRank, s.KVRank = r.arch("q-lora-rank", 512), r.arch("kv-lora-rank", 512)
		s.NopeDim, s.RopeDim, s.VDim = r.arch("qk-head-dim", 128), r.arch("qk-pos-emb-head-dim", 64), r.arch("v-head-dim", 128)
		s.HeadDim = s.NopeDim + s.RopeDim
	}
	depth := r.arch("num-layers", 0)
	if depth > 4096 {
		return nil, fmt.Errorf("num-layers is %d", depth)
	}
	pattern := r.Arch["hybrid-override-pattern"]
	if pattern == "" {
		pattern = r.Arch["hybrid-layer-pattern"]
	}
	if pattern == "" && strings.HasPrefix(r.Model, "nemotron/") { // Nemotron 3: 23 Mamba, 23 MoE and 6 attention layers of 52
		pattern = strings.Repeat("MEM*EME", depth/7+1)[:depth]
	}
	for i := range depth {
		l := shape.Layer{Mixer: shape.Attention, KVHeads: kv, HeadDim: s.HeadDim, FFN: ffn}
		if mla {
			l = shape.Layer{Mixer: shape.Latent, FFN: ffn}
		}
		if experts > 0 && moeLayer(r.Arch["moe-layer-freq"], i) {
			l.FFN, l.Experts = 0, experts
		}
		if i < len(pattern) {
			l = patternLayer(pattern[i], l, ffn, experts)
		}
		s.Layers = append(s.Layers, l)
	}
	if strings.ContainsRune(pattern, 'M') { // Mamba-2: in-projection of z, x, B, C and dt, out-projection
		inner := 2 * h
		s.StateElems = inner * 128
		s.RecurrentPs = h*(2*inner+2*8*128+inner/64) + inner*h
	}
	return s, s.Validate()
}

// patternLayer reads Megatron's hybrid pattern: M Mamba, E experts, - an MLP, * attention.
func patternLayer(c byte, l shape.Layer, ffn, experts int) shape.Layer {
	switch c {
	case 'M':
		return shape.Layer{Mixer: shape.Recurrent}
	case 'E':
		return shape.Layer{Mixer: shape.NoMixer, Experts: experts}
	case '-':
		return shape.Layer{Mixer: shape.NoMixer, FFN: ffn}
	}
	l.FFN, l.Experts = 0, 0
	return l
}

// moeLayer tells whether layer i has experts by --moe-layer-freq: a period, or a list such as ([0]*3+[1]*13).
func moeLayer(freq string, i int) bool {
	freq = strings.Trim(freq, "()")
	if freq == "" {
		return true
	}
	if n, err := strconv.Atoi(freq); err == nil && n > 0 {
		return i%n == 0
	}
	for _, run := range strings.Split(freq, "+") {
		value, times, repeated := strings.Cut(run, "*")
		vals := strings.Split(strings.Trim(value, "[] "), ",")
		n := len(vals)
		if repeated {
			t, err := strconv.Atoi(strings.Trim(times, "() "))
			if err != nil || t < 0 {
				return true
			}
			n *= t
		}
		if i < n {
			return strings.TrimSpace(vals[i%len(vals)]) == "1"
		}
		i -= n
	}
	return true
}

// capability returns the compute capability times ten of a card, by its name.
func capability(gpu string) int {
	for _, c := range []struct {
		part string
		n    int
	}{
		{"GB200", 100}, {"GB300", 103}, {"B200", 100}, {"B300", 103}, {"H100", 90}, {"H200", 90}, {"H800", 90}, {"H20", 90}, {"GH200", 90},
		{"A100", 80}, {"A800", 80}, {"A30", 80}, {"V100", 70}, {"T4", 75}, {"A10", 86}, {"A6000", 86}, {"3090", 86}, {"L40", 89}, {"L4", 89}, {"4090", 89}, {"5090", 120},
	} {
		if has(gpu, c.part) {
			return c.n
		}
	}
	return 0
}
