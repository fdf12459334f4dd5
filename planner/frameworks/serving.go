package frameworks

import (
	"fmt"
	"math"

	"loadline/mem"
)

// Serve is a serving job of vLLM or SGLang.
type Serve struct {
	Job
	Memory      mem.Bytes // of one card, as the driver shows it
	Utilization float64   // gpu_memory_utilization, mem_fraction_static; 0 for 0.9
	BatchTokens int       // max_num_batched_tokens; 0 for 8192
	BlockTokens int       // 0 for 16
	Sequences   int       // max_num_seqs, for CUDA graphs; 0 for 256
	EagerOnly   bool      // no CUDA graphs
}

// Served is what a serving system reserves at start.
type Served struct {
	Estimate
	Blocks      int     // of the cache
	Tokens      int     // that the cache holds
	Concurrency float64 // sequences of the job's length that fit at once
}

// latentPad is the width to which vLLM pads a latent key for its kernels: 576 becomes 640.
const latentPad = 128

// VLLM predicts vLLM, which takes a fixed part of the card and gives what is left to the cache. Sources:
// vllm/v1/worker/gpu_worker.py (determine_available_memory: a profiling pass of max_num_batched_tokens), v1/core/
// kv_cache_utils.py (pages a layer; layers with a window need no more than it), v1/worker/gpu_model_runner.py (graphs).
func VLLM(j Serve) (Served, error) {
	if err := j.check(); err != nil {
		return Served{}, err
	}
	s, tp := j.Shape, one(j.TP)*one(j.PP)
	if s.KVHeads() > 0 && j.TP > 1 && s.Heads%j.TP != 0 {
		return Served{}, fmt.Errorf("frameworks: %d heads are not divisible by TP %d", s.Heads, j.TP)
	}
	var a tally
	weights := j.Weights.bytes(s) / tp
	a.add(mem.Weights, weights)
	batch := float64(j.BatchTokens)
	if batch == 0 {
		batch = 8192
	}
	batch = min(batch, max(float64(j.Seq), 2048))
	wide, widest := 0.0, 0.0
	for _, l := range s.Layers {
		q, k := widths(s, l)
		wide = max(wide, 2*(4*float64(s.Hidden)+(2*q+2*k+3*active(s, l))/one(j.TP)))
		widest = max(widest, active(s, l))
	}
	seqs := float64(j.Sequences)
	if seqs == 0 {
		seqs = 256
	}
	profile := batch*wide + seqs*float64(s.Vocab)*4*2/one(j.TP) // and the sampler's logits in fp32, sorted
	a.add(mem.Activations, profile)
	graphs := 0.0
	if !j.EagerOnly {
		graphs = 0.5e9 + float64(s.Depth())*6e6
		a.add(mem.Workspace, graphs)
	}
	outside := 0.25e9 // context beyond torch, NCCL
	if tp > 1 {
		outside = 1.0e9
	}
	share := j.Utilization
	if share <= 0 || share > 1 {
		share = 0.9
	}
	token := j.kvBytes()
	room := share*float64(j.Memory) - weights - profile - outside
	block := float64(max(1, j.BlockTokens))
	if j.BlockTokens == 0 {
		block = 16
	}
	blocks := 0.0
	if room > 0 && token > 0 {
		blocks = math.Floor(room / (token * block))
	}
	a.add(mem.KVBlocks, blocks*block*token)
	out := Served{Estimate: a.estimate(), Blocks: int(blocks), Tokens: int(blocks * block)}
	out.Driver = round(outside)
	if need := j.sequenceKV(); need > 0 {
		out.Concurrency = blocks * block * token / need
	}
	return out, nil
}

// kvBytes returns the bytes that a token takes in the caches of one rank.
func (j *Serve) kvBytes() float64 {
	bits := j.KVBits
	if bits == 0 {
		bits = 16
	}
	n := 0.0
	for i, l := range j.Shape.Layers {
		e := float64(j.Shape.KVElems(i))
		switch {
		case l.KVHeads > 0: // heads are shared out, and repeated where ranks are more
			e /= min(one(j.TP), float64(l.KVHeads))
		case j.Shape.MLA() && e > 0: // every rank holds it whole
			e = math.Ceil(e/latentPad) * latentPad
		}
		n += e * bits / 8
	}
	return n / one(j.PP)
}

// sequenceKV returns what one sequence of the job's length needs on a rank, layers with a window no more than that.
func (j *Serve) sequenceKV() float64 {
	per := j.kvBytes()
	all := float64(j.Shape.KVElemsPerToken())
	if all == 0 {
		return 0
	}
	return per / all * j.Shape.KVElemsAt(j.Seq)
}
