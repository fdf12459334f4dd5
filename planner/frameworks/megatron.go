package frameworks

import (
	"math"
	"slices"

	"loadline/mem"
	"loadline/planner/shape"
)

// megatronWorkspace returns what no formula sees: the workspaces of cuBLAS and of Transformer Engine, which are larger
// from Hopper on (transformer_engine/pytorch/module/base.py), masks, and buffers of small reductions.
// With context parallelism on Ampere the library that attention takes there needs less.
func megatronWorkspace(capability, cp int) float64 {
	switch {
	case capability == 80 && cp > 1:
		return 0.04 * gib
	case capability >= 100:
		return 0.128 * gib
	case capability >= 90:
		return 0.108 * gib
	}
	return 0.095 * gib
}

// Megatron predicts Megatron-Core with Transformer Engine, on the rank of the last pipeline stage, as its allocator
// counts. Sources: megatron/core/distributed/param_and_grad_buffer.py (gradients), optimizer/distrib_optimizer.py
// (states), transformer/*.py and extensions/transformer_engine.py (what a layer keeps), pipeline_parallel/schedules.py
// (how many chunks wait), tensor_parallel/cross_entropy.py (the head), arXiv 2205.05198.
func Megatron(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	m := megatron{Job: j, s: j.Shape, tp: one(j.TP), t: j.tokens()}
	m.etp = m.tp
	if j.ETP > 0 {
		m.etp = float64(j.ETP)
	}
	m.sp = 1
	if j.SequenceParallel {
		m.sp = m.tp
	}
	m.states()
	m.activations()
	m.add(mem.Workspace, megatronWorkspace(m.Capability, m.CP))
	e := m.estimate()
	e.Static = round(m.static)
	e.Cached = round(0.06*m.sum() + 0.3*gib) // blocks split by the caching allocator, without expandable segments
	e.Driver = round(1.2 * gib)              // CUDA context, NCCL communicators
	return e, nil
}

type megatron struct {
	Job
	tally
	s       *shape.Shape
	tp, etp float64
	sp      float64 // ranks that share a sequence outside attention and MLP
	t       float64 // tokens
	static  float64
	step    float64 // what only the optimizer's step holds
}

// stage returns the layers that the last stage holds, as positions in the model.
func (m *megatron) stage() []int {
	depth, pp := m.s.Depth(), max(1, m.PP)
	n := (depth + pp - 1) / pp
	if depth%pp != 0 {
		n = max(1, depth/pp)
	}
	if m.LayersPerRank > 0 {
		n = min(depth, m.LayersPerRank)
	}
	var layers []int
	if v := m.ChunkLayers; v > 0 && pp > 1 { // chunk c of the last rank ends at layer (c+1)·v·pp
		for end := depth; end > 0 && len(layers) < n; end -= v * pp {
			for i := max(0, end-v); i < end; i++ {
				layers = append(layers, i)
			}
		}
		return layers
	}
	for i := depth - n; i < depth; i++ {
		layers = append(layers, i)
	}
	return layers
}

// states adds weights, gradients and optimizer state. Gradients are one fp32 buffer of every parameter
// (accumulate_allreduce_grads_in_fp32 with bf16), fp16 keeps them in fp16 and copies to fp32 only when stepping.
func (m *megatron) states() {
	shared, expert := m.params()
	grads := 4.0
	if m.Compute == "fp16" {
		grads = 2
	}
	n := m.data() // distributed over data and context parallel ranks
	edp := max(1, one(m.Ranks)/(m.etp*one(m.EP)*one(m.PP)))
	for _, part := range []struct{ p, n float64 }{{shared, n}, {expert, edp}} {
		share := 1.0
		if m.Shard >= ShardOptim {
			share = part.n
		}
		m.add(mem.Grads, part.p*grads/m.shareIf(ShardGrads, part.n))
		m.add(mem.Weights, part.p*2/m.shareIf(ShardWeights, part.n))
		moments := 8.0
		if m.Optimizer == "muon" {
			moments = 4 // one momentum for matrices
		}
		m.add(mem.MasterWeights, part.p*4/share*(1-m.OffloadOptim))
		m.add(mem.OptimState, part.p*moments/share*(1-m.OffloadOptim))
		m.host[mem.OptimState] += part.p * (4 + moments) / share * m.OffloadOptim
		if m.Compute == "fp16" && m.Shard == Replicated {
			m.step += 4 * part.p // fp32 copies while the optimizer steps
		}
	}
	if m.Shard == ShardWeights { // Megatron-FSDP gathers a unit ahead, double-buffered
		unit := 0.0
		for i := range m.s.Layers {
			unit = max(unit, m.blockParams(i))
		}
		embed := m.embed()
		m.add(mem.CommBuffers, 2*2*unit+(2+4)*embed)
	}
	m.static = m.sum()
}

func (m *megatron) shareIf(s Sharding, n float64) float64 {
	if m.Shard >= s {
		return n
	}
	return 1
}

// embed returns the embedding's parameters on a rank; the vocabulary is padded to 128·TP.
func (m *megatron) embed() float64 {
	return m.vocab() / m.tp * float64(m.s.Hidden)
}

func (m *megatron) vocab() float64 {
	pad := 128 * m.tp
	return math.Ceil(float64(m.s.Vocab)/pad) * pad
}

// blockParams returns layer i's parameters on a rank without routed experts.
func (m *megatron) blockParams(i int) float64 {
	return (m.s.MixerParams(i) + m.s.DenseParams(i)) / m.tp
}

// params returns the parameters of the last stage on a rank, routed experts apart.
func (m *megatron) params() (shared, expert float64) {
	for _, i := range m.stage() {
		shared += m.blockParams(i)
		expert += m.s.ExpertParams(i) / (one(m.EP) * m.etp)
	}
	shared += m.embed() // the head, or its copy of a tied embedding
	if m.PP <= 1 {
		shared += float64(m.s.Positions) * float64(m.s.Hidden)
		if !m.s.Tied {
			shared += m.embed()
		}
	}
	if m.MTPDepth > 0 { // an extra layer, shared by the depths, and a projection of two streams into one
		last := m.s.Depth() - 1
		shared += m.blockParams(last) + 2*float64(m.s.Hidden)*float64(m.s.Hidden)/m.tp
		expert += m.s.ExpertParams(last) / (one(m.EP) * m.etp)
		if m.PP > 1 {
			shared += m.embed() // a copy of the embedding
		}
	}
	return shared, expert
}

// activations adds what waits for the backward pass, and the head.
func (m *megatron) activations() {
	layers := m.stage()
	kept, group := m.recomputed(layers)
	if v := m.ChunkLayers; v > 0 && m.PP > 1 && len(layers) > 0 {
		// schedules.py, interleaved 1F1B: the last rank runs (chunks−1)·PP forwards before its first backward.
		chunks := float64(len(layers)) / float64(v)
		alive := (chunks-1)*float64(m.PP) + 1
		kept = kept / chunks * alive
	}
	h, v := float64(m.s.Hidden), m.vocab()/m.tp
	head := m.t * (6*v + 4*h/m.sp)
	for i := range m.MTPDepth {
		_ = i
		kept += m.layer(m.s.Depth()-1) + m.t*8*h/m.sp
		head += m.t * 4 * v // each depth's probabilities wait in fp32
	}
	if m.OffloadActs {
		m.host[mem.Activations] += kept
		kept = kept / float64(max(1, len(layers)))
	}
	if m.Local { // dot_product_attention.py multiplies into one global buffer
		m.add(mem.Workspace, 2*float64(m.s.Heads)*m.t*float64(m.Seq)/m.tp)
	}
	head = max(head, group)
	if kept+head < m.step {
		m.add(mem.Grads, m.step)
		return
	}
	m.add(mem.Activations, kept)
	m.add(mem.Workspace, head)
}

func (m *megatron) recomputes(module string) bool {
	return m.Recompute == Selective && slices.Contains(m.Modules, module)
}

// recomputed returns what the layers of a stage keep of a micro-batch, and what the largest group of them needs when
// it is computed again. --recompute-method uniform keeps the input of every so many layers, block recomputes so many
// layers of a chunk and keeps all of the others (transformer_block.py, _checkpointed_forward).
func (m *megatron) recomputed(layers []int) (kept, group float64) {
	if m.Recompute != Full {
		for _, i := range layers {
			kept += m.layer(i)
		}
		return kept, 0
	}
	input := 2 * float64(m.s.Hidden) * m.t / m.sp
	chunk := len(layers)
	if m.ChunkLayers > 0 && m.PP > 1 {
		chunk = m.ChunkLayers
	}
	every := max(1, m.UniformLayers)
	run := 0.0
	for n, i := range layers {
		if m.BlockLayers > 0 && n%chunk >= m.BlockLayers {
			kept += m.layer(i)
			continue
		}
		if n%every == 0 {
			kept += input
			run = 0
		}
		run += m.layer(i)
		group = max(group, run)
	}
	return kept, group
}

// layer returns what layer i keeps of a micro-batch if it is not computed again.
func (m *megatron) layer(i int) float64 {
	h, l := float64(m.s.Hidden), m.s.Layers[i]
	norm := 8 * h / m.sp // two norms: input and output, which the next matrix product keeps
	if m.Dropout {
		norm += 2 * h / m.sp // masks of one byte
	}
	if m.recomputes("layernorm") {
		norm -= 4 * h / m.sp
	}
	return m.t * (norm + m.mixer(l) + m.mlp(l))
}

// mixer returns bytes a token inside attention.
func (m *megatron) mixer(l shape.Layer) float64 {
	heads := float64(m.s.Heads)
	scores := 0.0
	if m.Unfused && l.Mixer != shape.Recurrent && !m.recomputes("core_attn") {
		pair := 2.0 // the softmax
		if m.Dropout {
			pair = 5 // a mask, and what is left
		}
		scores = pair * heads * float64(m.Seq) / m.tp
	}
	switch l.Mixer {
	case shape.Attention:
		q, k := heads*float64(l.HeadDim), float64(l.KVHeads*l.HeadDim)
		return scores + (4*q+4*k)/m.tp
	case shape.Latent:
		qk, v := heads*float64(m.s.NopeDim+m.s.RopeDim), heads*float64(m.s.VDim)
		down := 4 * float64(m.s.QRank+m.s.KVRank) / m.sp // and their norms
		up := 2 * (qk + heads*float64(m.s.NopeDim) + v) / m.tp
		core := 2 * (2*qk + v + v) / m.tp // rotated query and key, value, output
		if m.recomputes("mla_up_proj") {
			up = 0
		}
		return scores + down + up + core
	case shape.Recurrent:
		return 2 * 8 * float64(m.s.Hidden) / m.tp
	}
	return 0
}

// mlp returns bytes a token inside the MLP or the experts.
func (m *megatron) mlp(l shape.Layer) float64 {
	acts := 4.0 // before and after the activation function
	if m.s.Gated {
		acts = 6
	}
	n := 0.0
	if l.FFN > 0 && !m.recomputes("mlp") {
		n += acts * float64(l.FFN) / m.tp
	}
	if l.Experts > 0 && !m.recomputes("moe") && !m.recomputes("moe_layer") {
		n += acts * float64(m.s.SharedFFN) / m.tp
		acts = 6 // experts.py multiplies by the router's probability after the activation, and keeps what it multiplies
		// Tokens are dispatched from sequence shards, and gathered over the ranks that share an expert.
		spread := m.sp / m.etp
		wide := acts * float64(m.s.ExpertFFN) / m.etp
		if m.recomputes("moe_act") {
			wide -= 2 * float64(m.s.ExpertFFN) / m.etp
		}
		n += float64(m.s.TopK) / spread * (wide + 4*float64(m.s.Hidden))
		n += 8 * float64(l.Experts) / m.sp // router's logits and probabilities in fp32
	}
	return n
}
