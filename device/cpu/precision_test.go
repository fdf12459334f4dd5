package cpu_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"loadline/compile"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// TestNarrowTrainingFollowsF32 trains for 100 steps on fresh tokens, half of whose targets follow from the token: the loss of
// bf16 and f16, averaged over ten steps, stays within 1% of f32's all the way.
func TestNarrowTrainingFollowsF32(t *testing.T) {
	want := losses(t, dtype.F32, 1)
	if first, last := want[0], want[len(want)-1]; last > 0.85*first {
		t.Fatalf("the loss in f32 went from %v to %v: it learns too little to compare", first, last)
	}
	for half, scale := range map[dtype.Type]float32{dtype.BF16: 1, dtype.F16: 1024} {
		got := losses(t, half, scale)
		for i := range want {
			if !(math.Abs(got[i]-want[i]) < 0.01*want[i]) {
				t.Errorf("%v: the loss around step %d is %v, in f32 %v", half, 10*i+5, got[i], want[i])
			}
		}
		t.Logf("%v: %v, f32 %v", half, got[len(got)-1], want[len(want)-1])
	}
}

// losses is the mean losses of every ten of 100 steps, with gradients scaled.
func losses(t *testing.T, compute dtype.Type, scale float32) (means []float64) {
	s := small
	s.compute = compute
	x, _, l := open(t, cpu.New(cpu.Options{Threads: 2, Set: kernel.Best()}), s, step(t, s, compile.Options{}, 1, 1)...)
	defer closed(t, x, l)
	rng := rand.New(rand.NewPCG(11, 11))
	n := s.seqs * s.time
	write := func(name string, p []byte) {
		t.Helper()
		if err := x.Write(name, 0, p); err != nil {
			t.Fatal(err)
		}
	}
	write("weight", floats(scale/float32(n)))
	var sum float64
	for i := 1; i <= 100; i++ {
		tokens, targets := make([]int32, n), make([]int32, n)
		for j := range n {
			tokens[j] = int32(rng.IntN(s.vocab))
			targets[j] = (tokens[j]*7 + 3) % int32(s.vocab)
			if rng.IntN(2) == 0 {
				targets[j] = int32(rng.IntN(s.vocab))
			}
		}
		write("tokens", ints(tokens...))
		write("targets", ints(targets...))
		var hyper [graph.HyperLen]float32
		hyper[graph.HyperLR], hyper[graph.HyperGrad] = 1e-3, 1/scale
		hyper[graph.HyperBias1], hyper[graph.HyperBias2] = float32(1-math.Pow(0.9, float64(i))), float32(1-math.Pow(0.95, float64(i)))
		write("hyper", floats(hyper[:]...))
		run(t, x, "step", 1)
		p := make([]byte, 4)
		if err := x.Read("loss", 0, p); err != nil {
			t.Fatal(err)
		}
		sum += float64(math.Float32frombits(binary.LittleEndian.Uint32(p)) / scale)
		if i%10 == 0 {
			means, sum = append(means, sum/10), 0
		}
	}
	return means
}
