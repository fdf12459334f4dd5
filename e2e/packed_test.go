package e2e

import (
	"path/filepath"
	"testing"

	"loadline/device/cpu"
	"loadline/internal/golden"
	"loadline/tensor/kernel"
)

// Real weights as the file has them, keys and values in float32: on prompts that llama.cpp continues alike in all of its ways (chosen by
// that alone, from a pool; see determined.py), greedy continuations are its own, but for near ties, and the command's are the engine's.
func TestSmolLM2PackedContinuesAsLlamaCpp(t *testing.T) {
	path := golden.SmolLM2(t)
	d := golden.LoadDetermined(t, filepath.Join(smolLM2Dir, "determined.json"))
	all := d.Continuations
	t.Logf("llama.cpp continues %d of %d prompts alike in all of its ways", d.Left[len(d.Left)-1].Prompts, d.Pool)
	best := kernel.Best().Name()
	for _, set := range kernel.Sets() {
		// Generic loops take minutes, and products of bf16 are not in it.
		if name := set.Name(); name != best && (name == kernel.Generic().Name() || name == "avx512bf16" || testing.Short()) {
			continue
		}
		t.Run(set.Name(), func(t *testing.T) {
			got := together(t, path, cpu.New(cpu.Options{Threads: 2, Set: set}), all)
			continuesAlike(t, all, got)
			if set.Name() == best {
				generatesAlike(t, path, all, got)
			}
		})
	}
}
