package search

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"loadline/planner/frameworks"
)

// TestAble checks that no framework is planned for what it cannot do, that every refusal names what can be asked
// instead, and that what it names is then planned.
func TestAble(t *testing.T) {
	for _, system := range Frameworks(Finetune) {
		one, ok := frameworks.AbilityOf(system)
		if !ok || one.Sources == "" {
			t.Fatalf("%s has no abilities", system)
		}
		for _, card := range []string{"8xH100-SXM-80GB", "8xV100-SXM2-32GB"} {
			for _, precision := range []string{"", "bf16", "fp16", "fp8"} {
				for _, adapter := range []string{"none", "lora", "qlora"} {
					q := ask(t, "Llama-3.2-1B", card, Finetune, func(q *Question) {
						q.Framework, q.Seq, q.GlobalBatch, q.Hold.Precision, q.Hold.Adapter = system, 1024, 8, precision, adapter
					})
					a, err := Plans(q)
					var bad *Invalid
					old := strings.HasPrefix(card, "8xV100")
					used := precision
					if used == "" {
						used = "bf16"
						if old {
							used = "fp16"
						}
					}
					can := slices.Contains(one.Precisions, used) && slices.Contains(one.Adapters, adapter) && !(old && used != "fp16")
					switch {
					case can && err != nil:
						t.Errorf("%s %s %q %s: %v", system, card, precision, adapter, err)
					case !can && (!errors.As(err, &bad) || bad.Nearest == "" || strings.Contains(err.Error(), "\n")):
						t.Errorf("%s %s %q %s: got %+v, %v, want a refusal", system, card, precision, adapter, a, err)
					case can && !slices.Contains(one.Precisions, "fp8") && strings.Contains(strings.Join(a.Plans[0].Path, " "), "fp8"):
						t.Errorf("%s %s: speaks of fp8: %q", system, card, a.Plans[0].Path)
					}
				}
			}
		}
	}
	q := ask(t, "Qwen3-8B", "V100-SXM2-32GB", Finetune, func(q *Question) { q.Framework = "torchtune" })
	_, err := Plans(q)
	var bad *Invalid
	if !errors.As(err, &bad) || bad.What != "framework" {
		t.Fatalf("got %v", err)
	}
	q.Framework = bad.Nearest
	if _, err := Plans(q); err != nil {
		t.Errorf("the nearest, %s: %v", bad.Nearest, err)
	}
}

// TestSimplest checks that the first plan is the fastest that fits or within two percent of it, and that none of the
// others splits the model in fewer ways, is as fast, and takes as little.
func TestSimplest(t *testing.T) {
	for _, system := range []string{"torchtitan", "megatron", "any"} {
		q := ask(t, "Llama-3.1-8B", "8xH100", Train, func(q *Question) { q.Framework, q.Seq, q.GlobalBatch = system, 8192, 8 })
		a, err := Plans(q)
		if err != nil {
			t.Fatal(err)
		}
		best := a.Plans[0]
		for _, p := range a.Plans[1:] {
			if p.TokensPerSecond > best.TokensPerSecond/(1-near)*1.0001 {
				t.Errorf("%s: %s is more than 2%% faster than the best, %s", system, p.Line(&q), best.Line(&q))
			}
			if p.TokensPerSecond >= best.TokensPerSecond && p.Peak <= best.Peak && p.Config.kinds() < best.Config.kinds() {
				t.Errorf("%s: %s is simpler, smaller and as fast as %s", system, p.Line(&q), best.Line(&q))
			}
		}
		if c := best.Config; system == "torchtitan" && (c.TP != 1 || c.PP != 1) {
			t.Errorf("got %s, want plain FSDP", best.Line(&q))
		}
	}
}

// TestHalfStates checks that torchtune's full training says what its states lack.
func TestHalfStates(t *testing.T) {
	a, err := Plans(ask(t, "Llama-3.1-8B", "8xH100", Finetune, func(q *Question) { q.Framework, q.Hold.Adapter = "torchtune", "none" }))
	if err != nil {
		t.Fatal(err)
	}
	if why := strings.Join(a.Plans[0].Path, "\n"); !strings.Contains(why, "8 bytes each") || !strings.Contains(why, "without FP32 master weights") {
		t.Errorf("got %s", why)
	}
}
