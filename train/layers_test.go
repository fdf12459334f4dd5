package train

import (
	"fmt"
	"testing"

	"loadline/compile"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/tensor/kernel"
)

// BenchmarkPlanLayers plans runs of models of many layers, with the least memory of every policy.
func BenchmarkPlanLayers(b *testing.B) {
	dev := cpu.New(cpu.Options{Threads: 2, Set: kernel.Generic()})
	for _, layers := range []int{125, 250, 500} {
		b.Run(fmt.Sprint(layers), func(b *testing.B) {
			o := Defaults(tiny())
			o.Config.NumLayers, o.Batch, o.Seq, o.Memory = layers, 1, 64, 8*mem.GiB
			o.Recompute = compile.Recompute{}
			for b.Loop() {
				j, err := Compile(o, dev, FixedBytes{Runtime: RuntimeBytes})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := j.Least(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
