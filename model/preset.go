package model

import (
	"fmt"
	"strings"
)

// TrainDefaults are the batch that a preset trains with unless told otherwise.
type TrainDefaults struct{ Batch, Seq int }

type preset struct {
	name   string
	config Config
	train  TrainDefaults
}

// llama is a Llama configuration; everything it leaves out is the same in all presets.
func llama(d, layers, heads, kvHeads, ffn, vocab int) Config {
	return Config{
		ModelType: Llama, HiddenSize: d, NumLayers: layers, NumHeads: heads, NumKVHeads: kvHeads, HeadDim: d / heads,
		IntermediateSize: ffn, VocabSize: vocab, MaxPositionEmbeddings: 2048, RMSNormEps: 1e-5, RopeTheta: 10000,
		TieWordEmbeddings: true, HiddenAct: "silu", BOSTokenID: -1,
	}
}

func presets() []preset {
	moe := llama(128, 4, 4, 2, 384, 1024)
	moe.ModelType, moe.NumLocalExperts, moe.NumExpertsPerTok = Mixtral, 4, 2
	geglu := llama(128, 4, 4, 2, 384, 1024)
	geglu.HiddenAct = geluTanh
	gpt2 := Config{
		ModelType: GPT2, HiddenSize: 128, NumLayers: 4, NumHeads: 4, NumKVHeads: 4, HeadDim: 32, IntermediateSize: 512, VocabSize: 1024,
		MaxPositionEmbeddings: 1024, LayerNormEps: 1e-5, TieWordEmbeddings: true, HiddenAct: "gelu_new", BOSTokenID: -1,
	}
	return []preset{
		{"llama-tiny", llama(128, 4, 4, 2, 384, 1024), TrainDefaults{8, 256}},
		{"moe-tiny", moe, TrainDefaults{8, 256}},
		{"geglu-tiny", geglu, TrainDefaults{8, 256}},
		{"gpt2-tiny", gpt2, TrainDefaults{8, 256}},
		{"bench-20m", llama(384, 8, 6, 6, 1024, 8192), TrainDefaults{4, 512}},
		{"bench-recompute", llama(1024, 4, 16, 16, 2816, 8192), TrainDefaults{1, 2048}},
		{"bench-90m", llama(768, 12, 12, 12, 2048, 8192), TrainDefaults{4, 512}},
	}
}

// Presets lists the names that Preset knows, smallest models first.
func Presets() []string {
	var names []string
	for _, p := range presets() {
		names = append(names, p.name)
	}
	return names
}

// Preset returns a named configuration and the batch it trains with.
func Preset(name string) (Config, TrainDefaults, error) {
	for _, p := range presets() {
		if p.name == name {
			return p.config, p.train, nil
		}
	}
	return Config{}, TrainDefaults{}, fmt.Errorf("model: no preset %q: want one of %s", name, strings.Join(Presets(), ", "))
}
