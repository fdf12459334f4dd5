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
	qk    float64 // of the widths of the query and value projections together, what it adapts
	f     float64 // of the MLP's width
	delta float64 // bytes of an adapted weight that are kept: a method that builds ΔW in fp32 keeps 4
}

// methods are looked up by the first whose name is part of "method/variant". Adapted are q_proj and v_proj, PEFT's
// default for Llama, unless the method has its own.
var methods = []method{
	{name: "target-mlp", h: 8, f: 4},          // fp32 inputs of gate, up and down
	{name: "rank140-mlp", h: 10, f: 4},        // Lily, with as many ranks
	{name: "dora", h: 8, qk: 6},               // the base's result and the update's, scaled apart
	{name: "ia3/all-attn", h: 6, f: 4},        // set below: all four projections are scaled
	{name: "all-attn", h: 6, qk: 6, f: 4},     //
	{name: "ia3", qk: 0, h: 1.4, f: 4},        // key, value and MLP
	{name: "loha", h: 8, delta: 4},            // Hadamard product of two low-rank weights
	{name: "lokr", h: 8, delta: 4},            // Kronecker product
	{name: "hira", h: 8, delta: 4},            // a product with the weight itself
	{name: "fourierft", h: 8, delta: 4},       // inverse Fourier transform of a sparse spectrum
	{name: "frod", h: 8, delta: 4},            //
	{name: "waveft", h: 0, delta: 14},         // inverse wavelet transform, with its steps
	{name: "boft", h: 8, qk: 4, delta: 4},     // butterfly rotations of the weight
	{name: "deft/para", delta: 4},             //
	{name: "rank32-para", delta: 4},           //
	{name: "deft", h: 8, delta: 4},            //
	{name: "glora", delta: 4},                 // adds to the weight
	{name: "shira", delta: 4},                 // a sparse update of the weight
	{name: "-bat", delta: 14},                 // MiSS and Bone in their blockwise form
	{name: "hra", delta: 14},                  // Householder reflections of the weight
	{name: "peanut", delta: 14},               // a network over the weight
	{name: "adamss", h: 1},                    //
	{name: "miss", h: 0},                      // works on blocks of the output
	{name: "bone", h: 0},                      //
	{name: "tinylora", h: 0},                  //
	{name: "beft", h: 0},                      // biases only
	{name: "bitfit", h: 0},                    //
	{name: "ln_tuning", h: 4},                 // each norm keeps its normalised input for its weight
	{name: "lntuning", h: 4},                  //
	{name: "pvera/llama-3.2-3b-rank", h: 5.7}, //
	{name: "pvera", h: 8},                     //
	{name: "vera", h: 6},                      // two shared projections of a few hundred ranks
	{name: "road", qk: 8},                     // rotates outputs in fp32
	{name: "randlora", h: 10},                 // many bases a module
	{name: "rank896", h: 12.3},                // Lily: thousands of ranks, all kept
	{name: "psoft/llama-3.2-3b-fast", h: 2.5},
	{name: "psoft", h: 7.5},
	{name: "adaption", h: 8.5}, // another attention over the adapter's tokens
	{name: "prefix", h: 0},     // virtual tokens, counted apart
	{name: "prompt_tuning", h: 0},
	{name: "ptuning", h: 0},
	{name: "p_tuning", h: 0},
	{name: "trainable_tokens", h: 0},
	{name: "adalora", h: 9},
}

// methodOf returns the adapter's method; LoRA and what resembles it keep the fp32 inputs of two modules.
func methodOf(a Adapter) method {
	name := strings.ToLower(a.Method + "/" + a.Variant)
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
func (m method) kept(s *shape.Shape, l shape.Layer) float64 {
	q, k := widths(s, l)
	return m.h*float64(s.Hidden) + m.qk*(q+k) + m.f*active(s, l)
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

// AdapterTime returns how long a step with the adapter takes beside one with LoRA on query and value. Methods that
// build weights, rotate them or transform them are slow by kind, whatever their size.
func AdapterTime(a Adapter) float64 {
	name := strings.ToLower(a.Method + "/" + a.Variant)
	for _, m := range []struct {
		part string
		n    float64
	}{
		{"boft", 7}, {"adamss", 4.8}, {"osf", 2.8}, {"frod", 2.7}, {"waveft", 2.2}, {"fourierft", 1.8}, {"psoft/llama-3.2-3b-fast", 1.25}, {"psoft", 1.65},
		{"loha", 1.45}, {"randlora", 1.5}, {"-bat", 1.45}, {"peanut", 1.38}, {"hra", 1.4}, {"lokr", 1.35}, {"hira", 1.35}, {"mlp-bdlora", 1.3}, {"lily", 1.3},
		{"dora", 1.25}, {"oft", 1.25}, {"vblora", 1.25}, {"adalora", 1.23}, {"adaption", 1.22}, {"c3a", 1.23}, {"lorafa", 1.2}, {"gralora", 1.15}, {"unilora", 1.12},
		{"pvera/llama-3.2-3b-rank", 1.07}, {"pvera", 1.14}, {"glora/llama-3.2-3b-vec", 1.07}, {"glora", 1.15}, {"deft", 1.1}, {"delora", 1.1}, {"tinylora", 1.08}, {"target-mlp", 1.1},
		{"prefix", 1.05}, {"prompt", 1.2}, {"ia3/llama-3.2-3b-all", 1.1}, {"vera", 1.06}, {"miss/llama-3.2-3b-mini", 1}, {"miss", 0.95}, {"bone", 0.95}, {"beft", 0.92}, {"bitfit", 0.92},
		{"ln_tuning", 0.97}, {"ptuning", 0.97},
	} {
		if strings.Contains(name, m.part) {
			return m.n
		}
	}
	return 1.02
}
