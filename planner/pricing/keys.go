package pricing

import (
	"slices"
	"strings"

	"loadline/internal/edits"
)

// free are keys that cost no memory of their own, with what they do.
var free = map[string]string{
	"train_batch_size":                                         "a product of the micro-batch, accumulation and ranks",
	"gradient_accumulation_steps":                              "micro-batches follow each other in the same memory",
	"gradient_clipping":                                        "one number",
	"steps_per_print":                                          "what is printed",
	"wall_clock_breakdown":                                     "what is printed",
	"dump_state":                                               "what is printed",
	"memory_breakdown":                                         "what is printed",
	"prescale_gradients":                                       "order of arithmetic",
	"gradient_predivide_factor":                                "order of arithmetic",
	"communication_data_type":                                  "the type on the wire",
	"seq_parallel_communication_data_type":                     "the type on the wire",
	"sparse_gradients":                                         "embeddings' gradients as rows, on the wire",
	"disable_allgather":                                        "broadcasts in place of gathers",
	"zero_allow_untested_optimizer":                            "a check less",
	"zero_force_ds_cpu_optimizer":                              "which optimizer runs on the CPU",
	"dataloader_drop_last":                                     "which samples are seen",
	"sequence_parallel_size":                                   "ranks share a sequence; divide the tokens of a micro-batch by it",
	"fp16.auto_cast":                                           "inputs are cast",
	"fp16.loss_scale":                                          "one number",
	"fp16.initial_scale_power":                                 "one number",
	"fp16.loss_scale_window":                                   "one number",
	"fp16.hysteresis":                                          "one number",
	"fp16.consecutive_hysteresis":                              "one number",
	"fp16.min_loss_scale":                                      "one number",
	"bf16.immediate_grad_update":                               "when gradients are added",
	"bf16.check_grad_overflow":                                 "a check more",
	"zero_optimization.overlap_comm":                           "its second buffer is counted with reduce_bucket_size",
	"zero_optimization.reduce_scatter":                         "which collective",
	"zero_optimization.allgather_partitions":                   "which collective",
	"zero_optimization.contiguous_gradients":                   "gradients are copied into the bucket as they come, so that memory does not fragment",
	"zero_optimization.use_multi_rank_bucket_allreduce":        "which collective",
	"zero_optimization.load_from_fp32_weights":                 "where masters come from",
	"zero_optimization.elastic_checkpoint":                     "the format of a checkpoint",
	"zero_optimization.stage3_model_persistence_threshold":     "a bound on what stays whole; counted with stage3_param_persistence_threshold",
	"zero_optimization.stage3_max_reuse_distance":              "what of the gathered weights stays, within stage3_max_live_parameters",
	"zero_optimization.stage3_module_granularity_threshold":    "how much is gathered at once, within stage3_max_live_parameters",
	"zero_optimization.stage3_use_all_reduce_for_fetch_params": "which collective",
	"zero_optimization.stage3_allgather_sequential":            "one gather at a time",
	"zero_optimization.stage3_partition_stream_chunk_size":     "how weights are split at the start",
	"zero_optimization.ignore_unused_parameters":               "a check less",
	"zero_optimization.legacy_stage1":                          "another code path",
	"zero_optimization.round_robin_gradients":                  "the order of copies",
	"zero_optimization.zero_quantized_weights":                 "the type on the wire",
	"zero_optimization.zero_quantized_nontrainable_weights":    "the type on the wire",
	"zero_optimization.zero_quantized_gradients":               "the type on the wire",
	"zero_optimization.zeropp_loco_param":                      "an error buffer of quantised gradients",
	"zero_optimization.mics_hierarchical_params_gather":        "which collective",
	"zero_optimization.memory_efficient_linear":                "gathered weights are not kept for the backward pass",
	"zero_optimization.pipeline_loading_checkpoint":            "how a checkpoint is read",
	"zero_optimization.override_module_apply":                  "how a model is made",
	"zero_optimization.log_trace_cache_warnings":               "what is printed",
	"zero_optimization.leaf_module":                            "what is gathered as one",
	"zero_optimization.zenflow":                                "an asynchronous update",
	"zero_optimization.cpu_offload_use_pin_memory":             "host pages that cannot be swapped; a third budget beside RAM and card",
	"zero_optimization.offload_param.nvme_path":                "where",
	"zero_optimization.offload_param.pin_memory":               "host pages that cannot be swapped; a third budget beside RAM and card",
	"zero_optimization.offload_param.buffer_count":             "counted with buffer_size",
	"zero_optimization.offload_optimizer.nvme_path":            "where",
	"zero_optimization.offload_optimizer.pin_memory":           "host pages that cannot be swapped; a third budget beside RAM and card",
	"zero_optimization.offload_optimizer.pipeline_read":        "reads ahead, within buffer_count",
	"zero_optimization.offload_optimizer.pipeline_write":       "writes behind, within buffer_count",
	"zero_optimization.offload_optimizer.fast_init":            "how states begin",
	"zero_optimization.offload_optimizer.ratio":                "counted with the device",
	"activation_checkpointing.contiguous_memory_optimization":  "the same bytes, in one buffer",
	"activation_checkpointing.number_checkpoints":              "how large that buffer is",
	"activation_checkpointing.synchronize_checkpoint_boundary": "waits",
	"activation_checkpointing.profile":                         "what is printed",
	"activation_checkpointing.partition_activations":           "divides checkpoints by the tensor parallel ranks, which a plain DeepSpeed job has none of",
}

// priced are keys that have a formula.
var priced = []string{
	"train_micro_batch_size_per_gpu", "fp16.enabled", "bf16.enabled", "data_types.grad_accum_dtype", "activation_checkpointing.cpu_checkpointing",
	"zero_optimization.stage", "zero_optimization.reduce_bucket_size", "zero_optimization.allgather_bucket_size", "zero_optimization.sub_group_size",
	"zero_optimization.stage3_prefetch_bucket_size", "zero_optimization.stage3_param_persistence_threshold", "zero_optimization.stage3_max_live_parameters",
	"zero_optimization.stage3_gather_16bit_weights_on_model_save", "zero_optimization.zero_hpz_partition_size", "zero_optimization.mics_shard_size",
	"zero_optimization.offload_param.device", "zero_optimization.offload_param.buffer_size", "zero_optimization.offload_param.max_in_cpu",
	"zero_optimization.offload_optimizer.device", "zero_optimization.offload_optimizer.buffer_count",
}

// sections are whole parts of a file that have little or nothing to do with memory; their keys are not looked into.
var sections = map[string]string{
	"optimizer": "its states are counted under zero_optimization.stage, as Adam's", "scheduler": "one number", "amp": "NVIDIA's Apex; not together with ZeRO", "aio": "how files are read",
	"flops_profiler": "what is printed", "comms_logger": "what is printed", "tensorboard": "what is written", "wandb": "what is written", "csv_monitor": "what is written", "comet": "what is written",
	"elasticity": "which numbers of ranks are allowed", "autotuning": "a search", "checkpoint": "how checkpoints are written", "data_efficiency": "which samples are seen",
	"curriculum_learning": "which samples are seen", "compression_training": "another training", "sparse_attention": "another model", "hybrid_engine": "generation between steps",
	"tensor_parallel": "matrices over ranks", "compile": "how kernels are made", "torch_autocast": "types of operations", "timers": "what is printed", "nebula": "how checkpoints are written",
	"weight_quantization": "for inference", "zenflow": "an asynchronous update", "pipeline": "stages",
}

// deprecated are old names of keys.
var deprecated = map[string]string{
	"zero_optimization.cpu_offload": "zero_optimization.offload_optimizer.device", "zero_optimization.cpu_offload_param": "zero_optimization.offload_param.device",
	"zero_optimization.cpu_offload_params": "zero_optimization.offload_param.device", "zero_optimization.stage3_gather_fp16_weights_on_model_save": "zero_optimization.stage3_gather_16bit_weights_on_model_save",
	"zero_optimization.cpu_offload_use_pin_memory": "zero_optimization.offload_optimizer.pin_memory",
}

// canonical returns a key's full name: bfloat16 is bf16, and stage 3's keys are known without their prefix.
func canonical(path string) string {
	if rest, ok := strings.CutPrefix(path, "bfloat16."); ok {
		return "bf16." + rest
	}
	if rest, ok := strings.CutPrefix(path, "zero_optimization."); ok && !known(path) && known("zero_optimization.stage3_"+rest) {
		return "zero_optimization.stage3_" + rest
	}
	return path
}

func known(path string) bool {
	_, ok := free[path]
	if _, old := deprecated[path]; old {
		return true
	}
	return ok || slices.Contains(priced, path)
}

// section returns why the part that a key is in is not looked into.
func section(path string) (why string, ok bool) {
	top, _, _ := strings.Cut(path, ".")
	why, ok = sections[top]
	return why, ok
}

// nearest returns the known key that a mistyped one most likely means.
func nearest(path string) string {
	best, least := "", 1<<30
	try := func(k string) {
		if d := edits.Distance(k, path); d < least || d == least && k < best {
			best, least = k, d
		}
	}
	for k := range free {
		try(k)
	}
	for _, k := range priced {
		try(k)
	}
	return best
}
