package writers

import (
	"fmt"
	"math"
	"strings"

	"loadline/mem"
)

// kvWords says what the cache takes.
func (j *Job) kvWords() string {
	return fmt.Sprintf("%v a rank for %d sequences of %d", j.purpose(mem.KVBlocks), j.Question.Concurrency, j.Question.Context)
}

// share returns a part of the card's memory, rounded up to hundredths.
func (j *Job) share(n mem.Bytes) string {
	f := float64(n) / float64(j.Question.Machine.Card.Reported())
	return fmt.Sprintf("%.2f", min(0.98, math.Ceil(100*f)/100))
}

// vllm writes the arguments of vllm serve.
func (j *Job) vllm() File {
	c, q := &j.Plan.Config, &j.Question
	a := []Setting{
		{"--tensor-parallel-size", fmt.Sprint(c.TP), "matrices are split over these cards"}, {"--pipeline-parallel-size", fmt.Sprint(c.PP), "layers follow each other over these cards"}, {"--data-parallel-size", fmt.Sprint(c.DP), "replicas, each with its own cache"},
		{"--max-model-len", fmt.Sprint(q.Context), "the planned length"}, {"--max-num-seqs", fmt.Sprint(c.Concurrency), "the cache holds that many at full length; graphs are captured for no more"},
		{"--max-num-batched-tokens", fmt.Sprint(min(8192, max(2048, q.Context))), "longer prompts are read in chunks, so that activations have a bound"},
		{"--gpu-memory-utilization", j.share(j.Plan.Range[1]), fmt.Sprintf("%v with 9 chances in 10; more would only be cache that nobody uses", j.Plan.Range[1])},
		{"--enable-prefix-caching", "", "full blocks of equal prefixes are shared"},
	}
	switch c.Quant {
	case "fp8":
		a = append(a, Setting{"--quantization", "fp8", "half the bytes of weights, and 8-bit products"})
	case "awq-int4":
		a = append(a, Setting{"--quantization", "awq_marlin", "4-bit weights, unpacked as they are multiplied; the checkpoint has to be in AWQ"})
	}
	kv := "auto"
	if c.KVType == "fp8" {
		kv = "fp8"
	}
	a = append(a, Setting{"--kv-cache-dtype", kv, j.kvWords()})
	return File{"vllm.sh", j.script(`vllm serve "$model"`, a, j.weights())}
}

// sglang writes the arguments of sglang.launch_server.
func (j *Job) sglang() File {
	c, q := &j.Plan.Config, &j.Question
	static := j.purpose(mem.Weights) + j.purpose(mem.KVBlocks)
	a := []Setting{
		{"--tp-size", fmt.Sprint(c.TP), "matrices are split over these cards"}, {"--pp-size", fmt.Sprint(c.PP), "layers follow each other over these cards"}, {"--dp-size", fmt.Sprint(c.DP), "replicas, each with its own cache"},
		{"--context-length", fmt.Sprint(q.Context), "the planned length"}, {"--max-running-requests", fmt.Sprint(c.Concurrency * c.DP), "as many as the cache holds at full length"},
		{"--chunked-prefill-size", fmt.Sprint(min(8192, max(2048, q.Context))), "so that activations have a bound"},
		{"--mem-fraction-static", j.share(static), fmt.Sprintf("weights and cache, %v", static)},
	}
	switch c.Quant {
	case "fp8":
		a = append(a, Setting{"--quantization", "fp8", "half the bytes of weights, and 8-bit products"})
	case "awq-int4":
		a = append(a, Setting{"--quantization", "awq_marlin", "4-bit weights; the checkpoint has to be in AWQ"})
	}
	kv := "auto"
	if c.KVType == "fp8" {
		kv = "fp8_e4m3"
	}
	a = append(a, Setting{"--kv-cache-dtype", kv, j.kvWords()})
	return File{"sglang.sh", j.script(`python -m sglang.launch_server --model-path "$model"`, a, j.weights())}
}

// llamaServer writes the arguments of llama-server.
func (j *Job) llamaServer() File {
	c, q := &j.Plan.Config, &j.Question
	depth := q.Shape.Depth()
	layers, why := fmt.Sprint(c.GPULayers), fmt.Sprintf("one more of %d layers does not fit; the CPU computes the others", depth)
	if c.GPULayers == depth {
		layers, why = fmt.Sprint(depth+1), "every layer and the output"
	}
	if c.Quant != "stored" {
		why += ", of a file in " + strings.ToUpper(c.Quant)
	}
	a := []Setting{
		{"--ctx-size", fmt.Sprint(q.Context * q.Concurrency), fmt.Sprintf("%d tokens for each of %d slots", q.Context, q.Concurrency)}, {"--parallel", fmt.Sprint(q.Concurrency), "slots"},
		{"--n-gpu-layers", layers, why}, {"--flash-attn", "on", "the scores of a whole context are never stored"}, {"--ubatch-size", "512", "the compute buffer is planned for it"},
		{"--cache-type-k", c.KVType, j.kvWords()}, {"--cache-type-v", c.KVType, "values as keys"},
	}
	if c.Ranks > 1 {
		a = append(a, Setting{"--split-mode", "layer", "layers follow each other over the cards"})
	}
	return File{"llama-server.sh", j.script(`llama-server --model "$model"`, a, j.gguf())}
}
