package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"loadline/device"
	"loadline/internal/golden"
	"loadline/mem"
	"loadline/model/gguf"
	"loadline/model/tokenizer"
	"loadline/model/weights"
	"loadline/serve"
	"loadline/tensor/quant"
)

// near is the distance of the two largest logits below which either may come first: sums in float32 end in other places.
const near = 0.05

// noise is how far root mean squares over these prompts may be apart by chance: each has a standard error of 4%, resampled prompt by prompt.
const noise = 1.1

// smolLM2Context holds the longest prompt and what follows it.
const smolLM2Context = 256

// smolLM2Dir is where llama.cpp's answers are.
var smolLM2Dir = filepath.Join("testdata", "smollm2")

// continuations are llama.cpp's, with the weights that they are of, which it computes widened to float32.
func continuations(t *testing.T) (string, []golden.Continuation) {
	t.Helper()
	return golden.SmolLM2(t), golden.LoadContinuations(t, filepath.Join(smolLM2Dir, "greedy.json"))
}

// diverges returns where the tokens leave the peer's, −1 if nowhere, and reports a place where they may not.
func diverges(t *testing.T, c *golden.Continuation, got []int32) int {
	t.Helper()
	for i, want := range c.Tokens {
		if i == len(got) {
			t.Errorf("%q: ends after %d tokens, want %d", c.Prompt, i, len(c.Tokens))
			return i
		}
		if got[i] == want {
			continue
		}
		t.Logf("%q: token %d is %d, llama.cpp's %d, then %d after a gap of %v", c.Prompt, i, got[i], want, c.Seconds[i], c.Gaps[i])
		if c.Gaps[i] >= near || got[i] != c.Seconds[i] {
			t.Errorf("%q: token %d: got %d, want %d, or %d if less than %v behind: it is %v", c.Prompt, i, got[i], want, c.Seconds[i], near, c.Gaps[i])
		}
		return i
	}
	return -1
}

// widened writes the file with every weight in f32, as a user would, and checks that its weights are those that llama.cpp computed with.
func widened(t *testing.T, path string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "f32.gguf")
	command(t, &struct{}{}, "convert", path, out, "--to", "gguf", "--type", "f32")
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tensors := f.Tensors()
	slices.SortFunc(tensors, func(a, b gguf.Info) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, x := range tensors {
		if x.Type != quant.F32 {
			t.Fatalf("%s is %v, want f32", x.Name, x.Type)
		}
		p := make([]byte, 4*x.Elems())
		if err := f.ReadInto(x.Name, p); err != nil {
			t.Fatal(err)
		}
		h.Write(p)
	}
	want, err := os.ReadFile(filepath.Join(smolLM2Dir, "widened.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != strings.TrimSpace(string(want)) {
		t.Fatalf("weights widened to f32: got SHA-256 %s, want gguf-py's %s", got, want)
	}
	return out
}

// opened is a model file, its tokenizer and the job of an engine for it.
func opened(t *testing.T, path string, dev device.Device, o serve.Options) (*weights.Model, *tokenizer.Tokenizer, *serve.Job, device.Env) {
	t.Helper()
	m, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	tok, err := m.Tokenizer(mem.GiB)
	if err != nil {
		t.Fatal(err)
	}
	o.Config, o.Types, o.Context = m.Config, m.Types, smolLM2Context
	j, err := serve.Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	return m, tok, j, device.Env{Ledger: mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()})}
}

// together continues all prompts at once.
func together(t *testing.T, path string, dev device.Device, all []golden.Continuation) [][]int32 {
	t.Helper()
	m, tok, j, env := opened(t, path, dev, serve.Options{MaxSeqs: len(all)})
	e, err := serve.New(j, dev, env, m.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i, c := range all {
		if got := tok.Encode(c.Prompt); !slices.Equal(got, c.PromptIDs) {
			t.Fatalf("%q: got tokens %v, want %v", c.Prompt, got, c.PromptIDs)
		}
		if err := e.Add(serve.Request{ID: strconv.Itoa(i), Prompt: c.PromptIDs, MaxTokens: len(c.Tokens)}); err != nil {
			t.Fatal(err)
		}
	}
	got := make([][]int32, len(all))
	for !e.Idle() {
		events, err := e.Step()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range events {
			switch x.Kind {
			case serve.Failed:
				t.Fatal(x.Err)
			case serve.Token:
				i, err := strconv.Atoi(x.ID)
				if err != nil {
					t.Fatal(err)
				}
				got[i] = append(got[i], x.Token)
			}
		}
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
	return got
}

// generated is what the tests read of generate's document.
type generated struct {
	TokenIDs []int32   `json:"token_ids"`
	Prompt   int       `json:"prompt_tokens"`
	Ledger   mem.Bytes `json:"ledger_peak_bytes"`
	Promise  mem.Bytes `json:"predicted_peak_bytes"`
	RSS      mem.Bytes `json:"rss_peak_bytes"`
	Text     string    `json:"text"`
}

// generate continues the prompt with the command, past the end of the text too, and checks that its bytes are as planned.
func generate(t *testing.T, path string, c *golden.Continuation) []int32 {
	t.Helper()
	var d generated
	command(t, &d, "generate", "--model", path, "--prompt", c.Prompt, "--max-tokens", strconv.Itoa(len(c.Tokens)), "--temperature", "0", "--ignore-eos")
	if d.Prompt != len(c.PromptIDs) || d.Text == "" {
		t.Errorf("%q: got %d tokens of the prompt, want %d, and the text %q", c.Prompt, d.Prompt, len(c.PromptIDs), d.Text)
	}
	if d.Ledger != d.Promise || d.RSS > d.Promise {
		t.Errorf("%q: promised %v, ledger %v, RSS %v", c.Prompt, d.Promise, d.Ledger, d.RSS)
	}
	return d.TokenIDs
}

// continuesAlike checks that got are llama.cpp's continuations, but for near ties.
func continuesAlike(t *testing.T, all []golden.Continuation, got [][]int32) {
	t.Helper()
	equal := 0
	for i := range all {
		if diverges(t, &all[i], got[i]) < 0 {
			equal++
		}
	}
	t.Logf("%d of %d continuations are llama.cpp's for 64 tokens", equal, len(all))
	if equal < 18 {
		t.Errorf("%d of %d continuations are llama.cpp's for 64 tokens, want 18", equal, len(all))
	}
}

// generatesAlike checks that the command continues the first and the last prompt as the engine did.
func generatesAlike(t *testing.T, path string, all []golden.Continuation, got [][]int32) {
	t.Helper()
	for _, i := range []int{0, len(all) - 1} {
		if x := generate(t, path, &all[i]); !slices.Equal(x, got[i]) {
			t.Errorf("%q: generate gives %v, the engine %v", all[i].Prompt, x, got[i])
		}
	}
}

// Real weights, computed in float32: greedy continuations are llama.cpp's, but for near ties, and the command's are the engine's.
func TestSmolLM2ContinuesAsLlamaCpp(t *testing.T) {
	path, all := continuations(t)
	wide := widened(t, path)
	got := together(t, wide, newCPU(2), all)
	continuesAlike(t, all, got)
	generatesAlike(t, wide, all, got)
}

// Weights as the file has them, for which activations are rounded to 8 bits: logits are off no further than llama.cpp's are, from those
// in float32, and from each other's.
func TestSmolLM2Packed(t *testing.T) {
	path, all := continuations(t)
	want := golden.LoadPacked(t, filepath.Join(smolLM2Dir, "packed.json"), all)
	dev := newCPU(2)
	m, _, j, env := opened(t, path, dev, serve.Options{PrefillChunk: smolLM2Context, Outs: 64})
	r, err := serve.NewRunner(j, dev, env, m.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	var wide, peer squares
	alike := 0
	for i := range all {
		c := &all[i]
		n := len(c.Tokens)
		r.Reset()
		if err := r.Forward(slices.Concat(c.PromptIDs, c.Tokens[:n-1]), n); err != nil {
			t.Fatal(err)
		}
		best := make([]int32, n)
		for k := range n {
			logits, err := r.Logits(k)
			if err != nil {
				t.Fatal(err)
			}
			gap := float64(logits[c.Tokens[k]] - logits[c.Seconds[k]])
			wide.add(gap - c.Gaps[k])
			peer.add(gap - want.Gaps[i][k])
			for id, x := range logits {
				if x > logits[best[k]] {
					best[k] = int32(id)
				}
			}
		}
		left := n // where our own continuation leaves the given tokens
		for k := n - 1; k >= 0; k-- {
			if best[k] == c.Tokens[k] {
				alike++
			} else {
				left = k
			}
		}
		t.Logf("%q: %d tokens as in float32", c.Prompt, left)
		if i == 0 || i == len(all)-1 {
			end := min(left+1, n)
			if x := generate(t, path, c); len(x) != n || !slices.Equal(x[:end], best[:end]) {
				t.Errorf("%q: generate gives %v, the pass %v", c.Prompt, x, best[:end])
			}
		}
	}
	t.Logf("gaps are off by %.4f from those in float32, llama.cpp's by %.4f and %.4f; by %.4f from llama.cpp's, its own by %.4f; alike %d, llama.cpp's %v",
		wide.root(), want.Plain, want.Repacked, peer.root(), want.Between, alike, want.Alike)
	if most := noise * max(want.Plain, want.Repacked); !(wide.root() <= most) {
		t.Errorf("gaps are off by %.4f from those in float32, want at most %.4f", wide.root(), most)
	}
	if most := noise * want.Between; !(peer.root() <= most) {
		t.Errorf("gaps are off by %.4f from llama.cpp's, want at most %.4f", peer.root(), most)
	}
}

// squares is the mean of squares.
type squares struct {
	sum float64
	n   int
}

func (s *squares) add(x float64) { s.sum, s.n = s.sum+x*x, s.n+1 }

func (s *squares) root() float64 { return math.Sqrt(s.sum / float64(s.n)) }

// perplexityWindows is how many of the golden's windows a test takes; scripts/peers/72-llamacpp-perplexity.sh takes them all.
const perplexityWindows = 8

// The perplexity of the text's first windows is llama.cpp's within 0.3%.
func TestSmolLM2Perplexity(t *testing.T) {
	path := golden.SmolLM2(t)
	want := golden.LoadPerplexity(t, filepath.Join(smolLM2Dir, "perplexity.json"))
	windows := perplexityWindows
	if testing.Short() {
		windows = 2
	}
	text := textFile(t, want.Bytes)
	var d struct {
		Perplexity float64 `json:"perplexity"`
		Tokens     int     `json:"tokens"`
	}
	command(t, &d, "eval", "--perplexity", "--model", path, "--data", text, "--context", strconv.Itoa(want.Context), "--windows", strconv.Itoa(windows))
	if n := windows * want.Tokens / want.Windows; d.Tokens != n {
		t.Errorf("got %d tokens scored, want %d", d.Tokens, n)
	}
	peer := want.After[windows-1]
	t.Logf("perplexity of %d windows: %.4f, llama.cpp's %.4f", windows, d.Perplexity, peer)
	if off := math.Abs(d.Perplexity/peer - 1); !(off <= 0.003) {
		t.Errorf("perplexity of %d windows: got %v, want %v within 0.3%%: off by %.3f%%", windows, d.Perplexity, peer, 100*off)
	}
}
