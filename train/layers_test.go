package train

import (
	"fmt"
	"slices"
	"testing"

	"loadline/compile"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/tensor/kernel"
)

// What is planned is told program by program, and so is the least memory of every policy.
func TestPlanningIsTold(t *testing.T) {
	o := options(tiny())
	var told []string
	o.Planning = func(program string) { told = append(told, program) }
	j, err := Compile(o, (&setup{}).dev(), FixedBytes{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{InitProgram, SaveProgram, ResumeProgram, "step, recompute none"}
	if !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
	told = nil
	if _, err := j.Least(); err != nil {
		t.Fatal(err)
	}
	if want = []string{"step, recompute full", "step, least memory of recompute auto"}; !slices.Equal(told, want) {
		t.Errorf("got %q of the least memory, want %q", told, want)
	}
}

// BenchmarkPlanLayers plans runs of models of many layers, with the least memory of every policy. Where the optimizer's state lies below, in pieces, there are
// ten thousand buffers in the programs that start, save and resume.
func BenchmarkPlanLayers(b *testing.B) {
	dev := cpu.New(cpu.Options{Threads: 2, Set: kernel.Generic()})
	plan := func(b *testing.B, o Options) {
		for b.Loop() {
			j, err := Compile(o, dev, FixedBytes{Runtime: RuntimeBytes})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := j.Least(); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, layers := range []int{125, 250, 500} {
		b.Run(fmt.Sprint(layers), func(b *testing.B) {
			o := Defaults(tiny())
			o.Config.NumLayers, o.Batch, o.Seq, o.Memory = layers, 1, 64, 8*mem.GiB
			o.Recompute = compile.Recompute{}
			plan(b, o)
		})
	}
	for _, layers := range []int{30, 60, 100} {
		b.Run(fmt.Sprintf("%d/below", layers), func(b *testing.B) {
			o := Defaults(tiny())
			c := &o.Config
			c.NumLayers, c.HiddenSize, c.NumHeads, c.NumKVHeads, c.HeadDim, c.IntermediateSize, c.VocabSize = layers, 256, 8, 4, 32, 704, 4096
			o.Batch, o.Seq, o.Memory, o.OffloadOptimizer = 4, 64, 8*mem.GiB, true
			plan(b, o)
		})
	}
}
