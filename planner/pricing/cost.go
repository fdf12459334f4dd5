package pricing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"loadline/mem"
)

// cost fills in the bytes of a key that has a formula. Counts in a file are elements.
func (f *file) cost(name string, p *Price) {
	weights, grads, optim := f.states()
	s := f.job.Shape
	h := float64(s.Hidden)
	optimAt, paramAt := f.device("offload_optimizer", "cpu_offload"), f.device("offload_param", "cpu_offload_param")
	switch strings.TrimPrefix(name, "zero_optimization.") {
	case "stage":
		p.Device = bytesOf(weights) + bytesOf(grads) + bytesOf(optim)
		p.Why = fmt.Sprintf("weights %v, gradients %v, master weights and moments %v on a rank of %g", bytesOf(weights), bytesOf(grads), bytesOf(optim), f.n)
	case "offload_optimizer.device", "cpu_offload":
		if optimAt == "none" || f.stage == 0 {
			p.Why = "nothing moves"
			return
		}
		part := optim
		if f.stage == 3 {
			part *= min(1, f.num("zero_optimization.offload_optimizer.ratio", 1))
		}
		p.Device = -bytesOf(part)
		pinned := 0.0
		if f.stage >= 2 { // gradients go to fp32 buffers of the host as they come
			p.Device -= bytesOf(grads)
			pinned = 2 * grads
		}
		p.Host = bytesOf(pinned)
		if optimAt == "nvme" {
			p.Disk = bytesOf(part)
		} else {
			p.Host += bytesOf(part)
		}
		p.Why = fmt.Sprintf("states of a rank go to %s, gradients to %v of pinned host memory", optimAt, bytesOf(pinned))
	case "offload_optimizer.buffer_count":
		if optimAt == "nvme" {
			p.Host = bytesOf(f.num(name, 4) * 4 * f.largest())
			p.Why = fmt.Sprintf("pinned buffers of the largest tensor, %s elements, in FP32", decimal(f.largest()))
			return
		}
		p.Why = "of NVMe only"
	case "offload_param.device", "cpu_offload_param", "cpu_offload_params":
		if paramAt == "none" || f.stage < 3 {
			p.Why = "nothing moves"
			return
		}
		p.Device = -bytesOf(weights)
		if paramAt == "nvme" {
			p.Disk = bytesOf(weights)
		} else {
			p.Host = bytesOf(weights)
		}
		p.Why = "a rank's share of the weights waits there"
	case "offload_param.buffer_size":
		if paramAt == "nvme" {
			p.Host = bytesOf(2 * f.num(name, 1e8) * f.num("zero_optimization.offload_param.buffer_count", 5))
			p.Why = "pinned, times buffer_count; it has to hold the largest tensor"
			return
		}
		p.Why = "of NVMe only"
	case "offload_param.max_in_cpu":
		if paramAt == "nvme" {
			p.Host = bytesOf(2 * min(f.num(name, 1e9), f.p/f.n))
			p.Why = "weights that stay in host memory"
			return
		}
		p.Why = "of NVMe only"
	case "reduce_bucket_size":
		buffers := 1.0
		if f.on("zero_optimization.overlap_comm", f.stage == 3) {
			buffers = 2
		}
		if f.stage == 0 {
			p.Why = "of stages 1 to 3 only"
			return
		}
		p.Device = bytesOf(2 * buffers * min(f.num(name, 5e8), f.trained))
		p.Why = fmt.Sprintf("%g buffer(s) of 2 bytes an element: one fills while another is reduced, if overlap_comm", buffers)
	case "allgather_bucket_size":
		if f.stage != 1 && f.stage != 2 {
			p.Why = "of stages 1 and 2 only"
			return
		}
		p.Device = bytesOf(2 * min(f.num(name, 5e8), f.p))
		p.Why = "updated weights are gathered by so many elements"
	case "sub_group_size":
		if f.stage == 3 && optimAt == "none" {
			p.Device = bytesOf(4 * min(f.num(name, 1e9), f.trained/f.n))
			p.Why = "FP32 gradients of a sub-group while it is stepped"
			return
		}
		p.Why = "of stage 3 with states on the card only"
	default:
		f.other(name, p, weights, h)
	}
}

// other prices what remains.
func (f *file) other(name string, p *Price, weights, h float64) {
	s := f.job.Shape
	switch strings.TrimPrefix(name, "zero_optimization.") {
	case "stage3_max_live_parameters":
		if f.stage == 3 {
			p.Device = bytesOf(2 * min(f.num(name, 1e9), f.p))
			p.Why = "gathered weights that may be alive, 2 bytes each"
			return
		}
		p.Why = "of stage 3 only"
	case "stage3_prefetch_bucket_size":
		p.Why = fmt.Sprintf("%v are gathered ahead, within stage3_max_live_parameters", mem.Bytes(2*f.num(name, 5e7)))
	case "stage3_param_persistence_threshold":
		if f.stage == 3 && f.num(name, 1e5) >= h {
			whole := 2 * float64(s.Depth()*s.Norms) * h * (1 - 1/f.n)
			p.Device = bytesOf(whole)
			p.Why = "norms and biases stay whole on every rank"
			return
		}
		p.Why = "nothing is that small, or it is not stage 3"
	case "stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save":
		p.Why = "without it the saved model is empty of weights"
		if f.on(name, false) && f.stage == 3 {
			f.rep.Saving = bytesOf(2 * f.p)
			p.Why = fmt.Sprintf("rank 0 gathers %v in host memory while it saves, which is not in the sum", f.rep.Saving)
		}
	case "zero_hpz_partition_size":
		if k := f.num(name, 1); k > 1 && f.stage == 3 {
			p.Device = bytesOf(2 * f.p / k)
			p.Why = "a second share of the weights inside the node, so that the backward pass gathers there"
			return
		}
		p.Why = "no second share"
	case "mics_shard_size":
		if k := f.num(name, 0); k >= 1 && k < f.n && f.stage == 3 {
			per := 16.0
			p.Device = bytesOf(per * f.p * (1/k - 1/f.n))
			p.Why = fmt.Sprintf("states are shared by %g ranks only, and repeated by the others", k)
			return
		}
		p.Why = "shared by all ranks"
	case "fp16.enabled", "bf16.enabled":
		p.Why = "counted under zero_optimization.stage: 2 bytes a weight and gradient, 12 of master and moments, against 4, 4 and 8 in FP32"
	case "data_types.grad_accum_dtype":
		if p.Value == "fp32" && f.half {
			p.Device = bytesOf(f.share(2*f.trained, 2))
			p.Why = "gradients add up in 4 bytes in place of 2"
			return
		}
		p.Why = "gradients add up in their own type"
	case "train_micro_batch_size_per_gpu":
		t := f.tokens()
		kept, logits := 2*h*float64(s.Depth())*t, 14*float64(s.Vocab)*t
		p.Device = bytesOf(kept) + bytesOf(logits)
		p.Why = fmt.Sprintf("of %s tokens: inputs of %d layers %v, with gradient checkpointing; logits %v at 14 bytes", decimal(t), s.Depth(), bytesOf(kept), bytesOf(logits))
	case "activation_checkpointing.cpu_checkpointing":
		if f.on(name, false) {
			kept := bytesOf(2 * h * float64(s.Depth()) * f.tokens())
			p.Device, p.Host, p.Why = -kept, kept, "layers' inputs wait in host memory"
			return
		}
		p.Why = "layers' inputs stay on the card"
	}
}

// largest returns the elements of the largest tensor: an embedding, or a matrix of the MLP.
func (f *file) largest() float64 {
	s := f.job.Shape
	return max(float64(s.Vocab), float64(s.FFN()), float64(s.QWidth())) * float64(s.Hidden)
}

// check finds settings that contradict each other.
func (f *file) check() {
	z := "zero_optimization."
	if f.on("fp16.enabled", false) && f.on("bf16.enabled", false) {
		f.contradict("fp16 and bf16 are both enabled: DeepSpeed allows one")
	}
	if f.on("bf16.enabled", false) && f.num("fp16.loss_scale", 0) > 0 {
		f.contradict("fp16.loss_scale does nothing with bf16, which needs no scaling")
	}
	if train, ok := f.by["train_batch_size"].(float64); ok {
		micro, has := f.by["train_micro_batch_size_per_gpu"].(float64)
		steps := f.num("gradient_accumulation_steps", 1)
		if has && train != micro*steps*f.n {
			f.contradict("train_batch_size %s is not %s a rank × %s accumulated × %s ranks = %s", decimal(train), decimal(micro), decimal(steps), decimal(f.n), decimal(micro*steps*f.n))
		}
	}
	if s, ok := f.by[z+"stage"].(float64); ok && (s > 3 || s < 0 || s != float64(int(s))) {
		f.contradict("zero_optimization.stage is %g: want 0 to 3", s)
	}
	optimAt, paramAt := f.device("offload_optimizer", "cpu_offload"), f.device("offload_param", "cpu_offload_param")
	for _, d := range [][2]string{{"offload_optimizer", optimAt}, {"offload_param", paramAt}} {
		if d[1] != "none" && d[1] != "cpu" && d[1] != "nvme" {
			f.contradict("%s.device is %q: want none, cpu or nvme", d[0], d[1])
		}
		if path, _ := f.by[z+d[0]+".nvme_path"].(string); d[1] == "nvme" && path == "" {
			f.contradict("%s is on nvme without nvme_path", d[0])
		}
		if d[1] == "nvme" && f.stage < 3 {
			f.contradict("%s on nvme needs stage 3; the stage is %d", d[0], f.stage)
		}
	}
	if paramAt != "none" && f.stage < 3 {
		f.contradict("offload_param needs stage 3, since weights are whole before; the stage is %d", f.stage)
	}
	if optimAt != "none" && f.stage == 0 {
		f.contradict("offload_optimizer needs stage 1 to 3; the stage is 0")
	}
	if f.num(z+"offload_optimizer.ratio", 1) < 1 && f.stage < 3 {
		f.contradict("offload_optimizer.ratio below 1 needs stage 3; the stage is %d", f.stage)
	}
	for _, old := range [][2]string{{"cpu_offload", "offload_optimizer.device"}, {"cpu_offload_param", "offload_param.device"}} {
		if _, a := f.by[z+old[0]]; a && f.by[z+old[1]] != nil {
			f.contradict("%s and its successor %s are both set", old[0], old[1])
		}
	}
	for key := range f.by {
		if strings.HasPrefix(key, z+"stage3_") && f.stage < 3 && key != z+"stage3_gather_16bit_weights_on_model_save" && f.by[key] != "auto" {
			f.contradict("%s does nothing at stage %d", key, f.stage)
		}
	}
	if f.on("activation_checkpointing.contiguous_memory_optimization", false) {
		if !f.on("activation_checkpointing.partition_activations", false) {
			f.contradict("contiguous_memory_optimization needs partition_activations")
		}
		if f.num("activation_checkpointing.number_checkpoints", 0) == 0 {
			f.contradict("contiguous_memory_optimization needs number_checkpoints")
		}
	}
	if f.num(z+"zero_hpz_partition_size", 1) > 1 && f.num(z+"mics_shard_size", 0) >= 1 {
		f.contradict("zero_hpz_partition_size and mics_shard_size are two ways to do one thing")
	}
	if k := f.num(z+"zero_hpz_partition_size", 1); k > 1 && (f.stage < 3 || int(f.n)%int(k) != 0) {
		f.contradict("zero_hpz_partition_size %g needs stage 3 and ranks that it divides; there are %g at stage %d", k, f.n, f.stage)
	}
	if size := f.num(z+"offload_param.buffer_size", 1e8); paramAt == "nvme" && size < f.largest() {
		f.contradict("offload_param.buffer_size %s is smaller than the largest tensor, %s elements", decimal(size), decimal(f.largest()))
	}
	for _, key := range priced {
		if x, ok := f.by[key].(float64); ok && x < 0 && key != z+"mics_shard_size" {
			f.contradict("%s is negative", key)
		}
	}
	f.types()
	slices.Sort(f.rep.Contradictions) // some were found in the order of a map
}

// types finds values that DeepSpeed reads as something else than they look like: it stops at them, and no formula here sees them.
func (f *file) types() {
	batches := []string{"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}
	for _, key := range append(batches, priced...) {
		v, there := f.by[key]
		if !there || v == nil || v == "auto" {
			continue
		}
		want, ok := "a number", false
		switch {
		case strings.HasSuffix(key, ".enabled") || strings.HasSuffix(key, "_checkpointing") || strings.HasSuffix(key, "_model_save"):
			want = "true or false"
			_, ok = v.(bool)
		case strings.HasSuffix(key, ".device") || strings.HasSuffix(key, "_dtype"):
			want = "a text"
			_, ok = v.(string)
		case slices.Contains(batches, key):
			want = "a whole number from 1"
			x, isNumber := v.(float64)
			ok = isNumber && x >= 1 && x == math.Trunc(x)
		default:
			_, ok = v.(float64)
		}
		if s := fmt.Sprintf("%s is %s: want %s", key, quoted(v), want); !ok && !slices.Contains(f.rep.Contradictions, s) {
			f.rep.Contradictions = append(f.rep.Contradictions, s)
		}
	}
	for key, v := range f.by {
		if holds(key) && (v != nil || key == "zero_optimization") {
			f.contradict("%s is %s: want an object", key, quoted(v))
		}
	}
}

// quoted is valueText with texts in quotes, as a file has them.
func quoted(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(s)
	}
	return valueText(v)
}

// holds tells whether a path is that of an object with keys that are known.
func holds(path string) bool {
	begins := func(k string) bool { return strings.HasPrefix(k, path+".") }
	if slices.ContainsFunc(priced, begins) {
		return true
	}
	for k := range free {
		if begins(k) {
			return true
		}
	}
	return false
}
