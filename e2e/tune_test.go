package e2e

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"loadline/compile"
	"loadline/data"
	"loadline/data/corpus"
	"loadline/device"
	"loadline/internal/golden"
	"loadline/mem"
	"loadline/model/weights"
	"loadline/train"
)

// textFile writes the beginning of the corpus to a file.
func textFile(t *testing.T, n int) string {
	t.Helper()
	p := make([]byte, n)
	if _, err := io.ReadFull(corpus.Text(), p); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(path, p, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Training begins with a GGUF file's weights, widened, and what it writes is run by the verbs that run models.
func TestTrainFromGGUF(t *testing.T) {
	dir, text := t.TempDir(), textFile(t, 32<<10)
	path := func(name string) string { return filepath.Join(dir, name) }
	shape := []string{"--batch", "2", "--seq", "64"}
	train := func(out string, args ...string) (d document) {
		t.Helper()
		command(t, &d, slices.Concat([]string{"train", "--out", path(out)}, shape, args)...)
		if d.Ledger != d.Predicted || d.RSS > d.Predicted {
			t.Errorf("train %v: promised %v, ledger %v, RSS %v", args, d.Predicted, d.Ledger, d.RSS)
		}
		return d
	}
	train("first", "--preset", "llama-tiny", "--steps", "5")
	command(t, &struct{}{}, "convert", path("first"), path("q8_0.gguf"), "--to", "gguf", "--type", "q8_0")
	command(t, &struct{}{}, "convert", path("q8_0.gguf"), path("wide.gguf"), "--to", "gguf", "--type", "f32")

	const template = "{% for m in messages %}{{ m.content }}{% endfor %}" // what goes with a model goes with what is made of it
	steps, err := filepath.Glob(path("first/step-*"))
	if err != nil || len(steps) == 0 {
		t.Fatalf("got checkpoints %v and %v, want some", steps, err)
	}
	for _, step := range steps {
		if err := os.WriteFile(filepath.Join(step, "chat_template.jinja"), []byte(template), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	train("again", "--model", path("first"), "--steps", "1")
	if found, err := filepath.Glob(path("again/step-*/chat_template.jinja")); err != nil || len(found) != 1 {
		t.Errorf("got chat templates %v and %v, want one", found, err)
	}

	// A step that is too small to change a weight leaves what was widened.
	train("still", "--model", path("q8_0.gguf"), "--steps", "1", "--lr", "1e-30")
	tuned := train("tuned", "--model", path("q8_0.gguf"), "--steps", "20", "--lr", "1e-3", "--warmup", "2")

	type result struct {
		tokens     []int32
		perplexity float64
	}
	measure := func(model string) (r result) {
		t.Helper()
		var g struct {
			TokenIDs []int32   `json:"token_ids"`
			Ledger   mem.Bytes `json:"ledger_peak_bytes"`
			Promise  mem.Bytes `json:"predicted_peak_bytes"`
		}
		command(t, &g, "generate", "--model", path(model), "--prompt", "To be, or not", "--max-tokens", "24", "--temperature", "0", "--ignore-eos")
		if len(g.TokenIDs) != 24 || g.Ledger != g.Promise {
			t.Errorf("generate with %s: got %d tokens, promised %v, ledger %v", model, len(g.TokenIDs), g.Promise, g.Ledger)
		}
		var e struct {
			Perplexity float64 `json:"perplexity"`
		}
		command(t, &e, "eval", "--perplexity", "--model", path(model), "--data", text, "--context", "64", "--windows", "16")
		return result{g.TokenIDs, e.Perplexity}
	}
	wide, still, after := measure("wide.gguf"), measure("still"), measure("tuned")
	if !slices.Equal(still.tokens, wide.tokens) || math.Abs(still.perplexity/wide.perplexity-1) > 1e-9 {
		t.Errorf("after a step of no size: got %v, want the widened weights' %v", still, wide)
	}
	if !(after.perplexity < 0.9*wide.perplexity) {
		t.Errorf("after %d steps: perplexity %v, before %v", len(tuned.Losses), after.perplexity, wide.perplexity)
	}
	var i struct {
		Parameters int64 `json:"parameters"`
		Types      []struct {
			Type string `json:"type"`
		} `json:"types"`
		Tokenizer *struct {
			Tokens int `json:"tokens"`
		} `json:"tokenizer"`
	}
	command(t, &i, "inspect", path("tuned"))
	if i.Parameters == 0 || len(i.Types) != 1 || i.Types[0].Type != "F32" || i.Tokenizer == nil || i.Tokenizer.Tokens == 0 {
		t.Errorf("inspect: got %+v, want parameters in F32 alone and a tokenizer", i)
	}
}

// tuningBound is how far losses may be from PyTorch's, as a share of them.
const tuningBound = 5e-5

// tuningRows yields a golden's windows, one a step.
type tuningRows struct {
	*golden.Tuning
	next int
}

// Next gives the next window.
func (r *tuningRows) Next(tokens, targets []int32) error {
	at := r.next * r.Seq
	copy(tokens, r.Tokens[at:])
	copy(targets, r.Tokens[at+1:])
	r.next++
	return nil
}

// Position and Seek are for resuming, which these runs do not do.
func (r *tuningRows) Position() data.Position  { return data.Position{Index: int64(r.next)} }
func (r *tuningRows) Seek(data.Position) error { return errors.New("a golden begins at its beginning") }

// Real weights, widened from a GGUF file, are trained as PyTorch trains them: losses before each step and norms of the gradients.
func TestSmolLM2TrainsAsPyTorch(t *testing.T) {
	path := golden.SmolLM2(t)
	g := golden.LoadTuning(t, filepath.Join(smolLM2Dir, "train.json"))
	_, config, err := weights.ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range g.Runs {
		if testing.Short() && i > 0 {
			break
		}
		t.Run(want.Optimizer, func(t *testing.T) {
			o := train.Defaults(config)
			o.Batch, o.Seq, o.Steps = 1, g.Seq, g.Steps
			o.LR, o.Schedule, o.Warmup, o.Clip, o.WeightDecay = want.LR, train.Constant, 0, want.Clip, want.WeightDecay
			if o.Optimizer, err = compile.ParseOptimizer(want.Optimizer); err != nil {
				t.Fatal(err)
			}
			switch o.Optimizer {
			case compile.AdamW:
				o.Beta1, o.Beta2, o.Eps = want.Beta1, want.Beta2, want.Eps
			case compile.SGD:
				o.Momentum = want.Momentum
			}
			got := run(t, o, setup{
				device:  func(int) device.Device { return newCPU(2) },
				weights: path,
				batches: func() train.Batches { return &tuningRows{Tuning: &g} },
			})
			for s, loss := range want.Losses {
				off, norm := float64(got.losses[s])/loss-1, float64(got.norms[s])/want.GradNorms[s]-1
				t.Logf("step %d: loss %v, off by %.2g; norm %v, off by %.2g", s, got.losses[s], off, got.norms[s], norm)
				if !(math.Abs(off) <= tuningBound) || !(math.Abs(norm) <= 1e-3) {
					t.Errorf("step %d: got loss %v and norm %v, want %v within %v and %v within 0.1%%", s, got.losses[s], got.norms[s], loss, tuningBound, want.GradNorms[s])
				}
			}
		})
	}
}
