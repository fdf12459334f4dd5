package frameworks

import (
	"slices"

	"loadline/mem"
	"loadline/planner/shape"
)

// activations adds what waits for the backward pass, and the head.
func (m *megatron) activations() {
	layers := m.stage()
	kept, group := m.recomputed(layers)
	kept *= m.alive(len(layers))
	h, v := float64(m.s.Hidden), m.vocab()/m.tp
	head := 0.0
	if m.last() {
		head = m.t * (6*v + 4*h/m.sp)
		for range m.MTPDepth {
			kept += m.layer(m.s.Depth()-1) + m.t*8*h/m.sp
			head += m.t * 4 * v // each depth's probabilities wait in fp32
		}
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
