package frameworks

import "slices"

// Ability is what a training system can do at all.
type Ability struct {
	System string
	// Precisions of matrix products, the usual one first.
	Precisions []string
	// Adapters are none (full training), lora and qlora.
	Adapters []string
	// Sources are the files of the system's code that say so.
	Sources string
}

// abilities are the systems'. FP8 is what a system's own switch turns on; a library under it that could be wired up by
// hand does not count.
var abilities = []Ability{
	{"deepspeed", []string{"bf16", "fp16"}, []string{"none", "lora"}, "deepspeed/runtime/precision_config.py: sections bf16 and fp16, none for 8 bits"},
	{"torchtitan", []string{"bf16", "fp8"}, []string{"none"}, "torchtitan/config: mixed_precision_param is bfloat16 or float32; components/quantization/float8.py"},
	{"megatron", []string{"bf16", "fp16", "fp8"}, []string{"none"}, "megatron/training/arguments.py: --bf16, --fp16, --fp8-format"},
	{"torchtune", []string{"bf16"}, []string{"none", "lora", "qlora"}, "torchtune recipes: «full fp16 training is not supported with this recipe»; enable_fp8_training of the newest distributed full recipe is not planned for"},
	{"peft", []string{"bf16", "fp16"}, []string{"lora", "qlora"}, "transformers/training_args.py: bf16, fp16"},
	{"fsdp-qlora", []string{"bf16", "fp16"}, []string{"lora", "qlora"}, "fsdp_qlora/train.py: precision is bf16, fp16_autocast or bf16_autocast"},
}

// AbilityOf returns what a system can do; ok is false for one without an entry, as Loadline's own.
func AbilityOf(system string) (a Ability, ok bool) {
	i := slices.IndexFunc(abilities, func(a Ability) bool { return a.System == system })
	if i < 0 {
		return Ability{}, false
	}
	return abilities[i], true
}

// Trains tells whether a system trains in a precision with an adapter; empty words stand for any.
func Trains(system, precision, adapter string) bool {
	a, ok := AbilityOf(system)
	return !ok || (precision == "" || slices.Contains(a.Precisions, precision)) && (adapter == "" || slices.Contains(a.Adapters, adapter))
}
