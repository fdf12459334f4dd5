package model

import "testing"

// Speed at which a run's start weights are made.
func BenchmarkFill(b *testing.B) {
	c, _ := mustPreset(b, "llama-tiny")
	p := c.Parameters()[0]
	dst := make([]float32, p.Elems())
	b.SetBytes(int64(4 * len(dst)))
	for b.Loop() {
		Fill(p, 1, 0, dst)
	}
}

// Building the graph of a step of a large model, which is done before anything is planned.
func BenchmarkTrainGraph(b *testing.B) {
	c, _ := mustPreset(b, "llama-tiny")
	c.HiddenSize, c.NumLayers, c.NumHeads, c.NumKVHeads, c.HeadDim, c.IntermediateSize, c.VocabSize = 8192, 80, 64, 8, 128, 28672, 128256
	for b.Loop() {
		if _, err := TrainGraph(c, TrainOptions{Name: "step", Batch: 1, Seq: 8192}); err != nil {
			b.Fatal(err)
		}
	}
}
