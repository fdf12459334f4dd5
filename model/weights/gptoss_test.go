package weights

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/model"
	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

const gptOss = familiesDir + "gpt_oss"

// A GGUF file of gpt-oss, as convert_hf_to_gguf.py makes it, has the weights and the configuration of the directory.
func TestGPTOssInGGUF(t *testing.T) {
	want := open(t, gptOss)
	c := want.Config
	all := read(t, gptOss)
	tensors := map[string]matrix{"token_embd.weight": all["model.embed_tokens.weight"], "output_norm.weight": all["model.norm.weight"], "output.weight": all["lm_head.weight"]}
	e, d, f := c.NumLocalExperts, c.HiddenSize, c.IntermediateSize
	for i := range c.NumLayers {
		from, to := fmt.Sprintf("model.layers.%d.", i), fmt.Sprintf("blk.%d.", i)
		for a, b := range map[string]string{
			"attn_norm.weight": "input_layernorm.weight", "post_attention_norm.weight": "post_attention_layernorm.weight", "attn_sinks.weight": "self_attn.sinks",
			"ffn_gate_inp.weight": "mlp.router.weight", "ffn_gate_inp.bias": "mlp.router.bias", "ffn_down_exps.bias": "mlp.experts.down_proj_bias",
		} {
			tensors[to+a] = all[from+b]
		}
		for a, b := range map[string]string{"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj"} {
			tensors[to+a+".weight"], tensors[to+a+".bias"] = all[from+"self_attn."+b+".weight"], all[from+"self_attn."+b+".bias"]
		}
		gateUp, bias, down := all[from+"mlp.experts.gate_up_proj"], all[from+"mlp.experts.gate_up_proj_bias"], all[from+"mlp.experts.down_proj"]
		for turn, name := range []string{"ffn_gate_exps", "ffn_up_exps"} {
			w, b := matrix{shape: []int64{int64(e), int64(f), int64(d)}}, matrix{shape: []int64{int64(e), int64(f)}}
			for x := range e {
				for row := range f {
					b.x = append(b.x, bias.x[x*2*f+2*row+turn])
					for col := range d {
						w.x = append(w.x, gateUp.x[(x*d+col)*2*f+2*row+turn])
					}
				}
			}
			tensors[to+name+".weight"], tensors[to+name+".bias"] = w, b
		}
		w := matrix{shape: []int64{int64(e), int64(d), int64(f)}}
		for x := range e {
			w.x = append(w.x, matrix{[]int64{int64(f), int64(d)}, down.x[x*f*d : (x+1)*f*d]}.transposed().x...)
		}
		tensors[to+"ffn_down_exps.weight"] = w
	}
	var names []string
	for name := range tensors {
		names = append(names, name)
	}
	slices.Sort(names)
	m := gguf.Metadata{{Key: "general.architecture", Value: "gpt-oss"}}
	for key, v := range map[string]any{
		"block_count": uint32(c.NumLayers), "context_length": uint32(c.MaxPositionEmbeddings), "embedding_length": uint32(d), "feed_forward_length": uint32(f),
		"expert_feed_forward_length": uint32(f), "attention.head_count": uint32(c.NumHeads), "attention.head_count_kv": uint32(c.NumKVHeads),
		"attention.key_length": uint32(c.HeadDim), "attention.value_length": uint32(c.HeadDim), "attention.layer_norm_rms_epsilon": float32(c.RMSNormEps),
		"attention.sliding_window": uint32(c.SlidingWindow), "expert_count": uint32(e), "expert_used_count": uint32(c.NumExpertsPerTok),
		"rope.freq_base": float32(c.RopeTheta), "rope.scaling.type": "yarn", "rope.scaling.factor": float32(c.RopeScaling.Factor),
		"rope.scaling.original_context_length": uint32(c.RopeScaling.Original), "rope.scaling.yarn_beta_fast": float32(c.RopeScaling.BetaFast), "rope.scaling.yarn_beta_slow": float32(c.RopeScaling.BetaSlow),
	} {
		m.Set("gpt-oss."+key, v)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	writeGGUF(t, path, m, quant.F32, names, tensors, 0)
	got := open(t, path)
	for _, p := range c.Parameters() {
		if string(f32(t, got, p)) != string(f32(t, want, p)) {
			t.Errorf("%q differs", p.Name)
		}
	}
	read := got.Config
	read.SwiGLULimit, read.EOSTokenIDs = c.SwiGLULimit, c.EOSTokenIDs // which llama.cpp has in its code, and the vocabulary
	if a, b := fmt.Sprintf("%+v", read), fmt.Sprintf("%+v", c); a != b {
		t.Errorf("got %s, want %s", a, b)
	}
}

// Experts in mxfp4 are handed out as GGUF's blocks of the same numbers; the numbers are those of transformers' table and scales.
func TestGPTOssMicroscaled(t *testing.T) {
	const experts, d, f = 3, 64, 96
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	config := map[string]any{
		"model_type": "gpt_oss", "hidden_size": d, "intermediate_size": f, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
		"vocab_size": 16, "num_local_experts": experts, "num_experts_per_tok": 2, "quantization_config": map[string]any{"quant_method": "mxfp4"},
	}
	body, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, configName), body)
	c, err := model.DecodeConfig(body)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{}
	var infos []safetensors.Info
	add := func(name string, typ safetensors.DType, p []byte, shape ...int64) {
		if data[name] == nil {
			infos, data[name] = append(infos, safetensors.Info{Name: name, DType: typ, Shape: shape}), p
		}
	}
	noise := func(n int) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rng.UintN(256))
		}
		return p
	}
	for _, p := range c.Parameters() {
		for _, x := range p.Pieces {
			n, shape := 1, []int64{}
			for _, s := range x.Shape {
				n, shape = n*s, append(shape, int64(s))
			}
			if !strings.Contains(x.Name, "experts") || strings.HasSuffix(x.Name, "_bias") {
				add(x.Name, safetensors.BF16, halves(rng, n), shape...)
				continue
			}
			k, width := shape[1], shape[2]
			scales := noise(int(experts * width * k / 32))
			for i := range scales {
				scales[i] = 120 + scales[i]%12
			}
			add(x.Name+"_blocks", safetensors.U8, noise(n/2), experts, width, k/32, 16)
			add(x.Name+"_scales", safetensors.U8, scales, experts, width, k/32)
		}
	}
	safetensors.Sort(infos)
	w, err := safetensors.Create(filepath.Join(dir, safetensors.ModelName), infos, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range w.Tensors() {
		if err := w.Write(i.Name, data[i.Name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	table := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6}
	m := open(t, dir)
	checked := 0
	for _, p := range c.Parameters() {
		if !strings.Contains(p.Name, "experts") || strings.HasSuffix(p.Name, "_bias") {
			continue
		}
		if m.Types[p.Name] != dtype.MXFP4 {
			t.Errorf("%s: got type %v, want mxfp4", p.Name, m.Types[p.Name])
		}
		blocks := make([]byte, p.Elems()/32*17)
		for at := 0; at < len(blocks); at += 17 * 5 {
			if err := m.Source(p.Name, blocks[at:min(at+17*5, len(blocks))]); err != nil {
				t.Fatal(err)
			}
		}
		wide := f32(t, m, p)
		decoded := make([]float32, p.Elems())
		quant.Decode(decoded, quant.MXFP4, blocks)
		for _, x := range p.Pieces {
			k, width := x.Shape[1], x.Shape[2]
			codes, scales := data[x.Name+"_blocks"], data[x.Name+"_scales"]
			for r := range x.Rows {
				row := x.Row/k*width + x.Col + r*max(1, x.Step)
				for j := range k {
					q := codes[row*k/2+j/2] >> (j % 2 * 4) & 15
					want := table[q&7] * float32(math.Exp2(float64(scales[row*k/32+j/32])-127))
					if q >= 8 {
						want = -want
					}
					at := x.First + r*k + j
					if got := math.Float32frombits(binary.LittleEndian.Uint32(wide[4*at:])); got != want || decoded[at] != want {
						t.Fatalf("%s row %d element %d: got %v and in blocks %v, want %v", p.Name, r, j, got, decoded[at], want)
					}
					checked++
				}
			}
		}
	}
	if checked != 3*experts*d*f {
		t.Errorf("compared %d numbers, want %d", checked, 3*experts*d*f)
	}
}
