package frameworks

import (
	"strings"

	"loadline/planner/shape"
)

// method is what an adapter keeps beside the frozen model's activations, from the forward methods of
// peft/tuners/*/layer.py. The coefficients are bytes a token and layer.
type method struct {
	name  string
	h     float64 // of the hidden size: a module's input cast to fp32 is 4
	qk    float64 // of the widths of the query and value projections together, what is adapted
	f     float64 // of the MLP's width
	rank  float64 // of the rank, where it is in the hundreds
	delta float64 // bytes of an adapted weight that are kept: a method that builds ΔW in fp32 keeps 4
	slow  float64 // time of a step beside LoRA's; 0 for the same
}

// methods are looked up by the first whose name is part of "method/variant". Adapted are q_proj and v_proj, PEFT's
// default for Llama, unless the method has its own. Those without h, f or qk change the output, a bias or a few
// numbers, and keep nothing. The times are of the kind of operation: rotations, transforms, products with a weight.
var methods = []method{
	{name: "lily-mlp", h: 8, f: 4, rank: 16, slow: 1.3},
	{name: "lily", h: 8, rank: 16, slow: 1.3},        // hundreds of ranks, shared between layers
	{name: "target-mlp", h: 8, f: 4, slow: 1.1},      // fp32 inputs of gate, up and down
	{name: "dora", h: 8, qk: 6, slow: 1.25},          // the base's result and the update's, scaled apart
	{name: "all-attn", h: 6, qk: 6, f: 4, slow: 1.1}, // IA3 on four projections
	{name: "ia3", h: 1.4, f: 4},                      // key, value and MLP
	{name: "loha", h: 8, delta: 4, slow: 1.45},       // Hadamard product of two low-rank weights
	{name: "lokr", h: 8, delta: 4, slow: 1.35},       // Kronecker product
	{name: "shira", delta: 4},                        // a sparse update of the weight
	{name: "hira", h: 8, delta: 4, slow: 1.35},       // a product with the weight itself
	{name: "fourierft", h: 8, delta: 4, slow: 1.8},   // inverse Fourier transform of a sparse spectrum
	{name: "frod", h: 8, delta: 4, slow: 2.7},        //
	{name: "waveft", delta: 14, slow: 2.2},           // inverse wavelet transform, with its steps
	{name: "boft", h: 8, qk: 4, delta: 4, slow: 7},   // butterfly rotations of the weight
	{name: "-para", delta: 4, slow: 1.1},             // DEFT beside the weight
	{name: "deft", h: 8, delta: 4, slow: 1.1},        //
	{name: "glora", delta: 4, slow: 1.1},             // adds to the weight
	{name: "-bat", delta: 14, slow: 1.45},            // MiSS and Bone in their blockwise form
	{name: "hra", delta: 14, slow: 1.4},              // Householder reflections of the weight
	{name: "peanut", delta: 14, slow: 1.38},          // a network over the weight
	{name: "adamss", h: 1, slow: 4.8},                //
	{name: "miss", slow: 0.97},                       // works on blocks of the output
	{name: "bone", slow: 0.97},                       //
	{name: "tinylora", slow: 1.08},                   //
	{name: "beft", slow: 0.92},                       // biases only
	{name: "bitfit", slow: 0.92},                     //
	{name: "ln_tuning", h: 4, slow: 0.97},            // each norm keeps its normalised input for its weight
	{name: "lntuning", h: 4, slow: 0.97},             //
	{name: "pvera", h: 7.3, slow: 1.1},               //
	{name: "vera", h: 6, slow: 1.06},                 // two shared projections of a few hundred ranks
	{name: "road", qk: 8},                            // rotates outputs in fp32
	{name: "randlora", h: 10, slow: 1.5},             // many bases a module
	{name: "-fast", h: 2.5, slow: 1.25},              // PSOFT without its orthogonality
	{name: "psoft", h: 7.5, slow: 1.65},              // rotations in a subspace of singular vectors
	{name: "oft", h: 8, slow: 1.25},                  // rotations of the input
	{name: "osf", slow: 2.8},                         // every weight as the product of its singular vectors
	{name: "adaption", h: 8.5, slow: 1.22},           // another attention over the adapter's tokens
	{name: "prefix", slow: 1.05},                     // virtual tokens are counted apart
	{name: "prompt_tuning", slow: 1.2},
	{name: "ptuning", slow: 0.97},
	{name: "p_tuning", slow: 0.97},
	{name: "trainable_tokens"},
	{name: "adalora", h: 9, slow: 1.23},
	{name: "vblora", h: 8, slow: 1.25},
	{name: "c3a", h: 8, slow: 1.23},
	{name: "lorafa", h: 8, slow: 1.2},
	{name: "gralora", h: 8, slow: 1.15},
	{name: "unilora", h: 8, slow: 1.12},
	{name: "delora", h: 8, slow: 1.1},
}

// methodOf returns the adapter's method; LoRA and what resembles it keep the fp32 inputs of two modules.
func methodOf(a Adapter) method {
	name := strings.ToLower(a.Method + "/" + a.Variant)
	if strings.HasPrefix(name, "lily") && strings.Contains(name, "mlp") {
		name = "lily-mlp"
	}
	for _, m := range methods {
		if strings.Contains(name, m.name) {
			return m
		}
	}
	m := method{name: "lora", h: 8}
	switch a.Targets {
	case "mlp":
		m.f = 4
	case "all":
		m.h, m.f = 20, 4
	}
	return m
}

// kept returns bytes a token that the method keeps in layer l.
func (m method) kept(s *shape.Shape, l shape.Layer, a Adapter) float64 {
	q, k := widths(s, l)
	return m.h*float64(s.Hidden) + m.qk*(q+k) + m.f*active(s, l) + m.rank*float64(a.Rank)
}

// weights returns the bytes of built weights that are kept over all layers.
func (m method) weights(s *shape.Shape) float64 {
	return m.delta * sumLayers(s, func(l shape.Layer) float64 {
		q, k := widths(s, l)
		return float64(s.Hidden) * (q + k)
	})
}

// fusedQKV are architectures whose query, key and value are one matrix.
var fusedQKV = map[string]bool{"qwen": true, "falcon": true, "gpt_neox": true, "bloom": true, "mpt": true, "gpt2": true, "phi3": true, "chatglm": true}

// loraParams returns the parameters of rank-r adapters on every projection of attention and MLP, or on query and
// value only.
func loraParams(s *shape.Shape, r float64, targets string) float64 {
	h := float64(s.Hidden)
	return sumLayers(s, func(l shape.Layer) float64 {
		q, k := widths(s, l)
		f, mats := float64(l.FFN), 2.0
		if s.Gated {
			mats = 3
		}
		switch targets {
		case "all":
			if fusedQKV[s.Arch] { // one adapter for query, key and value together
				return r * ((h + q + 2*k) + (q + h) + mats*(h+f))
			}
			return r * ((h + q) + 2*(h+k) + (q + h) + mats*(h+f))
		case "mlp":
			return r * mats * (h + f)
		}
		return r * ((h + q) + (h + k))
	})
}

// AdapterTime returns how long a step with the adapter takes beside one with LoRA on query and value.
func AdapterTime(a Adapter) float64 {
	if m := methodOf(a); m.slow > 0 {
		return m.slow
	}
	return 1.02
}
