package model

import (
	"strings"

	"loadline/graph"
)

// family is an architecture: how its config.json is read and written, what its weights are and how a layer is built of them.
type family struct {
	modelType string
	class     string                         // as config.json's architectures lists it
	read      func(j *configJSON, c *Config) // fills c
	write     func(c Config, j *configJSON)  // fills j with what is not common to all
	check     func(c Config) error           // in place of validateRotary, or nil
	refuse    func(j *configJSON) string     // names a field that asks for arithmetic which the family does not have, or is ""; may be nil
	list      func(l *lister, c Config)      // the weights
	embed     func(d *decoder) graph.Value   // the residual stream (N,D) of tokens
	layer     func(d *decoder, x graph.Value, i int) graph.Value
	norm      func(d *decoder, name string) Map // name is without ".weight"
	mixture   bool                              // layers may have a mixture of experts
	last      string                            // the last norm
	table     string                            // the embedding, which is also the head where they are tied
}

// families lists what this package builds.
func families() []family {
	return []family{
		llamaFamily(), mistralFamily(), mixtralFamily(), smolLM3Family(), qwen2Family(), qwen3Family(), qwen3MoEFamily(), phi3Family(), gemma2Family(), gemma3Family(), gptOssFamily(), gpt2Family(),
	}
}

// family is c's, or the zero family.
func (c Config) family() family {
	for _, f := range families() {
		if f.modelType == c.ModelType {
			return f
		}
	}
	return family{}
}

// familyNames lists the model types for an error.
func familyNames() string {
	var names []string
	for _, f := range families() {
		names = append(names, f.modelType)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
