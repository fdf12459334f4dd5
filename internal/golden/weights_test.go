package golden

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const smolLM2Dir = "../../e2e/testdata/smollm2"

// The goldens must be able to show what they are for: continuations of some length with choices that are no ties, over a text of 64k tokens.
func TestSmolLM2Goldens(t *testing.T) {
	all := LoadContinuations(t, filepath.Join(smolLM2Dir, "greedy.json"))
	if len(all) != 20 {
		t.Errorf("got %d continuations, want 20", len(all))
	}
	for i, c := range all {
		near := 0
		different := map[int32]bool{}
		for k, gap := range c.Gaps {
			if gap < 0 || c.Tokens[k] == c.Seconds[k] {
				t.Errorf("continuation %d, token %d: got %d, second %d, a gap of %v", i, k, c.Tokens[k], c.Seconds[k], gap)
			}
			if gap < 0.05 {
				near++
			}
			different[c.Tokens[k]] = true
		}
		if len(c.Tokens) < 64 || near > len(c.Tokens)/10 || len(different) < 6 {
			t.Errorf("continuation %d: %d tokens, %d different, %d near ties: it proves little", i, len(c.Tokens), len(different), near)
		}
	}
	k := LoadPacked(t, filepath.Join(smolLM2Dir, "packed.json"), all)
	places := 0
	for i, gaps := range k.Gaps {
		places += len(gaps)
		if slices.Equal(gaps, all[i].Gaps) {
			t.Errorf("continuation %d: the gaps are those in float32", i)
		}
	}
	for name, x := range map[string]float64{"plain": k.Plain, "repacked": k.Repacked, "between": k.Between} {
		if !(x > 0.01 && x < 0.5) {
			t.Errorf("packed: %s is %v", name, x)
		}
	}
	if k.Alike[0] > places || k.Alike[1] > places || min(k.Alike[0], k.Alike[1]) < places*9/10 {
		t.Errorf("packed: %v of %d tokens alike", k.Alike, places)
	}
	d := LoadDetermined(t, filepath.Join(smolLM2Dir, "determined.json"))
	varied := 0
	for i, c := range d.Continuations {
		different := map[int32]bool{}
		for k, gap := range c.Gaps {
			if gap < 0 || c.Tokens[k] == c.Seconds[k] {
				t.Errorf("determined: continuation %d, token %d: got %d, second %d, a gap of %v", i, k, c.Tokens[k], c.Seconds[k], gap)
			}
			different[c.Tokens[k]] = true
		}
		if len(c.Tokens) < 64 {
			t.Errorf("determined: continuation %d: %d tokens", i, len(c.Tokens))
		}
		if len(different) > 10 {
			varied++
		}
	}
	if n := len(d.Continuations); n != 20 || varied < n/2 {
		t.Errorf("determined: %d continuations, %d of more than ten different tokens", n, varied)
	}
	p := LoadPerplexity(t, filepath.Join(smolLM2Dir, "perplexity.json"))
	if p.Windows*p.Context < 65536 || p.Tokens != p.Windows*(p.Context-p.Context/2-1) {
		t.Errorf("got %d windows of %d tokens, %d scored", p.Windows, p.Context, p.Tokens)
	}
	if last := p.After[p.Windows-1]; math.Abs(last-p.Perplexity) > 1e-4 || !(last > 5 && last < 100) {
		t.Errorf("perplexity: got %v after the last window, %v in the end", last, p.Perplexity)
	}
	x := LoadTuning(t, filepath.Join(smolLM2Dir, "train.json"))
	for i, r := range x.Runs {
		if first := x.Runs[0]; r.Losses[0] != first.Losses[0] || i > 0 && math.Abs(r.Losses[2]-first.Losses[2]) < 1e-2 {
			t.Errorf("%s: got losses %v, the first run %v: want the same weights, and steps that can be told apart", r.Optimizer, r.Losses, first.Losses)
		}
	}
}

func TestSmolLM2Cache(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("LOADLINE_MODELS", cache)
	t.Setenv("CI", "1")
	if report := fatal(t, func(tb testing.TB) { SmolLM2(tb) }); !strings.Contains(report, "make models") {
		t.Errorf("without the file: got report %q, want one that says what to do", report)
	}
	path := filepath.Join(cache, smolLM2)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := SmolLM2(t); got != path {
		t.Errorf("got %s, want %s", got, path)
	}
}

func TestLoadWeightsRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a field that is not known": `[{"prompt_ids":[1],"tokens":[1],"seconds":[2],"gaps":[1],"x":1}]`,
		"gaps that are missing":     `[{"prompt_ids":[1],"tokens":[1,2],"seconds":[2,3],"gaps":[1]}]`,
		"no tokens":                 `[{"prompt_ids":[1],"tokens":[],"seconds":[],"gaps":[]}]`,
		"no JSON":                   `[`,
	} {
		path := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if report := fatal(t, func(tb testing.TB) { LoadContinuations(tb, path) }); report == "" {
			t.Errorf("%s: is accepted", name)
		}
	}
	path := filepath.Join(t.TempDir(), "packed.json")
	if err := os.WriteFile(path, []byte(`{"plain":0.1,"repacked":0.1,"between":0.1,"alike":[1,1],"gaps":[[1,2]]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, of := range [][]Continuation{nil, {{Tokens: []int32{1}}}} {
		if report := fatal(t, func(tb testing.TB) { LoadPacked(tb, path, of) }); report == "" {
			t.Errorf("gaps of two tokens for %v: are accepted", of)
		}
	}
	if got := LoadPacked(t, path, []Continuation{{Tokens: []int32{1, 2}}}); got.Plain != 0.1 || len(got.Gaps[0]) != 2 {
		t.Errorf("packed: got %+v", got)
	}
	path = filepath.Join(t.TempDir(), "determined.json")
	for _, c := range []struct {
		left string
		ok   bool
	}{{`{"prompts":3},{"prompts":1}`, true}, {``, false}, {`{"prompts":2},{"prompts":3}`, false}, {`{"prompts":4}`, false}, {`{"prompts":0}`, false}} {
		text := `{"pool":3,"left":[` + c.left + `],"continuations":[{"prompt_ids":[1],"tokens":[1],"seconds":[2],"gaps":[1]}]}`
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if report := fatal(t, func(tb testing.TB) { LoadDetermined(tb, path) }); (report == "") != c.ok {
			t.Errorf("one continuation of 3 prompts, left %s: got report %q", c.left, report)
		}
	}
	if report := fatal(t, func(tb testing.TB) { LoadPerplexity(tb, filepath.Join(t.TempDir(), "none")) }); report == "" {
		t.Error("a file that is not there: is accepted")
	}
}
