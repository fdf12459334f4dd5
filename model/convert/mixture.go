package convert

import (
	"fmt"
	"slices"
	"strings"

	"loadline/model/gguf"
	"loadline/tensor/quant"
)

// mixture is one of llama-quantize's: most matrices of a type, those on which more depends of one with more bits.
type mixture struct {
	name     string
	base     quant.Type
	fileType uint32 // its number as a llama_ftype
}

// mixtures lists them.
func mixtures() []mixture {
	return []mixture{
		{"q3_k_s", quant.Q3_K, 11}, {"q3_k_m", quant.Q3_K, 12}, {"q3_k_l", quant.Q3_K, 13}, {"q4_k_s", quant.Q4_K, 14}, {"q4_k_m", quant.Q4_K, 15},
		{"q5_k_s", quant.Q5_K, 16}, {"q5_k_m", quant.Q5_K, 17},
	}
}

// Mixtures are the names that Options.Type takes beside those of types, to GGUF.
func Mixtures() (names []string) {
	for _, m := range mixtures() {
		names = append(names, m.name)
	}
	return names
}

// mixture is the one that is asked for, if one is.
func (o *Options) mixture() (m mixture, ok bool) {
	all := mixtures()
	i := slices.IndexFunc(all, func(m mixture) bool { return strings.EqualFold(m.name, o.Type) })
	if i < 0 {
		return m, false
	}
	return all[i], true
}

// mixer gives every matrix of a model its type in a mixture, as llama_tensor_get_type_impl of llama-quant.cpp does.
type mixer struct {
	name    string
	base    quant.Type
	layers  int
	experts int
	large   bool // Llama 2 and 3 with 70B parameters, Qwen2 with 72B
	tied    bool // the embedding is also the head
	values  []int
	downs   []int // layers that have the matrix, ascending
}

// newMixer looks at the metadata and the names of a model's tensors.
func newMixer(m mixture, meta gguf.Metadata, tensors []*tensor) *mixer {
	x := &mixer{name: m.name, base: m.base, tied: true}
	arch, _ := meta.Text("general.architecture")
	number := func(key string) int {
		n, _ := meta.Ints(arch + "." + key)
		if len(n) == 0 || n[0] < 0 || n[0] > 1<<20 {
			return 0
		}
		return int(n[0])
	}
	x.layers, x.experts = number("block_count"), number("expert_count")
	heads, kv := number("attention.head_count"), number("attention.head_count_kv")
	x.large = x.layers == 80 && (arch == "qwen2" || arch == "llama" && kv > 0 && heads != kv)
	for _, t := range tensors {
		layer, _ := layerOf(t.name)
		switch {
		case t.name == "output.weight":
			x.tied = false
		case values(t.name):
			x.values = append(x.values, layer)
		case strings.Contains(t.name, "ffn_down") && t.matrix() && !stays(t.name):
			x.downs = append(x.downs, layer)
		}
	}
	slices.Sort(x.values)
	slices.Sort(x.downs)
	return x
}

// layerOf is N of the name blk.N.rest.
func layerOf(name string) (n int, ok bool) {
	_, err := fmt.Sscanf(name, "blk.%d.", &n)
	return n, err == nil
}

// values tells whether a matrix makes values, as others may with it.
func values(name string) bool {
	return strings.Contains(name, "attn_v.weight") || strings.Contains(name, "attn_qkv.weight") || strings.Contains(name, "attn_kv_b.weight")
}

// more tells whether one of so many has more bits: the first eighth, the last, and every third between.
func more(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

// typeOf is the type of a matrix of llama.cpp's mixture whose rows are so long.
func (x *mixer) typeOf(name string, row int64) quant.Type {
	switch {
	case name == "output.weight" || x.tied && name == "token_embd.weight":
		if row%int64(x.base.BlockElems()) != 0 {
			return quant.Q8_0
		}
		return quant.Q6_K
	case values(name):
		return x.value(name)
	case strings.Contains(name, "attn_k.weight") && x.experts == 8:
		return quant.Q8_0
	case strings.Contains(name, "attn_output.weight"):
		return x.output()
	case strings.Contains(name, "ffn_down"):
		return x.down(name)
	}
	return x.base
}

func (x *mixer) value(name string) quant.Type {
	layer, _ := layerOf(name)
	i, t := slices.Index(x.values, layer), x.base
	switch x.name {
	case "q3_k_m":
		t = quant.Q4_K
		if i < 2 {
			t = quant.Q5_K
		}
	case "q3_k_l":
		t = quant.Q5_K
	case "q4_k_s":
		if i < 4 {
			t = quant.Q5_K
		}
	case "q4_k_m", "q5_k_m":
		if more(i, len(x.values)) {
			t = quant.Q6_K
		}
	}
	if x.large && (t == quant.Q3_K || t == quant.Q4_K) {
		t = quant.Q5_K
	}
	if x.experts == 8 {
		t = quant.Q8_0
	}
	return t
}

func (x *mixer) output() quant.Type {
	switch {
	case x.experts == 8:
		if x.name != "q3_k_l" && x.base != quant.Q5_K {
			return quant.Q5_K
		}
	case x.name == "q3_k_m":
		return quant.Q4_K
	case x.name == "q3_k_l":
		return quant.Q5_K
	}
	return x.base
}

func (x *mixer) down(name string) quant.Type {
	i, _ := layerOf(name)
	if x.experts <= 1 {
		i = slices.Index(x.downs, i)
	}
	switch x.name {
	case "q3_k_m":
		if i < x.layers/16 {
			return quant.Q5_K
		}
		return quant.Q4_K
	case "q3_k_l":
		return quant.Q5_K
	case "q4_k_s":
		if i < x.layers/8 {
			return quant.Q5_K
		}
	case "q4_k_m", "q5_k_m":
		if more(i, x.layers) {
			return quant.Q6_K
		}
	}
	return x.base
}
