package pricing

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"loadline/mem"
)

// auto returns what transformers puts in place of "auto", and how. Source: HfTrainerDeepSpeedConfig.trainer_config_finalize of
// transformers/integrations/deepspeed.py (5.24), where the two of stage 3 are filled at that stage only.
func (f *file) auto(key string) (value float64, how string, ok bool) {
	h := float64(f.job.Shape.Hidden)
	switch key {
	case "zero_optimization.reduce_bucket_size":
		return h * h, "hidden²", true
	case "zero_optimization.stage3_prefetch_bucket_size":
		return float64(int64(0.9 * h * h)), "0.9 · hidden²", f.stage == 3
	case "zero_optimization.stage3_param_persistence_threshold":
		return 10 * h, "10 · hidden", f.stage == 3
	}
	return 0, "", false
}

// Group is what keys of one kind cost a rank's card together.
type Group struct {
	Name   string    `json:"name"`
	Device mem.Bytes `json:"device_bytes"`
	Keys   int       `json:"keys"` // with a price
}

// Names of groups, in their order.
const (
	States  = "weights, gradients and states"
	Buckets = "buckets and gathered weights"
	Work    = "activations, logits and workspace"
)

// groupOf returns the index of the group that a key's bytes are of.
func groupOf(name string) int {
	switch name := strings.TrimPrefix(name, "zero_optimization."); {
	case strings.HasSuffix(name, "_bucket_size"), name == "stage3_max_live_parameters":
		return 1
	case name == "train_micro_batch_size_per_gpu", name == "sub_group_size", strings.HasPrefix(name, "activation_checkpointing."):
		return 2
	}
	return 0
}

// Settings are the choices of a file that a plan of the same job holds.
type Settings struct {
	Stage            int
	Precision        string // bf16, fp16 or fp32
	Offload          string // as plan takes it
	MicroBatch       int
	SequenceParallel int
}

// settings reads the choices.
func (f *file) settings() Settings {
	s := Settings{Stage: f.stage, Precision: "fp32", Offload: "none", MicroBatch: int(min(f.micro(), 1<<20)), SequenceParallel: int(max(1, min(f.num("sequence_parallel_size", 1), 1<<20)))}
	if f.half {
		s.Precision = "bf16"
		if f.on("fp16.enabled", false) {
			s.Precision = "fp16"
		}
	}
	var moved []string
	if f.stage > 0 && f.device("offload_optimizer", "cpu_offload") != "none" {
		moved = append(moved, "optimizer")
	}
	if f.stage == 3 && f.device("offload_param", "cpu_offload_param") != "none" {
		moved = append(moved, "weights")
	}
	if len(moved) > 0 {
		s.Offload = strings.Join(moved, ",")
	}
	return s
}

// valueText writes a value of the file, numbers as decimals.
func valueText(v any) string {
	if x, ok := v.(float64); ok {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	if x, ok := v.(json.Number); ok {
		return x.String()
	}
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}

// decimal writes a count with commas between thousands.
func decimal(x float64) string {
	s := strconv.FormatFloat(x, 'f', -1, 64)
	whole, part, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if part != "" {
		return whole + "." + part
	}
	return whole
}
