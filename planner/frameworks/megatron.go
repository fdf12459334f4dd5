package frameworks

import (
	"math"

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

// Megatron predicts Megatron-Core with Transformer Engine, on a rank of one pipeline stage, as its allocator counts. Sources: megatron/core/distributed/param_and_grad_buffer.py (gradients), optimizer/distrib_optimizer.py
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

// stage returns the layers that the stage holds, as positions in the model.
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
	if v := m.ChunkLayers; v > 0 && pp > 1 { // the last rank's chunks end at the last layer, v·pp before it, ...
		for end := depth - v*m.Stage; end > 0 && len(layers) < n; end -= v * pp {
			for i := max(0, end-v); i < end; i++ {
				layers = append(layers, i)
			}
		}
		return layers
	}
	for i := max(0, depth-n*(m.Stage+1)); i < depth-n*m.Stage; i++ {
		layers = append(layers, i)
	}
	return layers
}

// last and first tell which ends of the model the stage holds.
func (m *megatron) last() bool  { return m.Stage == 0 }
func (m *megatron) first() bool { return m.Stage == max(1, m.PP)-1 }

// alive returns how many times what the stage keeps of one micro-batch waits at once: schedules.py runs as many
// forwards ahead as there are stages after this one, and interleaved ones twice that and all but one of the chunks.
func (m *megatron) alive(layers int) float64 {
	micro := math.Inf(1)
	if m.GlobalBatch > 0 {
		micro = max(1, float64(m.GlobalBatch)*one(m.CP)/(m.data()*one(m.MicroBatch)))
	}
	if v := m.ChunkLayers; v > 0 && m.PP > 1 && layers > v {
		chunks := float64(layers) / float64(v)
		ahead := (chunks-1)*float64(m.PP) + 2*float64(m.Stage) + 1
		return min(ahead, chunks*micro) / chunks
	}
	return min(float64(m.Stage+1), micro)
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
	if m.last() { // the head, or its copy of a tied embedding
		shared += m.embed()
	}
	if m.first() {
		shared += float64(m.s.Positions) * float64(m.s.Hidden)
		if !m.s.Tied || !m.last() {
			shared += m.embed()
		}
	}
	if m.MTPDepth > 0 && m.last() { // an extra layer, shared by the depths, and a projection of two streams into one
		last := m.s.Depth() - 1
		shared += m.blockParams(last) + 2*float64(m.s.Hidden)*float64(m.s.Hidden)/m.tp
		expert += m.s.ExpertParams(last) / (one(m.EP) * m.etp)
		if m.PP > 1 {
			shared += m.embed() // a copy of the embedding
		}
	}
	return shared, expert
}
