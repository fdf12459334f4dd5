package writers

import (
	"fmt"
	"strings"

	"loadline/planner/search"
)

// titan are torchtitan's settings, by section.
func (j *Job) titan() []struct {
	section string
	lines   []Setting
} {
	c := &j.Plan.Config
	mode := c.Recompute
	local, whyLocal := c.MicroBatch, j.whyMicro()
	if c.PP > 1 {
		local, whyLocal = c.MicroBatch*c.Accumulate, fmt.Sprintf("%d micro-batches of %d, one after the other through the pipeline", c.Accumulate, c.MicroBatch)
	}
	ac := []Setting{{"mode", mode, j.whyRecompute()}}
	if mode == "selective" {
		ac = append(ac, Setting{"selective_ac_option", "op", "every second matrix product and attention are kept"})
	}
	sections := []struct {
		section string
		lines   []Setting
	}{
		{"training", []Setting{
			{"local_batch_size", fmt.Sprint(local), whyLocal}, {"global_batch_size", fmt.Sprint(j.globalBatch()), j.whyBatch()}, {"seq_len", fmt.Sprint(j.Question.Seq), "the planned length"},
			{"dtype", "float32", "master weights"}, {"mixed_precision_param", "bfloat16", "FP32's range in 2 bytes: no loss scaling"}, {"mixed_precision_reduce", "float32", "gradients are summed in FP32"},
			{"enable_cpu_offload", "false", "states fit on the cards"},
		}},
		{"parallelism", []Setting{
			{"data_parallel_replicate_degree", "1", "no copies: every rank holds a share"}, {"data_parallel_shard_degree", fmt.Sprint(c.DP), "FSDP2 over the ranks that see other data"},
			{"tensor_parallel_degree", fmt.Sprint(c.TP), "matrices are split inside a node"}, {"pipeline_parallel_degree", fmt.Sprint(c.PP), "layers follow each other over these ranks"}, {"context_parallel_degree", fmt.Sprint(c.CP), "a sequence's tokens are shared"},
		}},
		{"activation_checkpoint", ac},
		{"compile", []Setting{{"enable", "true", "the planned loss is fused; eager it keeps 18 bytes a logit"}}},
	}
	if c.PP > 1 {
		p := &sections[1].lines
		*p = append(*p, Setting{"pipeline_parallel_schedule", "1F1B", "no more micro-batches wait than there are stages"}, Setting{"pipeline_parallel_microbatch_size", fmt.Sprint(c.MicroBatch), j.whyMicro()})
	}
	return sections
}

// titanTOML writes the configuration of torchtitan to 0.2.2.
func (j *Job) titanTOML() File {
	var b strings.Builder
	b.WriteString(j.head() + "# torchtitan to 0.2.2; the flavor, data and optimizer are yours to fill in.\n")
	for _, s := range j.titan() {
		fmt.Fprintf(&b, "\n[%s]\n", s.section)
		for i := range s.lines {
			if v := s.lines[i].Value; v != "true" && v != "false" && strings.Trim(v, "0123456789") != "" {
				s.lines[i].Value = fmt.Sprintf("%q", v)
			}
		}
		if s.section == "compile" {
			s.lines = append(s.lines, Setting{"components", `["model", "loss"]`, "both are fused"})
		}
		b.WriteString(comment(s.lines, " = ", ""))
	}
	if j.Plan.Config.Precision == "fp8" {
		b.WriteString("\n[model]\nconverters = [\"quantize.linear.float8\"]  # products in FP8, as asked for\n\n[quantize.linear.float8]\nrecipe_name = \"rowwise\"\n")
	}
	return File{"torchtitan.toml", b.String()}
}

// titanPython writes a function for the configurations in a model's config_registry, as torchtitan has them from 0.3.
func (j *Job) titanPython() File {
	c := &j.Plan.Config
	classes := map[string]string{"training": "TrainingConfig", "parallelism": "ParallelismConfig", "compile": "CompileConfig"}
	policy := map[string]string{"none": "None", "selective": "SelectiveAC.Config()", "full": "FullAC.Config()"}[c.Recompute]
	var b strings.Builder
	b.WriteString(j.head() + `# torchtitan from 0.3: put this beside the model's config_registry and call it on one of its configurations.
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
`)
	if class, _, ok := strings.Cut(policy, "."); ok {
		fmt.Fprintf(&b, "from torchtitan.distributed.activation_checkpoint import %s\n", class)
	}
	b.WriteString("\n\ndef planned(config):\n")
	for _, s := range j.titan() {
		if s.section == "activation_checkpoint" {
			fmt.Fprintf(&b, "    config.activation_checkpoint = %s  # %s\n", policy, s.lines[0].Why)
			continue
		}
		fmt.Fprintf(&b, "    config.%s = %s(\n", s.section, classes[s.section])
		var lines []Setting
		for _, l := range s.lines {
			switch {
			case l.Value == "true" || l.Value == "false":
				l.Value = strings.ToUpper(l.Value[:1]) + l.Value[1:]
			case strings.Trim(l.Value, "0123456789") != "":
				l.Value = fmt.Sprintf("%q", l.Value)
			}
			l.Value += ","
			lines = append(lines, l)
		}
		if s.section == "training" && c.PP > 1 {
			lines = append(lines, Setting{"disable_cuda_graphs", "True,", "they do not go with a pipeline"})
		}
		b.WriteString(comment(lines, "=", "        ") + "    )\n")
	}
	if c.Precision == "fp8" {
		b.WriteString("    # products in FP8, as asked for: give model_registry a Float8LinearConverter.Config(model_compile_enabled=True) among its converters\n")
	}
	b.WriteString("    return config\n")
	return File{"torchtitan_plan.py", b.String()}
}

// torchtune writes overrides of a recipe's configuration.
func (j *Job) torchtune() File {
	c := &j.Plan.Config
	recipe := "full_finetune"
	if c.Adapter != "none" {
		recipe = "lora_finetune"
	}
	where := "single_device"
	if c.Ranks > 1 {
		where = "distributed"
	}
	lines := []Setting{
		{"batch_size", fmt.Sprint(c.MicroBatch), j.whyMicro()}, {"gradient_accumulation_steps", fmt.Sprint(c.Accumulate), "the rest of the global batch"},
		{"dtype", c.Precision, "weights, gradients and moments in 16 bits"}, {"tokenizer.max_seq_len", fmt.Sprint(j.Question.Seq), "longer samples would pass the planned peak"},
		{"enable_activation_checkpointing", fmt.Sprint(c.Recompute == "full"), j.whyRecompute()}, {"enable_activation_offloading", "false", "kept activations fit"}, {"compile", "true", "norms are fused"},
		{"loss._component_", "torchtune.modules.loss.CEWithChunkedOutputLoss", "logits of a part of the tokens at a time"},
	}
	switch c.Optimizer {
	case "torchao8bit":
		lines = append(lines, Setting{"optimizer._component_", "torchao.optim.AdamW8bit", "full states do not fit"})
	case "torchao4bit":
		lines = append(lines, Setting{"optimizer._component_", "torchao.optim.AdamW4bit", "nothing larger fits"})
	case "adamw8bit":
		lines = append(lines, Setting{"optimizer._component_", "bitsandbytes.optim.AdamW8bit", "asked for"})
	default:
		lines = append(lines, Setting{"optimizer._component_", "torch.optim.AdamW", "states in the type of the weights"})
	}
	if c.Adapter != "none" {
		lines = append(lines, Setting{"model.lora_rank", fmt.Sprint(c.AdapterRank), "the planned rank"}, Setting{"model.apply_lora_to_mlp", "true", "every projection is adapted"})
	}
	if c.Adapter == "qlora" {
		lines = append(lines, Setting{"model.quantize_base", "true", "16-bit weights do not fit"})
	}
	return File{"torchtune.sh", j.script(fmt.Sprintf("tune run --nproc_per_node %d %s_%s --config ${CONFIG:?a recipe of the model}", c.Ranks, recipe, where), assigned(lines))}
}

// assigned turns settings into key=value arguments.
func assigned(lines []Setting) []Setting {
	var out []Setting
	for _, l := range lines {
		out = append(out, Setting{l.Key + "=" + l.Value, "", l.Why})
	}
	return out
}

// megatron writes the arguments of pretrain_gpt.py.
func (j *Job) megatron() File {
	c, s := &j.Plan.Config, j.Question.Shape
	var a []Setting
	add := func(key, value, why string) { a = append(a, Setting{key, value, why}) }
	add("--num-layers", fmt.Sprint(s.Depth()), "the model")
	add("--hidden-size", fmt.Sprint(s.Hidden), "the model")
	if f := s.FFN(); f > 0 {
		add("--ffn-hidden-size", fmt.Sprint(f), "the model")
	}
	add("--num-attention-heads", fmt.Sprint(s.Heads), "the model")
	add("--kv-channels", fmt.Sprint(s.HeadDim), "the model")
	if kv := s.KVHeads(); kv > 0 && kv < s.Heads {
		add("--group-query-attention", "", "keys and values are shared by query heads")
		add("--num-query-groups", fmt.Sprint(kv), "the model")
	}
	if s.Gated {
		add("--swiglu", "", "the model")
	}
	if !s.Tied {
		add("--untie-embeddings-and-output-weights", "", "the model")
	}
	if s.MLA() {
		add("--multi-latent-attention", "", "the model")
		add("--kv-lora-rank", fmt.Sprint(s.KVRank), "the model")
		if s.QRank > 0 {
			add("--q-lora-rank", fmt.Sprint(s.QRank), "the model")
		}
		add("--qk-head-dim", fmt.Sprint(s.NopeDim), "the model")
		add("--qk-pos-emb-head-dim", fmt.Sprint(s.RopeDim), "the model")
		add("--v-head-dim", fmt.Sprint(s.VDim), "the model")
	}
	add("--seq-length", fmt.Sprint(j.Question.Seq), "the planned length")
	add("--max-position-embeddings", fmt.Sprint(j.Question.Seq), "no longer than a sequence")
	if experts := expertsOf(&j.Question); experts > 0 {
		add("--num-experts", fmt.Sprint(experts), "the model")
		add("--moe-router-topk", fmt.Sprint(s.TopK), "the model")
		add("--moe-ffn-hidden-size", fmt.Sprint(s.ExpertFFN), "the model")
		if s.SharedFFN > 0 {
			add("--moe-shared-expert-intermediate-size", fmt.Sprint(s.SharedFFN), "the model")
		}
		add("--expert-model-parallel-size", fmt.Sprint(c.EP), "experts are spread over these ranks")
		if c.EP > 1 {
			add("--expert-tensor-parallel-size", "1", "and each is whole")
		}
		add("--moe-token-dispatcher-type", "alltoall", "tokens go to their experts and back")
	}
	add("--tensor-model-parallel-size", fmt.Sprint(c.TP), "matrices are split inside a node")
	if c.TP > 1 {
		add("--sequence-parallel", "", "norms and residuals are split too, for no more traffic")
	}
	add("--pipeline-model-parallel-size", fmt.Sprint(c.PP), "layers follow each other over these ranks")
	if c.Interleave > 1 {
		add("--num-layers-per-virtual-pipeline-stage", fmt.Sprint(s.Depth()/(c.PP*c.Interleave)), fmt.Sprintf("%d stages on every rank, so that it waits less for the others", c.Interleave))
	}
	add("--context-parallel-size", fmt.Sprint(c.CP), "a sequence's tokens are shared over these ranks")
	add("--micro-batch-size", fmt.Sprint(c.MicroBatch), j.whyMicro())
	add("--global-batch-size", fmt.Sprint(j.globalBatch()), j.whyBatch())
	if c.Precision == "fp16" {
		add("--fp16", "", "as asked for, or since the card has no BF16")
	} else {
		add("--bf16", "", "FP32's range in 2 bytes: no loss scaling")
	}
	if c.Precision == "fp8" {
		add("--fp8-format", "hybrid", "as asked for: E4M3 forward, E5M2 gradients")
	}
	offload := strings.Contains(c.Offload, "optimizer")
	if c.ZeRO > 0 || offload {
		add("--use-distributed-optimizer", "", "6 + 12/d bytes a parameter on d data-parallel ranks")
	}
	if c.ZeRO > 0 {
		add("--overlap-grad-reduce", "", "collectives hide behind the backward pass")
		add("--overlap-param-gather", "", "and behind the next forward")
	}
	if offload {
		add("--optimizer-cpu-offload", "", fmt.Sprintf("%v of host memory a node", j.Plan.Host))
		add("--optimizer-offload-fraction", "1.0", "all of the states")
		add("--use-precision-aware-optimizer", "", "which offload needs")
	}
	switch c.Recompute {
	case "full":
		add("--recompute-granularity", "full", j.whyRecompute())
		add("--recompute-method", "uniform", "the same for every layer")
		add("--recompute-num-layers", "1", "an input is kept for every layer")
	case "selective":
		modules := "layernorm mlp"
		if s.MoE() {
			modules = "layernorm moe_act"
		}
		add("--recompute-granularity", "selective", j.whyRecompute())
		add("--recompute-modules", modules, "attention keeps little with flash attention")
	}
	add("--attention-backend", "flash", "scores of every pair are never stored")
	return File{"megatron.sh", j.script(fmt.Sprintf("torchrun --nproc-per-node %d --nnodes %d pretrain_gpt.py", min(c.Ranks, j.Question.Machine.PerNode), max(1, c.Ranks/max(1, j.Question.Machine.PerNode))), a)}
}

// expertsOf returns the routed experts of a layer.
func expertsOf(q *search.Question) int {
	n := 0
	for _, l := range q.Shape.Layers {
		n = max(n, l.Experts)
	}
	return n
}
