package writers

import (
	"encoding/json"
	"fmt"
	"strings"

	"loadline/mem"
)

// node is an object of JSON whose keys keep their order.
type node struct {
	keys   []string
	values map[string]any
	lines  []Setting
}

func (n *node) set(path string, value any, why string) {
	n.lines = append(n.lines, Setting{path, jsonText(value), why})
	parts := strings.Split(path, ".")
	at := n
	for _, k := range parts[:len(parts)-1] {
		inner, ok := at.get(k).(*node)
		if !ok {
			inner = &node{}
			at.put(k, inner)
		}
		at = inner
	}
	at.put(parts[len(parts)-1], value)
}

func (n *node) get(k string) any { return n.values[k] }

func (n *node) put(k string, v any) {
	if n.values == nil {
		n.values = map[string]any{}
	}
	if _, ok := n.values[k]; !ok {
		n.keys = append(n.keys, k)
	}
	n.values[k] = v
}

func (n *node) text(indent string) string {
	var parts []string
	for _, k := range n.keys {
		value := ""
		if inner, ok := n.values[k].(*node); ok {
			value = inner.text(indent + "  ")
		} else {
			value = jsonText(n.values[k])
		}
		parts = append(parts, fmt.Sprintf("%s  %q: %s", indent, k, value))
	}
	return "{\n" + strings.Join(parts, ",\n") + "\n" + indent + "}"
}

func jsonText(v any) string {
	body, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(body)
}

// deepSpeed writes ds_config.json and its reasons.
func (j *Job) deepSpeed() []File {
	c, s := &j.Plan.Config, j.Question.Shape
	n := &node{}
	n.set("train_batch_size", j.globalBatch(), j.whyBatch())
	n.set("train_micro_batch_size_per_gpu", c.MicroBatch, j.whyMicro())
	n.set("gradient_accumulation_steps", c.Accumulate, "the rest of the global batch, one after the other")
	n.set("gradient_clipping", 1.0, "the common choice")
	if c.Precision == "fp16" {
		n.set("fp16.enabled", true, "the card has no BF16, or FP16 was asked for")
		n.set("fp16.loss_scale", 0, "dynamic: gradients below 6e-8 would vanish")
		n.set("fp16.initial_scale_power", 16, "start at 65536")
	} else {
		n.set("bf16.enabled", true, "FP32's range in 2 bytes: no loss scaling")
	}
	z := "zero_optimization."
	trained := float64(s.Params())
	n.set(z+"stage", c.ZeRO, fmt.Sprintf("%v of weights, gradients and states on a rank", j.purpose(mem.Weights)+j.purpose(mem.MasterWeights)+j.purpose(mem.Grads)+j.purpose(mem.OptimState)))
	if c.ZeRO > 0 {
		n.set(z+"overlap_comm", true, "collectives hide behind the backward pass")
		n.set(z+"contiguous_gradients", true, "gradients are copied into one buffer as they come, so that memory does not fragment")
		bucket := int64(min(5e8, trained))
		n.set(z+"reduce_bucket_size", bucket, fmt.Sprintf("elements; two buckets of 2 bytes are %d MB of the plan", 4*bucket/1e6))
		n.set(z+"allgather_bucket_size", bucket, "the same, for weights")
	}
	if c.ZeRO == 3 {
		n.set(z+"stage3_prefetch_bucket_size", int64(5e7), "the next layer is gathered while this one computes")
		n.set(z+"stage3_param_persistence_threshold", int64(1e5), "norms and biases stay whole")
		n.set(z+"stage3_max_live_parameters", int64(1e9), "gathered weights alive, 2 bytes each, which the plan counts")
		n.set(z+"stage3_max_reuse_distance", int64(1e9), "weights that are used again sooner stay")
		n.set(z+"stage3_gather_16bit_weights_on_model_save", true, "or the saved model would be empty; needs the whole model in host memory on rank 0")
	}
	device := "cpu"
	if j.Plan.Disk > 0 {
		device = "nvme"
	}
	if strings.Contains(c.Offload, "optimizer") {
		n.set(z+"offload_optimizer.device", device, "the states do not fit beside the activations")
		n.set(z+"offload_optimizer.pin_memory", true, fmt.Sprintf("copies at full speed; %v of host memory a node", j.Plan.Host))
	}
	if strings.Contains(c.Offload, "weights") {
		n.set(z+"offload_param.device", device, "nor do the weights")
		n.set(z+"offload_param.pin_memory", true, "copies at full speed")
	}
	if device == "nvme" {
		n.set(z+"offload_optimizer.nvme_path", "/local_nvme", fmt.Sprintf("%v a node, more than host memory", j.Plan.Disk))
	}
	if c.CP > 1 {
		n.set("sequence_parallel_size", c.CP, "Ulysses: ranks share a sequence's tokens")
	}
	return []File{
		{"ds_config.json", n.text("") + "\n"},
		{"ds_config.why.md", table("Why ds_config.json is as it is", n.lines)},
	}
}

// accelerate writes the launcher's YAML.
func (j *Job) accelerate() File {
	c, m := &j.Plan.Config, &j.Question.Machine
	kind := "'NO'"
	why := "one card"
	switch {
	case c.System == "deepspeed":
		kind, why = "DEEPSPEED", "states are shared by ZeRO"
	case c.ZeRO == 3:
		kind, why = "FSDP", "weights are shared"
	case c.Ranks > 1:
		kind, why = "MULTI_GPU", "every rank holds the model"
	}
	lines := []Setting{{"compute_environment", "LOCAL_MACHINE", "this machine, no cloud service"}, {"distributed_type", kind, why}}
	nodes := max(1, (c.Ranks+m.PerNode-1)/max(1, m.PerNode))
	if c.System == "deepspeed" {
		lines = append(lines, Setting{"deepspeed_config:", "", "everything else is in that file, and may not be said twice"},
			Setting{"  deepspeed_config_file", "ds_config.json", "written beside this file"}, Setting{"  zero3_init_flag", fmt.Sprint(c.ZeRO == 3), "weights are shared as they are made, so that no rank ever holds them all"})
		if nodes > 1 {
			lines = append(lines, Setting{"  deepspeed_multinode_launcher", "standard", "every node is started by hand or by the scheduler"})
		}
	} else {
		lines = append(lines, Setting{"mixed_precision", c.Precision, "FP32's range in 2 bytes where it is bf16"})
	}
	if kind == "FSDP" {
		lines = append(lines, Setting{"fsdp_config:", "", "how weights are shared"}, Setting{"  fsdp_version", "2", "shards each parameter by itself, so that dtypes may mix"}, Setting{"  fsdp_reshard_after_forward", "true", "weights are gathered again for the backward pass"},
			Setting{"  fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "a layer at a time"}, Setting{"  fsdp_activation_checkpointing", fmt.Sprint(c.Recompute == "full"), j.whyRecompute()},
			Setting{"  fsdp_offload_params", fmt.Sprint(strings.Contains(c.Offload, "weights")), "whether weights wait in host memory"})
	}
	lines = append(lines, Setting{"num_machines", fmt.Sprint(nodes), "nodes of the plan"}, Setting{"num_processes", fmt.Sprint(c.Ranks), "a process a card"}, Setting{"machine_rank", "0", "other on every node"},
		Setting{"main_training_function", "main", "accelerate's default"}, Setting{"downcast_bf16", "'no'", "of TPUs only"}, Setting{"rdzv_backend", "static", "ranks are known beforehand"}, Setting{"same_network", "true", "nodes reach each other"}, Setting{"use_cpu", "false", "the cards train"})
	return File{"accelerate.yaml", j.head() + yaml(lines)}
}

// yaml writes settings; a key that ends in a colon opens a block.
func yaml(lines []Setting) string {
	fixed := make([]Setting, 0, len(lines)) //mem:ok a few dozen lines
	for _, l := range lines {
		if open, ok := strings.CutSuffix(l.Key, ":"); ok {
			l.Key, l.Value = open+":", ""
		} else {
			l.Key, l.Value = l.Key+": "+l.Value, ""
		}
		fixed = append(fixed, l)
	}
	return comment(fixed, "", "")
}

// trainerArguments writes what transformers' TrainingArguments and peft's LoraConfig are given.
func (j *Job) trainerArguments() File {
	c := &j.Plan.Config
	name, why := j.hub("")
	lines := []Setting{
		{"model_name_or_path", jsonText(name), why}, {"per_device_train_batch_size", fmt.Sprint(c.MicroBatch), j.whyMicro()},
		{"gradient_accumulation_steps", fmt.Sprint(c.Accumulate), "the rest of the global batch"}, {"max_length", fmt.Sprint(j.Question.Seq), "longer samples would pass the planned peak"},
		{"gradient_checkpointing", fmt.Sprint(c.Recompute == "full"), j.whyRecompute()}, {c.Precision, "true", "the type of arithmetic"}, {"attn_implementation", "sdpa", "scores of every pair are never stored"},
	}
	if c.LossHead == "chunked" {
		lines = append(lines, Setting{"use_liger_kernel", "true", fmt.Sprintf("logits of %d × %d are never whole", c.MicroBatch*j.Question.Seq, j.Question.Shape.Vocab)})
	}
	if c.System == "deepspeed" {
		lines = append(lines, Setting{"deepspeed", "ds_config.json", "ZeRO and its buckets"})
	}
	if c.Adapter != "none" {
		lines = append(lines, Setting{"use_peft", "true", "only an adapter is trained"}, Setting{"lora_r", fmt.Sprint(c.AdapterRank), "the planned rank"}, Setting{"lora_target_modules", "all-linear", "every projection is adapted"})
		dtype := "bfloat16"
		if c.Precision == "fp16" {
			dtype = "float16"
		}
		lines = append(lines, Setting{"dtype", dtype, "what is not trained is loaded in 2 bytes, not in the 4 that are the default"})
	}
	if c.Adapter == "qlora" {
		lines = append(lines, Setting{"load_in_4bit", "true", "16-bit weights do not fit"}, Setting{"bnb_4bit_quant_type", "nf4", "4 bits at a normal distribution's quantiles"}, Setting{"use_bnb_nested_quant", "false", "4.5 bits a weight are planned; double quantisation would save 0.37"})
	}
	return File{"trainer.yaml", j.head() + yaml(lines)}
}
