package pricing

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
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

func price(t *testing.T, body string, j Job) *Report {
	t.Helper()
	rep, err := DeepSpeed([]byte(body), j)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func line(t *testing.T, rep *Report, key string) Price {
	t.Helper()
	for _, p := range rep.Prices {
		if p.Key == key {
			return p
		}
	}
	t.Fatalf("no line for %q in %+v", key, rep.Prices)
	return Price{}
}

// TestStages checks the stages' bytes a parameter against ZeRO's paper, and FP32 without a 16-bit type.
func TestStages(t *testing.T) {
	s := model(t, "Llama-2-7B")
	p := float64(s.Params())
	for _, c := range []struct {
		body string
		want float64
	}{
		{`{"bf16":{"enabled":true},"zero_optimization":{"stage":0}}`, 16}, {`{"bf16":{"enabled":true},"zero_optimization":{"stage":1}}`, 4 + 12.0/64},
		{`{"fp16":{"enabled":true},"zero_optimization":{"stage":2}}`, 2 + 14.0/64}, {`{"bfloat16":{"enabled":true},"zero_optimization":{"stage":3}}`, 16.0 / 64},
		{`{"zero_optimization":{"stage":0}}`, 16},
	} {
		rep := price(t, c.body, Job{Shape: s, Ranks: 64})
		if got := float64(line(t, rep, "zero_optimization.stage").Device) / p; math.Abs(got/c.want-1) > 1e-6 {
			t.Errorf("%s: got %.4f bytes a parameter, want %.4f", c.body, got, c.want)
		}
	}
}

// TestArticle prices the configuration that people copy.
func TestArticle(t *testing.T) {
	s := model(t, "Llama-2-13B")
	p := float64(s.Params())
	rep := price(t, `{"bf16":{"enabled":true},"zero_optimization":{"stage":2,"offload_optimizer":{"device":"cpu","pin_memory":true},"overlap_comm":true,"contiguous_gradients":true,
		"reduce_bucket_size":5e7,"stage3_prefetch_bucket_size":5e7}}`, Job{Shape: s, Ranks: 4})
	if got, want := line(t, rep, "zero_optimization.reduce_bucket_size").Device, mem.Bytes(2*2*5e7); got != want {
		t.Errorf("reduce_bucket_size: got %v, want %v", got, want)
	}
	if got, want := rep.Device, mem.Bytes(2*p+2*2*5e7); math.Abs(float64(got-want)) > 4 {
		t.Errorf("the card: got %v, want weights and buckets, %v", got, want)
	}
	if got, want := float64(rep.Host)/p, 16.0/4; math.Abs(got/want-1) > 1e-6 {
		t.Errorf("the host: got %.3f bytes a parameter, want %.3f", got, want)
	}
	if len(rep.Contradictions) != 1 || !strings.Contains(rep.Contradictions[0], "stage3_prefetch_bucket_size does nothing at stage 2") {
		t.Errorf("got %q", rep.Contradictions)
	}
	sum := mem.Bytes(0)
	for _, l := range rep.Prices {
		sum += l.Device
		if l.Why == "" {
			t.Errorf("%s: no reason", l.Key)
		}
	}
	if sum != rep.Device || len(rep.Prices) != 8 {
		t.Errorf("%d lines sum to %v, want 8 and %v", len(rep.Prices), sum, rep.Device)
	}
}

// TestStage3 checks what stage 3 adds and moves.
func TestStage3(t *testing.T) {
	s := model(t, "Llama-3.1-8B")
	p := float64(s.Params())
	rep := price(t, `{"bf16":{"enabled":true},"train_micro_batch_size_per_gpu":2,"data_types":{"grad_accum_dtype":"fp32"},"zero_optimization":{"stage":3,"max_live_parameters":1e9,"sub_group_size":1e9,
		"stage3_param_persistence_threshold":1e5,"stage3_gather_16bit_weights_on_model_save":true,"zero_hpz_partition_size":8,
		"offload_param":{"device":"nvme","nvme_path":"/x","buffer_size":1e9,"buffer_count":5},"offload_optimizer":{"device":"nvme","nvme_path":"/x","buffer_count":4}}}`, Job{Shape: s, Ranks: 8, Seq: 2048})
	for key, want := range map[string]float64{
		"zero_optimization.max_live_parameters": 2e9, "zero_optimization.zero_hpz_partition_size": 2 * p / 8, "data_types.grad_accum_dtype": 2 * p / 8,
		"train_micro_batch_size_per_gpu": 4096 * (2*4096*32 + 14*128256), "zero_optimization.offload_param.device": -2 * p / 8,
		"zero_optimization.stage3_param_persistence_threshold": 2 * 64 * 4096 * 7 / 8, "zero_optimization.sub_group_size": 0,
	} {
		if got := float64(line(t, rep, key).Device); math.Abs(got-want) > 4 {
			t.Errorf("%s: got %v, want %v", key, mem.Bytes(got), mem.Bytes(want))
		}
	}
	if got, want := float64(rep.Disk), 14*p/8; math.Abs(got-want) > 8 {
		t.Errorf("disk: got %v, want %v", rep.Disk, mem.Bytes(want))
	}
	if got := float64(rep.Saving); math.Abs(got-2*p) > 4 {
		t.Errorf("saving: got %v, want %v", rep.Saving, mem.Bytes(2*p))
	}
	if len(rep.Contradictions) != 0 || len(rep.Unknown) != 0 {
		t.Errorf("got %q and %v", rep.Contradictions, rep.Unknown)
	}
}

// TestAuto checks the numbers that transformers fills in, and the groups of the total.
func TestAuto(t *testing.T) {
	s := model(t, "Llama-3.1-8B")
	const body = `{"bf16":{"enabled":true},"train_micro_batch_size_per_gpu":1,"zero_optimization":{"stage":STAGE,"overlap_comm":true,"reduce_bucket_size":"auto","stage3_prefetch_bucket_size":"auto","stage3_param_persistence_threshold":"auto"}}`
	rep := price(t, strings.Replace(body, "STAGE", "3", 1), Job{Shape: s, Ranks: 8})
	if got, want := line(t, rep, "zero_optimization.reduce_bucket_size"), mem.Bytes(2*2*4096*4096); got.Device != want || !strings.Contains(got.Why, "hidden² = 16,777,216") {
		t.Errorf("got %+v, want %v", got, want)
	}
	if got := line(t, rep, "zero_optimization.stage3_prefetch_bucket_size"); !strings.Contains(got.Why, "15,099,494") {
		t.Errorf("got %+v", got)
	}
	if got := line(t, rep, "zero_optimization.stage3_param_persistence_threshold"); !strings.Contains(got.Why, "40,960") || got.Device != mem.Bytes(2*64*4096*7/8) {
		t.Errorf("got %+v", got)
	}
	sum := mem.Bytes(0)
	for _, g := range rep.Groups {
		sum += g.Device
		if g.Keys == 0 {
			t.Errorf("%s: no key", g.Name)
		}
	}
	if sum != rep.Device || len(rep.Groups) != 3 {
		t.Errorf("got %+v, want %v together", rep.Groups, rep.Device)
	}
	if want := (Settings{Stage: 3, Precision: "bf16", Offload: "none", MicroBatch: 1, SequenceParallel: 1}); rep.Settings != want {
		t.Errorf("got %+v, want %+v", rep.Settings, want)
	}
	rep = price(t, strings.Replace(body, "STAGE", "2", 1), Job{Shape: s, Ranks: 8})
	if got := line(t, rep, "zero_optimization.stage3_prefetch_bucket_size"); strings.Contains(got.Why, "transformers fills") {
		t.Errorf("at stage 2: got %+v", got)
	}
}

// TestFaults checks that unknown, old and contradictory keys are named.
func TestFaults(t *testing.T) {
	s := model(t, "Llama-3.1-8B")
	for body, want := range map[string]string{
		`{"fp16":{"enabled":true},"bf16":{"enabled":true}}`:                                                 "both enabled",
		`{"train_batch_size":32,"train_micro_batch_size_per_gpu":2,"gradient_accumulation_steps":1}`:        "is not 2 a rank × 1 accumulated × 8 ranks = 16",
		`{"zero_optimization":{"stage":2,"offload_param":{"device":"cpu"}}}`:                                "offload_param needs stage 3",
		`{"zero_optimization":{"stage":0,"offload_optimizer":{"device":"cpu"}}}`:                            "offload_optimizer needs stage 1",
		`{"zero_optimization":{"stage":3,"offload_optimizer":{"device":"nvme"}}}`:                           "without nvme_path",
		`{"zero_optimization":{"stage":3,"offload_param":{"device":"nvme","nvme_path":"/x"}}}`:              "smaller than the largest tensor",
		`{"zero_optimization":{"stage":4}}`:                                                                 "want 0 to 3",
		`{"zero_optimization":{"stage":3,"prefetch_bucket_size":1,"stage3_prefetch_bucket_size":2}}`:        "said twice",
		`{"zero_optimization":{"stage":2,"cpu_offload":true,"offload_optimizer":{"device":"cpu"}}}`:         "both set",
		`{"zero_optimization":{"stage":3,"reduce_bucket_size":-1}}`:                                         "negative",
		`{"activation_checkpointing":{"contiguous_memory_optimization":true,"partition_activations":true}}`: "number_checkpoints",
		`{"zero_optimization":{"stage":3,"zero_hpz_partition_size":3}}`:                                     "ranks that it divides",
		`{"zero_optimization":{"stage":2,"offload_optimizer":{"device":"cpu","ratio":0.5}}}`:                "ratio below 1",
		`{"zero_optimization":{"stage":3,"offload_optimizer":{"device":"gpu"}}}`:                            "want none, cpu or nvme",
		`{"bf16":{"enabled":true},"fp16":{"enabled":false,"loss_scale":128}}`:                               "needs no scaling",
	} {
		rep := price(t, body, Job{Shape: s, Ranks: 8})
		if !slices.ContainsFunc(rep.Contradictions, func(c string) bool { return strings.Contains(c, want) }) {
			t.Errorf("%s: got %q, want %q", body, rep.Contradictions, want)
		}
	}
	rep := price(t, `{"zero_optimization":{"stage":2,"overlap_com":true,"cpu_offload":true},"gradient_cliping":1,"optimizer":{"type":"AdamW","params":{"lr":1}}}`, Job{Shape: s})
	want := []Unknown{{"zero_optimization.overlap_com", "zero_optimization.overlap_comm", true}, {"gradient_cliping", "gradient_clipping", false}}
	if !slices.Equal(rep.Unknown, want) {
		t.Errorf("got %+v, want %+v", rep.Unknown, want)
	}
	if len(rep.Deprecated) != 1 || line(t, rep, "zero_optimization.cpu_offload").Host == 0 {
		t.Errorf("got %v, %+v", rep.Deprecated, rep.Prices)
	}
	for _, bad := range []string{`[]`, `{`, `{"a":1,"a":2}`, `{} {}`, strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40)} {
		if _, err := DeepSpeed([]byte(bad), Job{Shape: s}); err == nil {
			t.Errorf("%.40s: got no error", bad)
		}
	}
	if _, err := DeepSpeed([]byte(`{}`), Job{}); err == nil {
		t.Error("no model: got no error")
	}
}

// FuzzDeepSpeed checks that no file brings the pricing down, and that lines add up.
func FuzzDeepSpeed(f *testing.F) {
	f.Add([]byte(`{"bf16":{"enabled":true},"zero_optimization":{"stage":3,"offload_param":{"device":"cpu"},"stage3_max_live_parameters":"auto"},"x":[1,{"y":2}]}`))
	f.Add([]byte(`{"zero_optimization":{"stage":-1,"reduce_bucket_size":1e300}}`))
	s := model(f, "Llama-3.2-1B")
	f.Fuzz(func(t *testing.T, body []byte) {
		rep, err := DeepSpeed(body, Job{Shape: s, Ranks: 4})
		if err != nil {
			return
		}
		sum := mem.Bytes(0)
		for _, p := range rep.Prices {
			sum += p.Device
		}
		if sum != rep.Device {
			t.Errorf("lines sum to %v, want %v", sum, rep.Device)
		}
		if _, err := json.Marshal(rep); err != nil {
			t.Error(err)
		}
	})
}

// TestTypes checks that a value of another type is named, since no formula sees it, and that null sections are as DeepSpeed takes them.
func TestTypes(t *testing.T) {
	for text, want := range map[string]string{
		`{"zero_optimization":{"stage":"3"}}`: `stage is "3": want a number`, `{"bf16":{"enabled":1}}`: "bf16.enabled is 1: want true or false", `{"zero_optimization":[]}`: "want an object",
		`{"zero_optimization":null}`: "zero_optimization is null: want an object", `{"train_micro_batch_size_per_gpu":1.5}`: "want a whole number from 1", `{"gradient_accumulation_steps":0}`: "want a whole number from 1",
		`{"zero_optimization":{"stage":3,"offload_param":null,"reduce_bucket_size":"auto"},"train_batch_size":"auto"}`: "", `{"zero_optimization":{"stage":3,"offload_optimizer":null}}`: "",
	} {
		rep, err := DeepSpeed([]byte(text), Job{Shape: model(t, "Llama-3.1-8B"), Ranks: 8})
		if err != nil || len(rep.Unknown) > 0 || (len(rep.Contradictions) > 0) != (want != "") || want != "" && !strings.Contains(strings.Join(rep.Contradictions, "\n"), want) {
			t.Errorf("%s: got %+v, %v; want %q", text, rep, err, want)
		}
	}
	for _, text := range []string{`{"` + strings.Repeat("k", 1<<19) + `":1}`, `{"a":"` + strings.Repeat("k", 1<<19) + `"}`} {
		if _, err := DeepSpeed([]byte(text), Job{Shape: model(t, "Llama-3.1-8B")}); err == nil || len(err.Error()) > 200 {
			t.Errorf("a word of %d bytes: got %.300v, want a short error", len(text), err)
		}
	}
}
