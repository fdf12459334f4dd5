package search

import (
	"errors"
	"math"
	"strings"
	"testing"

	"loadline/mem"
	"loadline/planner/hardware"
)

// TestPositions checks that a context ends where the model's positions do, in serving and in training, and that a default obeys.
func TestPositions(t *testing.T) {
	for _, task := range []string{Serve, Train, Finetune} {
		long := func(q *Question) { q.Seq, q.Context = 65536, 65536 }
		_, err := Plans(ask(t, "Llama-2-7B", "8xH100", task, long))
		var bad *Invalid
		if !errors.As(err, &bad) || bad.Nearest != "4096" || bad.What != map[string]string{Serve: "context", Train: "seq", Finetune: "seq"}[task] {
			t.Errorf("%s of Llama-2-7B at 65536: got %v", task, err)
		}
		for _, model := range []string{"Llama-3.1-8B", "MPT-7B"} { // within, and unknown
			if _, err := Plans(ask(t, model, "8xH100", task, long)); err != nil {
				t.Errorf("%s of %s at 65536: %v", task, model, err)
			}
		}
		a, err := Plans(ask(t, "Pythia-6.9b", "8xH100", task, nil))
		if err != nil || task == Serve && a.Question.Context != 2048 || task != Serve && a.Question.Seq != 2048 {
			t.Errorf("%s of pythia-6.9b: got %+v, %v, want the model's 2048", task, a, err)
		}
	}
}

// TestQueue checks that servers let sequences wait that the cache does not hold, and that no layers go to the CPU for them.
func TestQueue(t *testing.T) {
	q := ask(t, "Llama-3.1-8B", "H100", Serve, func(q *Question) {
		q.Context, q.Concurrency, q.Hold.Quant, q.Hold.KVType = 8192, 100, "bf16", "f16"
	})
	a, err := Plans(q)
	if err != nil || !a.Fits {
		t.Fatalf("got %+v, %v", a, err)
	}
	p := &a.Plans[0]
	if c := p.Config; c.System != "vllm" && c.System != "sglang" || p.Running < 40 || p.Running >= 100 || p.Most != p.Running || c.Concurrency != p.Running || p.CacheTokens != int64(p.Most)*8192 {
		t.Errorf("got %d of 100 at once, %d at most, %d tokens on %+v", p.Running, p.Most, p.CacheTokens, c)
	}
	for _, p := range a.Plans {
		if p.Config.System == "llamacpp" && p.Config.GPULayers < q.Shape.Depth() {
			t.Errorf("layers on the CPU, where a server fits: %+v", p.Config)
		}
	}
	if text := a.Text(); !strings.Contains(text, "of 100 sequences at once, the rest wait") || !strings.Contains(a.Next, "all 100 sequences at once need") {
		t.Errorf("the text does not say who waits: %s", text)
	}
	// One more sequence than that is too near the limit.
	more := q
	more.Concurrency, more.Framework = p.Running+1, "vllm"
	if b, err := Plans(more); err != nil || b.Plans[0].Running != p.Running {
		t.Errorf("one more: got %+v, %v, want %d", b, err, p.Running)
	}
	more.Concurrency = p.Running
	if b, err := Plans(more); err != nil || b.Plans[0].Running != p.Running || more.queues(&b.Plans[0]) {
		t.Errorf("as many as fit: got %+v, %v", b, err)
	}
	few, err := Plans(ask(t, "Llama-3.1-8B", "8xH100", Serve, func(q *Question) {
		q.Context, q.Concurrency, q.Hold.Quant, q.Hold.KVType, q.Objective = 8192, 100, "bf16", "f16", Fewest
	}))
	if err != nil || few.Plans[0].Ranks != 2 || few.Plans[0].Running != 100 {
		t.Errorf("fewest cards for all at once: got %+v, %v, want 2", few.Plans[0].Config, err)
	}
}

// TestServedPrecision checks that --precision of serving is held, or refused where another flag says otherwise.
func TestServedPrecision(t *testing.T) {
	for precision, want := range map[string]string{"bf16": "bf16", "fp16": "bf16", "fp8": "fp8"} {
		a, err := Plans(ask(t, "Llama-3.1-8B", "H100", Serve, func(q *Question) { q.Hold.Precision = precision }))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range a.Plans {
			if p.Config.Quant != want {
				t.Errorf("%s: got %+v", precision, p.Config)
			}
		}
	}
	var bad *Invalid
	if _, err := Plans(ask(t, "Llama-3.1-8B", "H100", Serve, func(q *Question) { q.Hold.Precision, q.Hold.Quant = "bf16", "q4_k_m" })); !errors.As(err, &bad) {
		t.Errorf("bf16 beside q4_k_m: got %v", err)
	}
}

// TestCache checks that keys and values stay in 16 bits where these fit, that reasons agree with numbers, and that windows are spoken of.
func TestCache(t *testing.T) {
	for _, x := range []struct {
		model, machine string
		context        int
		kv             string // of the chosen plan
		words          string
	}{
		{"gemma-3-27b", "RTX-4090", 32768, "f16", "10 layers that see everything"},
		{"Qwen3-30B-A3B", "RTX-4090", 32768, "f16", "96 KiB a token"},
		{"gpt-oss-120b", "H100", 4096, "f16", "see 128, and keep no more"},
		{"Llama-3.1-70B", "RTX-4090", 4096, "f16", "of 80 layers on the cards"},
		{"Llama-3.1-8B", "RTX-3090", 131072, "q8_0", "in eight bits, since 16 do not fit"},
	} {
		a, err := Plans(ask(t, x.model, x.machine, Serve, func(q *Question) { q.Context = x.context }))
		if err != nil || !a.Fits {
			t.Fatalf("%s: got %+v, %v", x.model, a, err)
		}
		best := &a.Plans[0]
		if best.Config.KVType != x.kv || !strings.Contains(best.Why, x.words) {
			t.Errorf("%s on %s at %d: got %+v, %s", x.model, x.machine, x.context, best.Config, best.Why)
		}
		for _, reason := range best.Path { // what does not fit is not also just slower
			if _, claim, ok := strings.Cut(reason, "nothing of eight bits or more fits"); ok && strings.Contains(claim, "q8_0 takes") {
				t.Errorf("%s: the reason contradicts itself: %s", x.model, reason)
			}
		}
	}
}

// TestPublishedFormat checks gpt-oss, which is published in MXFP4: 60.8 and 12.8 GiB by its makers' table.
func TestPublishedFormat(t *testing.T) {
	for model, want := range map[string]float64{"gpt-oss-120b": 60.8, "gpt-oss-20b": 12.8} {
		for _, held := range []string{"", "mxfp4"} {
			a, err := Plans(ask(t, model, "H100", Serve, func(q *Question) { q.Framework, q.Hold.Quant = "vllm", held }))
			if err != nil || !a.Fits {
				t.Fatalf("%s: got %+v, %v", model, a, err)
			}
			p := &a.Plans[0]
			got := float64(p.ByPurpose["weights"]) / float64(mem.GiB)
			if p.Config.Quant != "mxfp4" || math.Abs(got/want-1) > 0.02 || strings.Contains(p.Why, "perplexity") {
				t.Errorf("%s: got %.2f GiB of %s, want %.2f of mxfp4: %s", model, got, p.Config.Quant, want, p.Why)
			}
		}
	}
}

// TestNoCard checks that a machine without cards is not spoken of as if it had some.
func TestNoCard(t *testing.T) {
	table, err := hardware.Load()
	if err != nil {
		t.Fatal(err)
	}
	card, err := table.Find("Apple M3 Ultra")
	if err != nil {
		t.Fatal(err)
	}
	card.Vendor, card.Name = HostVendor, "this machine"
	q := ask(t, "Llama-3.1-8B", "H100", Serve, nil)
	q.Machine = Machine{Card: card, Nodes: 1, PerNode: 1}
	for _, model := range []string{"Llama-3.1-8B", "Llama-3.1-405B"} {
		q.Shape = ask(t, model, "H100", Serve, nil).Shape
		a, err := Plans(q)
		if err != nil {
			t.Fatal(err)
		}
		if text := a.Text(); strings.Contains(text, "the cards") || strings.Contains(text, "a card") {
			t.Errorf("%s: got %s", model, text)
		}
	}
	q.Task = Train
	var bad *Invalid
	if _, err := Plans(q); !errors.As(err, &bad) || !strings.Contains(bad.Why, "Loadline's own runs") || strings.Contains(bad.Nearest, " ") {
		t.Errorf("training: got %v", err)
	}
}
