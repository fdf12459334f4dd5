package frameworks

import (
	"math"
	"testing"

	"loadline/mem"
	"loadline/planner/shape"
)

func model(t testing.TB, name string) *shape.Shape {
	t.Helper()
	cards, err := shape.Load()
	if err != nil {
		t.Fatal(err)
	}
	s, ok := cards.ByName(name)
	if !ok {
		t.Fatalf("no card %q", name)
	}
	return s
}

// all are the training formulas.
var all = map[string]func(Job) (Estimate, error){
	"megatron": Megatron, "megatron-deepspeed": MegatronDeepSpeed, "deepspeed": DeepSpeed, "peft": HFTrainer, "hf": HFFinetune, "torchtitan": TorchTitan,
	"torchtune": TorchTune, "colossalai": ColossalAI, "litgpt": LitGPT, "fsdp-qlora": FSDPQLoRA, "transformers": HFInference, "litgpt-generate": LitGenerate,
}

// states adds up what a rank holds for parameters.
func states(e Estimate) float64 {
	n := mem.Bytes(0)
	for _, p := range []mem.Purpose{mem.Weights, mem.MasterWeights, mem.Grads, mem.OptimState} {
		n += e.Usage[mem.Device][p]
	}
	return float64(n)
}

// TestZeRO checks the states of Megatron's and DeepSpeed's stages against ZeRO's paper: bytes a parameter on d ranks
// (arXiv 1910.02054, figure 1).
func TestZeRO(t *testing.T) {
	s := model(t, "Llama-2-7B")
	p := float64(s.Params())
	const d = 64.0
	for stage, want := range map[Sharding]float64{Replicated: 16, ShardOptim: 4 + 12/d, ShardGrads: 2 + 14/d, ShardWeights: 16 / d} {
		e, err := DeepSpeed(Job{Shape: s, Ranks: d, MicroBatch: 1, Seq: 128, Shard: stage, Recompute: Full})
		if err != nil {
			t.Fatal(err)
		}
		if got := states(e) / p; math.Abs(got/want-1) > 0.01 {
			t.Errorf("stage %d: got %.3f bytes a parameter, want %.3f", stage, got, want)
		}
	}
	e, err := DeepSpeed(Job{Shape: s, Ranks: d, MicroBatch: 1, Seq: 128, Shard: ShardWeights, Recompute: Full, OffloadOptim: 1, OffloadParams: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := states(e) / p; got > 0.01 {
		t.Errorf("all offloaded: got %.3f bytes a parameter on the device, want none", got)
	}
	if got := float64(e.Usage.Total(mem.Host)) / p; got < 16/d {
		t.Errorf("all offloaded: got %.3f bytes a parameter on the host, want at least %.3f", got, 16/d)
	}
}

// TestMonotone checks that more tokens, or a longer context, never need less, and more ranks never more.
func TestMonotone(t *testing.T) {
	for _, name := range []string{"Llama-3.1-8B", "Mixtral-8x7B", "DeepSeek-V2-Lite", "gemma-3-4b"} {
		s := model(t, name)
		for system, plan := range all {
			last := mem.Bytes(0)
			for _, mbs := range []int{1, 2, 3, 8, 64} {
				e, err := plan(Job{Shape: s, Ranks: 8, MicroBatch: mbs, Seq: 4096, Shard: ShardWeights, Recompute: Full})
				if err != nil {
					t.Fatalf("%s %s: %v", system, name, err)
				}
				if e.Allocated() < last {
					t.Errorf("%s %s: got %v for a micro-batch of %d, less than %v for a smaller one", system, name, e.Allocated(), mbs, last)
				}
				last = e.Allocated()
				if e.Cached < 0 || e.Driver < 0 || e.Reserved() < e.Allocated() || e.Process() < e.Reserved() {
					t.Errorf("%s %s: got allocated %v, reserved %v, process %v, want them in order", system, name, e.Allocated(), e.Reserved(), e.Process())
				}
			}
		}
		for _, plan := range []func(Job) (Estimate, error){Megatron, DeepSpeed, TorchTitan} {
			last := mem.Bytes(math.MaxInt64)
			for _, n := range []int{1, 2, 8, 64, 512} {
				e, err := plan(Job{Shape: s, Ranks: n, MicroBatch: 1, Seq: 4096, Shard: ShardWeights, Recompute: Full})
				if err != nil {
					t.Fatal(err)
				}
				if e.Allocated() > last {
					t.Errorf("%s: got %v on %d ranks, more than %v on fewer", name, e.Allocated(), n, last)
				}
				last = e.Allocated()
			}
		}
	}
}

// TestRecompute checks that each policy needs no more than the one before it.
func TestRecompute(t *testing.T) {
	s := model(t, "Llama-3.1-8B")
	base := Job{Shape: s, Ranks: 8, TP: 8, MicroBatch: 2, Seq: 8192, SequenceParallel: true, Shard: ShardOptim, Unfused: true, Dropout: true}
	for _, order := range [][]func(*Job){
		{func(*Job) {}, func(j *Job) { j.Recompute, j.Modules = Selective, []string{"core_attn"} }, func(j *Job) { j.Recompute, j.Modules = Selective, []string{"core_attn", "layernorm"} }},
		{func(*Job) {}, func(j *Job) { j.Recompute, j.BlockLayers = Full, 8 }, func(j *Job) { j.Recompute, j.BlockLayers = Full, 24 }, func(j *Job) { j.Recompute = Full }},
		{func(*Job) {}, func(j *Job) { j.Recompute, j.UniformLayers = Full, 4 }},
	} {
		last := mem.Bytes(math.MaxInt64)
		for i, set := range order {
			j := base
			set(&j)
			e, err := Megatron(j)
			if err != nil {
				t.Fatal(err)
			}
			if e.Allocated() >= last {
				t.Errorf("policy %d, %v of %d blocks and %v: got %v, want less than %v", i, j.Recompute, j.BlockLayers, j.Modules, e.Allocated(), last)
			}
			last = e.Allocated()
		}
	}
	half, err := Megatron(Job{Shape: s, Ranks: 8, MicroBatch: 1, Seq: 2048, OffloadOptim: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Megatron(Job{Shape: s, Ranks: 8, MicroBatch: 1, Seq: 2048})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := float64(whole.Allocated()-half.Allocated()), 6*float64(s.Params()); math.Abs(got/want-1) > 0.02 {
		t.Errorf("half of the optimizer on the host: saves %g bytes, want about %g", got, want)
	}
}

// TestRefused checks that what is no job is an error.
func TestRefused(t *testing.T) {
	s := model(t, "Llama-3.1-8B")
	for system, plan := range all {
		for _, j := range []Job{{}, {Shape: s}, {Shape: s, Seq: -1}, {Shape: s, Seq: 1, MicroBatch: -4}, {Shape: s, Seq: 1 << 40}} {
			if _, err := plan(j); err == nil {
				t.Errorf("%s: got no error for %d tokens a sequence, micro-batch %d", system, j.Seq, j.MicroBatch)
			}
		}
	}
}

// TestVLLM checks the bytes of a cached token against start-up logs: bytes of the cache over its tokens.
func TestVLLM(t *testing.T) {
	for _, c := range []struct {
		model string
		tp    int
		want  float64
	}{
		{"DeepSeek-Coder-V2-Lite", 1, 34560}, // 59.75 GiB for 1,856,368 tokens, latent width 576 padded to 640
		{"Qwen3-30B-A3B", 1, 98304},          // 19.40 GiB for 211,936
		{"Llama-3.1-8B", 1, 131072},
		{"Llama-3.1-8B", 8, 16384},
		{"Qwen3-235B-A22B", 4, 48128}, // one of four key-value heads a rank
	} {
		j := Serve{Job: Job{Shape: model(t, c.model), TP: c.tp, Seq: 32768}, Memory: 80 << 30}
		if got := j.kvBytes(); got != c.want {
			t.Errorf("%s TP %d: got %g bytes a token, want %g", c.model, c.tp, got, c.want)
		}
	}
	got, err := VLLM(Serve{Job: Job{Shape: model(t, "Llama-3.1-8B"), Seq: 8192}, Memory: 80 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if got.Tokens < 380_000 || got.Tokens > 460_000 || math.Abs(got.Concurrency-float64(got.Tokens)/8192) > 1 {
		t.Errorf("Llama-3.1-8B on 80 GiB: got %d tokens for %.1f sequences, want about 410,000 as logs show", got.Tokens, got.Concurrency)
	}
	if got, err := VLLM(Serve{Job: Job{Shape: model(t, "Llama-3.1-70B"), Seq: 8192}, Memory: 80 << 30}); err != nil || got.Tokens != 0 {
		t.Errorf("weights larger than the card: got %d tokens, %v, want none", got.Tokens, err)
	}
}

// TestLlamaCppKV checks caches against llama.cpp's logs, in MiB.
func TestLlamaCppKV(t *testing.T) {
	q8 := CacheType{34, 32}
	f16 := CacheType{2, 1}
	for _, c := range []struct {
		name  string
		run   LlamaCpp
		wantM float64
	}{
		{"Gemma-3-27B", LlamaCpp{Context: 131072, K: f16, V: f16}, 63488},
		{"Qwen3-32B", LlamaCpp{Context: 40960, K: f16, V: f16}, 10240},
		{"DeepSeek V3 0324", LlamaCpp{Context: 32768, MLA: 3, Flash: true, K: q8, V: q8}, 1166.625},
		{"DeepSeek V3 0324", LlamaCpp{Context: 512, K: f16, V: f16}, 2440},
		{"DeepSeek V3 0324", LlamaCpp{Context: 1024, MLA: 1, K: f16, V: f16}, 61 * 2 * (576 + 512) / 1024.0},
		{"Command-R-35B", LlamaCpp{Context: 4096, K: f16, V: f16}, 5120},
		{"GLM Z1 32B 0414", LlamaCpp{Context: 5120, K: q8, V: q8}, 162.03125},
		{"Gemma-3-27B", LlamaCpp{Context: 131072, K: f16, V: f16, Windowed: true, MicroB: 512}, (10*131072 + 52*1536) * 8192 / 1048576.0},
	} {
		c.run.Shape = model(t, c.name)
		if got := c.run.KV() / (1 << 20); math.Abs(got-c.wantM) > 0.01 {
			t.Errorf("%s, %d tokens: got %.2f MiB, want %.2f", c.name, c.run.Context, got, c.wantM)
		}
	}
	for _, name := range []string{"q9", "f8", "-"} {
		if _, err := CacheTypeByName(name); err == nil {
			t.Errorf("cache type %q: got no error", name)
		}
	}
}

func TestSpread(t *testing.T) {
	s := Spread{0.05}
	low, high := s.Range(1000)
	if low >= 1000 || high <= 1000 {
		t.Errorf("got a range from %d to %d around 1000", low, high)
	}
	for _, c := range []struct {
		usable mem.Bytes
		want   float64
	}{{1000, 0.5}, {high, 0.1}, {low, 0.9}, {1, 1}, {1e9, 0}, {0, 1}} {
		if got := s.Over(1000, c.usable); math.Abs(got-c.want) > 0.01 {
			t.Errorf("chance of more than %d: got %.3f, want %.3f", c.usable, got, c.want)
		}
	}
	if nothing, over := s.Over(0, 0), s.Over(0, -1); nothing != 0 || over != 1 {
		t.Errorf("nothing on a card with nothing, and with less: got %g and %g, want 0 and 1", nothing, over)
	}
}

// TestOptimizers checks torchao's published peaks of Llama-2-7B in bf16 on an A100: 51.6, 39.1 and 33.2 GB with fused,
// 8-bit and 4-bit AdamW (torchao/optim/README.md).
func TestOptimizers(t *testing.T) {
	for name, want := range map[string]float64{"": 51.6, "torchao8bit": 39.1, "torchao4bit": 33.2} {
		e, err := TorchTune(Job{Shape: model(t, "Llama-2-7B"), MicroBatch: 1, Seq: 2048, Recompute: Full, Optimizer: name})
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(e.Allocated()) / (1 << 30); math.Abs(got/want-1) > 0.05 {
			t.Errorf("%q: got %.1f GiB, want %.1f", name, got, want)
		}
	}
}

// TestStages checks that the stages of a pipeline hold all parameters between them, and that the first keeps the most
// micro-batches.
func TestStages(t *testing.T) {
	s := model(t, "Qwen3-8B")
	base := Job{Shape: s, Ranks: 4, PP: 4, MicroBatch: 1, GlobalBatch: 64, Seq: 4096}
	weights := 0.0
	var activations []mem.Bytes
	for stage := range 4 {
		base.Stage = stage
		e, err := Megatron(base)
		if err != nil {
			t.Fatal(err)
		}
		weights += float64(e.Usage[mem.Device][mem.Weights])
		activations = append(activations, e.Usage[mem.Device][mem.Activations])
	}
	if want := 2 * float64(s.Params()); math.Abs(weights/want-1) > 0.01 {
		t.Errorf("got %.4g bytes of weights over the stages, want %.4g", weights, want)
	}
	if r := float64(activations[3]) / float64(activations[0]); math.Abs(r-4) > 0.01 {
		t.Errorf("got %.2f times the last stage's activations on the first of four, want 4", r)
	}
	base.Stage, base.GlobalBatch = 3, 1
	if e, err := Megatron(base); err != nil || math.Abs(float64(e.Usage[mem.Device][mem.Activations])/float64(activations[0])-1) > 0.01 {
		t.Errorf("one micro-batch: got %v of activations, %v, want %v", e.Usage[mem.Device][mem.Activations], err, activations[0])
	}
	base.Stage, base.GlobalBatch, base.ChunkLayers = 3, 64, 3
	if e, err := Megatron(base); err != nil || float64(e.Usage[mem.Device][mem.Activations]) <= 4*float64(activations[0]) {
		t.Errorf("interleaved: got %v on the first stage, %v, want more than four times %v", e.Usage[mem.Device][mem.Activations], err, activations[0])
	}
	base.Stage = 4
	if _, err := Megatron(base); err == nil {
		t.Error("stage 4 of 4: got no error")
	}
}
