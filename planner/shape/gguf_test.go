package shape

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"testing"

	"loadline/tensor/quant"
)

// ggufWriter builds a header, as gguf-py's GGUFWriter lays it out.
type ggufWriter struct {
	keys, tensors  bytes.Buffer
	nKeys, nTensor uint64
	end            uint64 // of the tensors
}

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			put(b, uint64(len(s)))
			b.WriteString(s)
			continue
		}
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
}

func (w *ggufWriter) num(key string, n int) {
	put(&w.keys, key, uint32(4), uint32(n))
	w.nKeys++
}

func (w *ggufWriter) nums(key string, list []int) {
	put(&w.keys, key, uint32(9), uint32(5), uint64(len(list)))
	for _, n := range list {
		put(&w.keys, int32(n))
	}
	w.nKeys++
}

func (w *ggufWriter) flags(key string, list []bool) {
	put(&w.keys, key, uint32(9), uint32(7), uint64(len(list)), list)
	w.nKeys++
}

func (w *ggufWriter) text(key, s string) {
	put(&w.keys, key, uint32(8), s)
	w.nKeys++
}

func (w *ggufWriter) texts(key string, n int) {
	put(&w.keys, key, uint32(9), uint32(8), uint64(n))
	var one bytes.Buffer
	put(&one, "token")
	w.keys.Write(bytes.Repeat(one.Bytes(), n))
	w.nKeys++
}

// tensor lists a tensor; one of a type in blocks whose rows are no whole blocks becomes F16, as in llama.cpp.
func (w *ggufWriter) tensor(name string, kind quant.Type, dims ...uint64) {
	if dims[0]%uint64(kind.BlockElems()) != 0 {
		kind = quant.F16
	}
	n := int64(1)
	for _, d := range dims {
		n *= int64(d)
	}
	bytes, _ := kind.Bytes(n)
	put(&w.tensors, name, uint32(len(dims)), dims, kind, w.end)
	w.nTensor++
	w.end += (uint64(bytes) + 31) &^ 31
}

func (w *ggufWriter) bytes() []byte {
	var b bytes.Buffer
	put(&b, uint32(0x46554747), uint32(3), w.nTensor, w.nKeys)
	b.Write(w.keys.Bytes())
	b.Write(w.tensors.Bytes())
	return b.Bytes()
}

// convert writes the keys that convert_hf_to_gguf.py writes for a config.json.
func convert(t *testing.T, body []byte) []byte {
	t.Helper()
	var c config
	if err := json.Unmarshal(body, &c); err != nil {
		t.Fatal(err)
	}
	if inner, ok := c["text_config"].(map[string]any); ok {
		c = inner
	}
	kind := c.text("model_type")
	arch := kind
	for gguf, hf := range ggufArchs {
		if hf == kind && gguf != "granitemoe" {
			arch = gguf
		}
	}
	if kind == "mistral" || kind == "mixtral" {
		arch = "llama"
	}
	if kind == "deepseek_v2" || kind == "kimi_k2" {
		arch = "deepseek2"
	}
	w := &ggufWriter{}
	w.text("general.architecture", arch)
	w.texts("tokenizer.ggml.tokens", c.int("padded_vocab_size", "vocab_size"))
	set := func(key string, names ...string) {
		if list := c.ints(names...); len(list) > 1 {
			w.nums(arch+"."+key, list)
		} else if len(list) == 1 {
			w.num(arch+"."+key, list[0])
		}
	}
	set("block_count", "num_hidden_layers", "n_layer", "n_layers", "num_layers")
	set("embedding_length", "hidden_size", "n_embd", "d_model")
	set("attention.head_count", "num_attention_heads", "n_head", "n_heads")
	set("context_length", "max_position_embeddings", "n_positions")
	set("attention.sliding_window", "sliding_window")
	set("expert_count", "n_routed_experts", "num_local_experts", "num_experts")
	set("expert_used_count", "num_experts_per_tok", "moe_topk")
	set("expert_feed_forward_length", "moe_intermediate_size")
	set("expert_shared_feed_forward_length", "shared_expert_intermediate_size")
	set("expert_shared_count", "n_shared_experts")
	set("leading_dense_block_count", "first_k_dense_replace")
	set("interleave_moe_layer_step", "interleave_moe_layer_step")
	s, err := c.shape("test")
	if err != nil {
		t.Fatal(err)
	}
	var ffn, kv []int
	for _, l := range s.Layers {
		ffn, kv = append(ffn, l.FFN), append(kv, l.KVHeads)
	}
	switch {
	case kind == "llama4_text":
		set("feed_forward_length", "intermediate_size_mlp")
		w.num(arch+".expert_feed_forward_length", s.ExpertFFN)
	case kind == "deepseek_v2", kind == "deepseek_v3", kind == "kimi_k2", c.int("num_experts") > 0, kind == "qwen", s.MoE():
		set("feed_forward_length", "intermediate_size", "ffn_hidden_size")
	default:
		w.nums(arch+".feed_forward_length", ffn)
	}
	switch {
	case s.MLA():
		w.num(arch+".attention.head_count_kv", 1)
		w.num(arch+".attention.kv_lora_rank", s.KVRank)
		if s.QRank > 0 {
			w.num(arch+".attention.q_lora_rank", s.QRank)
		}
		w.num(arch+".attention.key_length", s.KVRank+s.RopeDim)
		w.num(arch+".attention.value_length", s.KVRank)
		w.num(arch+".attention.key_length_mla", s.HeadDim)
		w.num(arch+".attention.value_length_mla", s.VDim)
		w.num(arch+".rope.dimension_count", s.RopeDim)
	default:
		if kind == "qwen3_next" {
			w.num(arch+".attention.head_count_kv", s.KVHeads())
			w.num(arch+".ssm.conv_kernel", c.int("linear_conv_kernel_dim"))
			w.num(arch+".ssm.state_size", c.int("linear_key_head_dim"))
			w.num(arch+".ssm.group_count", c.int("linear_num_key_heads"))
			w.num(arch+".ssm.time_step_rank", c.int("linear_num_value_heads"))
			w.num(arch+".ssm.inner_size", c.int("linear_num_value_heads")*c.int("linear_value_head_dim"))
		} else {
			w.nums(arch+".attention.head_count_kv", kv)
		}
		w.num(arch+".attention.key_length", s.HeadDim)
		w.num(arch+".rope.dimension_count", s.HeadDim)
	}
	if kind == "gpt_oss" || kind == "gemma2" || kind == "gemma3_text" || kind == "gemma3" {
		var list []bool
		for _, l := range s.Layers {
			list = append(list, l.Window > 0)
		}
		if kind == "gpt_oss" { // some converters write it out
			w.flags(arch+".attention.sliding_window_pattern", list)
		}
	}
	w.tensor("token_embd.weight", 12, uint64(s.Hidden), uint64(s.Vocab))
	if !s.Tied {
		w.tensor("output.weight", 14, uint64(s.Hidden), uint64(s.Vocab))
	}
	w.tensor("blk.0.attn_output.weight", 12, 256, 256)
	if s.QKVBias {
		w.tensor("blk.0.attn_q.bias", 0, uint64(s.QWidth()))
	}
	if s.OutBias {
		w.tensor("blk.0.attn_output.bias", 0, uint64(s.Hidden))
	}
	if s.MLPBias {
		w.tensor("blk.0.ffn_up.bias", 0, 64)
	}
	return w.bytes()
}

// TestGGUF checks that a header says the same of caches and parameters as the model's config.json, for every card
// whose architecture llama.cpp has: all layouts of keys and values are among them.
func TestGGUF(t *testing.T) {
	var list []card
	if err := json.Unmarshal(cardsJSON, &list); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range list {
		want, err := Parse(c.Names[0], c.Config)
		if err != nil {
			t.Fatal(err)
		}
		switch want.Arch {
		case "glm4_moe", "hunyuan_v1_moe", "chatglm":
			continue // their converters rename more than widths
		}
		g, err := ReadGGUF(c.Names[0], bytes.NewReader(convert(t, c.Config)))
		if err != nil {
			t.Errorf("%s: %v", c.Names[0], err)
			continue
		}
		checked++
		s := g.Shape
		if s.KVElemsPerToken() != want.KVElemsPerToken() || s.StateBytes() != want.StateBytes() {
			t.Errorf("%s: got %d cached elements a token and %g bytes of state, want %d and %g", c.Names[0], s.KVElemsPerToken(), s.StateBytes(), want.KVElemsPerToken(), want.StateBytes())
		}
		windows := want.Arch != "mistral" && want.Arch != "mixtral" // llama.cpp keeps all of theirs
		if windows && s.KVElemsAt(100000) != want.KVElemsAt(100000) {
			t.Errorf("%s: got %g elements at 100000 tokens, want %g", c.Names[0], s.KVElemsAt(100000), want.KVElemsAt(100000))
		}
		if e := float64(s.Params())/float64(want.Params()) - 1; math.Abs(e) > 0.005 {
			t.Errorf("%s: got %d parameters, want %d", c.Names[0], s.Params(), want.Params())
		}
	}
	t.Logf("%d models", checked)
	if checked < 60 {
		t.Errorf("got %d models, want at least 60", checked)
	}
}

// TestGGUFBits checks bytes and bits from the list of tensors.
func TestGGUFBits(t *testing.T) {
	w := &ggufWriter{}
	w.text("general.architecture", "llama")
	for key, n := range map[string]int{"block_count": 1, "embedding_length": 256, "feed_forward_length": 512, "attention.head_count": 4, "vocab_size": 1024} {
		w.num("llama."+key, n)
	}
	w.num("split.count", 3)
	w.tensor("token_embd.weight", 1, 256, 1024)
	w.tensor("blk.0.attn_q.weight", 12, 256, 256) // Q4_K
	w.tensor("blk.0.ffn_down.weight", 14, 512, 256)
	g, err := ReadGGUF("small", bytes.NewReader(w.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	linear := int64(256*256/256*144 + 512*256/256*210)
	if g.Bytes != 256*1024*2+linear || g.Elems != 256*1024+256*256+512*256 || g.OtherBits != 16 || g.LinearBits != 8*float64(linear)/(3*65536) || g.Parts != 3 || !g.Shape.Tied {
		t.Errorf("got %+v", g)
	}
}

// FuzzGGUF checks that no header brings the reader down or makes it allocate without bound.
func FuzzGGUF(f *testing.F) {
	w := &ggufWriter{}
	w.text("general.architecture", "llama")
	w.num("llama.block_count", 2)
	w.num("llama.embedding_length", 64)
	w.num("llama.attention.head_count", 4)
	w.texts("tokenizer.ggml.tokens", 3)
	w.nums("llama.attention.head_count_kv", []int{1, 2})
	w.tensor("token_embd.weight", 1, 64, 3)
	f.Add(w.bytes())
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Add(append([]byte("GGUF\x03\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 64)...))
	f.Fuzz(func(t *testing.T, body []byte) {
		g, err := ReadGGUF("fuzz", bytes.NewReader(body))
		if err != nil {
			return
		}
		if g.Shape.Depth() < 1 || g.Shape.Params() < 0 || g.Bytes < 0 || g.Elems < 0 {
			t.Errorf("got %+v", g)
		}
	})
}
