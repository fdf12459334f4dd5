package golden

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// smolLM2 is the file's name in the cache.
const smolLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"

// SmolLM2 returns the path of the weights that `make models` fetches, SmolLM2-135M-Instruct in Q4_1. Where they are not, t fails under CI
// and is skipped elsewhere, since a checkout without network has no way to them.
func SmolLM2(t testing.TB) string {
	t.Helper()
	cache := os.Getenv("LOADLINE_MODELS") // as scripts/models.sh has it
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Fatalf("golden: %v", err)
		}
		cache = filepath.Join(dir, "loadline", "models")
	}
	path := filepath.Join(cache, smolLM2)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("golden: %v: make models fetches it", err)
		}
		t.Skipf("golden: %v: make models fetches it", err)
	}
	return path
}

// Continuation is what a peer wrote after a prompt, greedily.
type Continuation struct {
	Prompt    string    `json:"prompt"`
	PromptIDs []int32   `json:"prompt_ids"`
	Tokens    []int32   `json:"tokens"`
	Seconds   []int32   `json:"seconds"` // the token that came second in each place
	Gaps      []float64 `json:"gaps"`    // and by how much its logit was less
}

// Perplexity is what a peer made of the beginning of a text in windows of Context tokens, the second half of each scored.
type Perplexity struct {
	Bytes      int       `json:"bytes"` // of the text
	Context    int       `json:"context"`
	Windows    int       `json:"windows"`
	Tokens     int       `json:"tokens"` // scored
	Perplexity float64   `json:"perplexity"`
	After      []float64 `json:"after"` // after each window
}

// LoadContinuations reads the continuations at path and fails t if it cannot.
func LoadContinuations(t testing.TB, path string) []Continuation {
	t.Helper()
	var all []Continuation
	load(t, path, &all)
	checkContinuations(t, path, all)
	return all
}

func checkContinuations(t testing.TB, path string, all []Continuation) {
	t.Helper()
	for i, c := range all {
		if n := len(c.Tokens); n == 0 || n != len(c.Seconds) || n != len(c.Gaps) || len(c.PromptIDs) == 0 {
			t.Fatalf("golden: %s: continuation %d: %d tokens, %d seconds, %d gaps, want as many of each", path, i, n, len(c.Seconds), len(c.Gaps))
		}
	}
}

// Determined is what a peer wrote after prompts about which it agrees with itself, in whatever way it computes: the first of a pool for which that is so.
type Determined struct {
	Pool          int            `json:"pool"` // prompts that there were
	Left          []Left         `json:"left"`
	Continuations []Continuation `json:"continuations"` // tokens of all variants, gaps of the first
}

// Left is how many prompts of a pool have the same continuation in a variant as in all before it.
type Left struct {
	Variant string `json:"variant"`
	Prompts int    `json:"prompts"`
}

// LoadDetermined reads the continuations at path and fails t if it cannot.
func LoadDetermined(t testing.TB, path string) Determined {
	t.Helper()
	var d Determined
	load(t, path, &d)
	checkContinuations(t, path, d.Continuations)
	last := d.Pool
	for _, x := range d.Left {
		if x.Prompts > last {
			t.Fatalf("golden: %s: %q leaves %d prompts of %d", path, x.Variant, x.Prompts, last)
		}
		last = x.Prompts
	}
	if len(d.Left) == 0 || len(d.Continuations) == 0 || len(d.Continuations) > last {
		t.Fatalf("golden: %s: %d continuations of %d prompts that %d variants left", path, len(d.Continuations), last, len(d.Left))
	}
	return d
}

// LoadPerplexity reads the perplexity at path and fails t if it cannot.
func LoadPerplexity(t testing.TB, path string) Perplexity {
	t.Helper()
	var p Perplexity
	load(t, path, &p)
	if p.Windows == 0 || p.Windows != len(p.After) {
		t.Fatalf("golden: %s: %d windows, %d values, want one each", path, p.Windows, len(p.After))
	}
	return p
}

// Packed is what a peer makes of the tokens of continuations, given to it, with weights as the file has them, on two sets of kernels.
type Packed struct {
	Plain    float64     `json:"plain"`    // root mean square of how far gaps are off on the first set
	Repacked float64     `json:"repacked"` // on the second
	Between  float64     `json:"between"`  // and of the distance of one from the other
	Alike    [2]int      `json:"alike"`    // tokens that are the likeliest on each
	Gaps     [][]float64 `json:"gaps"`     // by how much Seconds' logits are less than Tokens', on the first
}

// LoadPacked reads what path says of the continuations and fails t if it cannot.
func LoadPacked(t testing.TB, path string, of []Continuation) Packed {
	t.Helper()
	var p Packed
	load(t, path, &p)
	if len(p.Gaps) != len(of) {
		t.Fatalf("golden: %s: gaps of %d continuations, want %d", path, len(p.Gaps), len(of))
	}
	for i, gaps := range p.Gaps {
		if len(gaps) != len(of[i].Tokens) {
			t.Fatalf("golden: %s: continuation %d: %d gaps of %d tokens", path, i, len(gaps), len(of[i].Tokens))
		}
	}
	return p
}

// Tuning is how a peer trained from the weights: runs over the same windows.
type Tuning struct {
	Seq    int         `json:"seq"`    // tokens of a window; a step takes one
	Steps  int         `json:"steps"`  // of each run
	Tokens []int32     `json:"tokens"` // windows back to back, and one more
	Runs   []TuningRun `json:"runs"`
}

// TuningRun is one of its runs, with a rate that stays. Settings that its optimizer does not have are 0.
type TuningRun struct {
	Optimizer   string  `json:"optimizer"`
	LR          float64 `json:"lr"`
	Beta1       float64 `json:"beta1"`
	Beta2       float64 `json:"beta2"`
	Eps         float64 `json:"eps"`
	Momentum    float64 `json:"momentum"`
	WeightDecay float64 `json:"weight_decay"` // of tensors of two or more axes
	Clip        float64 `json:"clip"`

	Losses    []float64 `json:"losses"`     // before each step's update, computed in float32
	GradNorms []float64 `json:"grad_norms"` // global norm before clipping
}

// LoadTuning reads the runs at path and fails t if it cannot.
func LoadTuning(t testing.TB, path string) Tuning {
	t.Helper()
	var x Tuning
	load(t, path, &x)
	if len(x.Runs) == 0 || x.Steps == 0 || len(x.Tokens) != x.Steps*x.Seq+1 {
		t.Fatalf("golden: %s: %d runs, %d tokens for %d windows of %d", path, len(x.Runs), len(x.Tokens), x.Steps, x.Seq)
	}
	for _, r := range x.Runs {
		if len(r.Losses) != x.Steps || len(r.GradNorms) != x.Steps {
			t.Fatalf("golden: %s: %s: %d losses, %d norms, want %d of each", path, r.Optimizer, len(r.Losses), len(r.GradNorms), x.Steps)
		}
	}
	return x
}

// load reads the JSON at path into x; a field that x does not have fails t.
func load(t testing.TB, path string, x any) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(file))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(x); err != nil {
		t.Fatalf("golden: %s: %v", path, err)
	}
}
