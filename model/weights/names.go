package weights

import (
	"fmt"
	"strings"

	"loadline/model"
	"loadline/model/gguf"
)

// InGGUF is where a published tensor is in a GGUF file.
type InGGUF struct {
	Name    string
	Expert  int     // of a tensor that holds all experts, one after the other; else −1
	Turn    int     // width of the heads whose rows are turned, see Turn; 0 if they are not
	Plus    float32 // what is added to every element
	Flipped bool    // rows are the published tensor's columns
	Stacked bool    // gpt-oss' experts: (E, outputs, inputs) and a tensor a projection, published (E, inputs, outputs) and two in turns
}

// ggufParts are the names of the parts of a layer, published and in GGUF, without ".weight" and ".bias".
func ggufParts() map[string]string {
	return map[string]string{
		"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
		"self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.sinks": "attn_sinks",
		"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
		"pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
		"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate_up_proj": "ffn_up",
		"block_sparse_moe.gate": "ffn_gate_inp", "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
		"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
	}
}

// ggufOuter are the names outside layers.
func ggufOuter() map[string]string {
	return map[string]string{
		"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
		"transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
	}
}

// ggufExperts are the names of an expert's projections.
func ggufExperts() map[string]string {
	return map[string]string{
		"w1": "ffn_gate_exps", "w3": "ffn_up_exps", "w2": "ffn_down_exps",
		"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps",
	}
}

// ggufStacked are the names of what all experts of gpt-oss have in one tensor, gate and up in turns.
func ggufStacked() map[string]string {
	return map[string]string{
		"mlp.experts.gate_up_proj": "ffn_gate_exps", "mlp.experts.gate_up_proj_bias": "ffn_gate_exps",
		"mlp.experts.down_proj": "ffn_down_exps", "mlp.experts.down_proj_bias": "ffn_down_exps",
	}
}

// PlaceInGGUF finds where the GGUF file of a model has a piece of a published tensor, as llama.cpp's converter puts it there.
func PlaceInGGUF(c model.Config, p model.Piece) (InGGUF, error) {
	at := InGGUF{Expert: -1}
	published := p.Name
	base, kind := published, ""
	for _, s := range []string{".weight", ".bias"} {
		if short, ok := strings.CutSuffix(published, s); ok {
			base, kind = short, s
		}
	}
	if outer := ggufOuter()[base]; outer != "" {
		at.Name = outer + kind
	} else if layer, part, ok := layerPart(base); ok {
		at.Name = at.part(c, p, part)
		if at.Name != "" {
			if kind == "" {
				kind = ".weight"
				if strings.HasSuffix(part, "_bias") {
					kind = ".bias"
				}
			}
			at.Name = fmt.Sprintf("blk.%d.%s%s", layer, at.Name, kind)
		}
	}
	if at.Name == "" {
		return at, fmt.Errorf("tensor %q has no place in a GGUF file", published)
	}
	if strings.HasPrefix(c.ModelType, "gemma") && strings.HasSuffix(published, "norm.weight") {
		at.Plus = 1
	}
	return at, nil
}

// layerPart takes a name apart.
func layerPart(base string) (layer int, part string, ok bool) {
	for _, prefix := range []string{"model.layers.", "transformer.h."} {
		if rest, is := strings.CutPrefix(base, prefix); is {
			number, part, ok := strings.Cut(rest, ".")
			layer, is := index(number)
			return layer, part, ok && is
		}
	}
	return 0, "", false
}

// index reads a number of a few digits.
func index(s string) (n int, ok bool) {
	for _, d := range s {
		if d < '0' || d > '9' || n > 1<<20 {
			return 0, false
		}
		n = 10*n + int(d-'0')
	}
	return n, s != ""
}

// part is the name of a part of a layer, or "".
func (at *InGGUF) part(c model.Config, p model.Piece, part string) string {
	if name := ggufStacked()[part]; name != "" {
		at.Stacked = true
		if p.Step == 2 && p.Col == 1 {
			name = strings.Replace(name, "gate", "up", 1)
		}
		return name
	}
	if _, rest, ok := strings.Cut(part, ".experts."); ok {
		number, name, _ := strings.Cut(rest, ".")
		n, ok := index(number)
		if !ok {
			return ""
		}
		at.Expert = n
		return ggufExperts()[name]
	}
	name := ggufParts()[part]
	switch part {
	case "self_attn.q_proj", "self_attn.k_proj":
		if turned(c) {
			at.Turn = c.HeadDim
		}
	case "post_attention_layernorm":
		if strings.HasPrefix(c.ModelType, "gemma") && c.ModelType != "gemma" || c.ModelType == "gpt_oss" {
			name = "post_attention_norm"
		}
	case "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj":
		at.Flipped = true
	}
	return name
}

// turned tells whether llama.cpp's converter turns the rows of query and key projections: for the architectures that it computes with
// its first kind of rotary positions.
func turned(c model.Config) bool {
	switch c.ModelType {
	case "llama", "mistral", "mixtral", "smollm3":
		return true
	}
	return false
}

// ggufFile is a GGUF file, or several of one model.
type ggufFile struct {
	f       *gguf.File
	config  model.Config
	tensors map[string]*tensor
}

func (g *ggufFile) paths() []string { return g.f.Paths() }

func (g *ggufFile) Close() error { return g.f.Close() }

// place implements store.
func (g *ggufFile) place(c model.Piece) (placed, error) {
	at, err := PlaceInGGUF(g.config, c)
	if err != nil {
		return placed{}, err
	}
	info, ok := g.f.Tensor(at.Name)
	if !ok && at.Expert >= 0 { // files of before 2024 have a tensor an expert
		name := strings.Replace(at.Name, "_exps.", fmt.Sprintf(".%d.", at.Expert), 1)
		if info, ok = g.f.Tensor(name); ok {
			at.Expert = -1
		}
	}
	if !ok {
		return placed{}, fmt.Errorf("tensor %q is missing (%s)", at.Name, c.Name)
	}
	want := c.Shape
	if at.Flipped && len(want) == 2 {
		want = []int{want[1], want[0]}
		c.Row, c.Col, c.Width, c.Transposed = c.Col, c.Row, want[1], !c.Transposed
	}
	have := info.Shape
	if at.Stacked {
		want = stacked(&c)
	}
	if at.Expert >= 0 {
		if len(have) != 3 || int64(at.Expert) >= have[0] {
			return placed{}, fmt.Errorf("tensor %q: want %v of expert %d, file has %v", at.Name, want, at.Expert, have)
		}
		have = have[1:]
		c.Row += at.Expert * want[0]
	}
	if !sameShape(have, want) {
		return placed{}, fmt.Errorf("tensor %q: want %v, file has %v", at.Name, want, info.Shape)
	}
	if at.Turn > 0 && len(want) == 1 { // a bias: rows of one element
		c.Rows, c.Cols, c.Row, c.Col, c.Width = c.Cols, 1, c.Col, 0, 1
	}
	t, err := g.tensor(&info, at.Plus)
	c.Name, c.Shape = info.Name, want
	p := placed{Piece: c, tensor: t}
	if at.Turn > 0 {
		p.rows = func(row int) int { return Turn(row, at.Turn) }
	}
	return p, err
}

// stacked turns a piece of gpt-oss' experts into that of a tensor with one projection, and returns the tensor's shape.
func stacked(c *model.Piece) []int {
	experts := c.Shape[0]
	c.Col, c.Step, c.Width = 0, 0, c.Cols
	if len(c.Shape) == 2 {
		return []int{experts, c.Cols}
	}
	c.Row, c.Transposed = c.Row/c.Cols*c.Rows, false
	return []int{experts, c.Rows, c.Cols}
}

// tensor is a tensor of the file.
func (g *ggufFile) tensor(i *gguf.Info, plus float32) (*tensor, error) {
	if t := g.tensors[i.Name]; t != nil {
		return t, nil
	}
	if !i.Type.CanDecode() {
		return nil, fmt.Errorf("tensor %q is %v, which no weight is", i.Name, i.Type)
	}
	name := i.Name
	t := &tensor{name: name, typ: i.Type, plus: plus, bytes: i.Bytes, read: func(p []byte, at int64) error { return g.f.ReadRange(name, p, at) }}
	g.tensors[name] = t
	return t, nil
}
