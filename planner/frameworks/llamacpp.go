package frameworks

import (
	"fmt"
	"math"
	"strings"

	"loadline/planner/shape"
)

// CacheType is a llama.cpp tensor type of the key-value cache: bytes of a block and its elements (ggml-common.h).
type CacheType struct {
	Bytes, Elems float64
}

// CacheTypeByName returns f16 for an empty name.
func CacheTypeByName(name string) (CacheType, error) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "", "f16", "bf16":
		return CacheType{2, 1}, nil
	case "f32":
		return CacheType{4, 1}, nil
	case "q8_0":
		return CacheType{34, 32}, nil
	case "q8_kv":
		return CacheType{1 + 8.0/128, 1}, nil
	case "q6_0":
		return CacheType{26, 32}, nil
	case "q5_1":
		return CacheType{24, 32}, nil
	case "q5_0":
		return CacheType{22, 32}, nil
	case "q4_1":
		return CacheType{20, 32}, nil
	case "q4_0", "iq4_nl":
		return CacheType{18, 32}, nil
	}
	return CacheType{}, fmt.Errorf("frameworks: cache type %q is not known, want f16, q8_0, q5_1, q5_0, q4_1 or q4_0", name)
}

// LlamaCpp is a llama.cpp run.
type LlamaCpp struct {
	Shape     *shape.Shape
	Context   int
	MicroB    int // n_ubatch
	Flash     bool
	MLA       int       // ik_llama.cpp's -mla; 0 keeps full keys and values
	K, V      CacheType //
	Windowed  bool      // the cache of layers with a window is as long as it (mainline since 2025-05)
	Devices   int       // with layers; 0 for the CPU alone
	Offload   bool      // experts stay on the CPU
	HostBits  float64   // bits of a weight that stays
	Sequences int
}

// KV returns the bytes of the key-value cache (llama-kv-cache.cpp, and ik_llama.cpp's llama_kv_cache_init).
func (c LlamaCpp) KV() float64 {
	s := c.Shape
	n, ctx := 0.0, float64(c.Context)
	for _, l := range s.Layers {
		seen := ctx
		if c.Windowed && l.Window > 0 {
			seen = min(seen, math.Ceil(float64(l.Window*max(1, c.Sequences)+c.MicroB)/256)*256)
		}
		switch l.Mixer {
		case shape.Attention:
			k := float64(l.KVHeads * l.HeadDim)
			n += seen * k * (c.K.Bytes/c.K.Elems + c.V.Bytes/c.V.Elems)
		case shape.Latent:
			if c.MLA == 0 {
				n += seen * float64(s.Heads) * (float64(s.NopeDim+s.RopeDim)*c.K.Bytes/c.K.Elems + float64(s.VDim)*c.V.Bytes/c.V.Elems)
				continue
			}
			n += seen * float64(s.KVRank+s.RopeDim) * c.K.Bytes / c.K.Elems
			if c.MLA == 1 && !c.Flash { // and a transposed copy for the values
				n += seen * float64(s.KVRank) * c.V.Bytes / c.V.Elems
			}
		}
	}
	return n + s.StateBytes()*float64(max(1, c.Sequences))
}

// Compute returns the largest compute buffer: the graph allocator's peak over a micro-batch (ggml-alloc.c). With the
// output on the device it is the logits in fp32 and a few activations; without flash attention scores of the whole
// context compete with them; with experts on the CPU a long batch stages one tensor of them.
func (c LlamaCpp) Compute() float64 {
	s := c.Shape
	h, v, ub, ctx := float64(s.Hidden), float64(s.Vocab), float64(c.MicroB), float64(c.Context)
	out := 4*v*ub + 8*h*ub
	if c.Flash && c.Devices == 1 {
		out += 2 * ctx * ub // the mask in fp16
	}
	if !c.Flash {
		out = max(out, 4*float64(s.Heads)*ctx*ub+4*ctx*ub+16*h*ub)
	}
	if c.Offload && s.MoE() && c.Devices > 0 {
		experts := 0.0
		for _, l := range s.Layers {
			experts = max(experts, float64(l.Experts))
		}
		bits := c.HostBits
		if bits == 0 {
			bits = 8.5
		}
		out = max(out, experts*h*float64(s.ExpertFFN)*bits/8+72*h*ub)
	}
	return out
}
