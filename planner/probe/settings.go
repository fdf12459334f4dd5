package probe

import (
	"loadline/compile"
	"loadline/model"
	"loadline/train"
)

// geglu is Llama with a feed-forward of its own.
const geglu = "geglu"

// setting is one small model that is trained for a few steps.
type setting struct {
	model                          string // as config.json has it, or geglu
	d, layers, heads, kv, ffn, voc int
	batch, seq                     int
	precision, attention           string
	optimizer                      compile.Optimizer
}

// settings are the models. Each kind of operation is there in at least two sizes.
func settings() (out []setting) {
	add := func(kind string, d, layers, heads, kv, ffn, vocab, batch, seq int, precision, attention string) {
		out = append(out, setting{kind, d, layers, heads, kv, ffn, vocab, batch, seq, precision, attention, compile.AdamW})
	}
	for _, p := range []string{"fp32", "bf16", "fp16"} {
		for _, attention := range []string{"flash", "standard"} {
			add(model.Llama, 128, 2, 4, 2, 384, 1024, 2, 256, p, attention)
			if p == "fp16" { // which no kernel is made for: slow, and one more size has to do
				add(model.Llama, 192, 1, 3, 3, 512, 512, 1, 512, p, attention)
				continue
			}
			add(model.Llama, 384, 1, 6, 6, 1024, 2048, 1, 256, p, attention)
			add(model.Llama, 128, 1, 2, 2, 256, 512, 1, 2048, p, attention)
		}
		add(model.GPT2, 128, 1, 2, 2, 512, 512, 2, 128, p, "flash")
		add(model.Mixtral, 128, 1, 4, 2, 384, 512, 2, 128, p, "flash")
		add(geglu, 128, 1, 2, 2, 256, 512, 1, 128, p, "flash")
		if p == "fp16" {
			continue
		}
		add(model.GPT2, 256, 1, 4, 4, 1024, 512, 8, 128, p, "flash")
		add(model.Mixtral, 256, 1, 4, 2, 512, 512, 1, 256, p, "flash")
		add(geglu, 256, 1, 4, 4, 768, 512, 4, 128, p, "flash")
		add(model.Llama, 256, 1, 4, 4, 768, 256, 32, 128, p, "flash")   // rows that no cache near a core holds
		add(model.Llama, 128, 1, 4, 2, 384, 512, 8, 256, p, "standard") // nor such scores
		add(model.Llama, 192, 1, 3, 3, 512, 512, 2, 768, p, "standard")
		add(model.Llama, 192, 1, 3, 3, 512, 512, 1, 1024, p, "flash")
		add(model.Mixtral, 192, 1, 3, 3, 512, 512, 4, 256, p, "flash") // rows enough for each expert
		add(model.Llama, 256, 1, 4, 4, 512, 6144, 2, 512, p, "flash")  // logits that leave them too, and weights
		add(model.Llama, 1024, 1, 16, 16, 2816, 1024, 1, 256, p, "flash")
		if p == "bf16" { // tiles are so fast that packing and products tell apart at many rows alone
			add(model.Llama, 768, 1, 12, 12, 2048, 1024, 2, 512, p, "flash")
		}
	}
	for _, optimizer := range []compile.Optimizer{compile.SGD, compile.Lion, compile.Adafactor} {
		for _, d := range []int{128, 256} {
			out = append(out, setting{model.Llama, d, 1, 2, 2, 2 * d, 512, 1, 128, "fp32", "flash", optimizer})
		}
	}
	return out
}

// options is the training of a setting.
func (s setting) options() train.Options {
	c := model.Config{
		ModelType: s.model, HiddenSize: s.d, NumLayers: s.layers, NumHeads: s.heads, NumKVHeads: s.kv, HeadDim: s.d / s.heads,
		IntermediateSize: s.ffn, VocabSize: s.voc, MaxPositionEmbeddings: s.seq, RopeTheta: 10000, TieWordEmbeddings: true,
		HiddenAct: "silu", BOSTokenID: -1, RMSNormEps: 1e-5,
	}
	switch s.model {
	case geglu:
		c.ModelType, c.HiddenAct = model.Llama, "gelu_pytorch_tanh"
	case model.GPT2:
		c.HiddenAct, c.LayerNormEps, c.RMSNormEps, c.RopeTheta = "gelu_new", 1e-5, 0, 0
	case model.Mixtral:
		c.NumLocalExperts, c.NumExpertsPerTok = 4, 2
	}
	o := train.Defaults(c)
	o.Batch, o.Seq, o.Precision, o.Attention = s.batch, s.seq, s.precision, s.attention
	if o.Optimizer = s.optimizer; o.Optimizer == compile.SGD {
		o.Momentum = 0.9
	}
	return o
}
