package e2e

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"loadline/data/corpus"
	"loadline/device"
	"loadline/internal/golden"
	"loadline/mem"
	"loadline/model/weights"
	"loadline/serve"
)

// near is the distance of the two largest logits below which either may come first: llama.cpp rounds activations to 8 bits at other places.
const near = 0.05

// continuations are llama.cpp's, with the weights that they are of.
func continuations(t *testing.T) (string, []golden.Continuation) {
	t.Helper()
	return golden.SmolLM2(t), golden.LoadContinuations(t, filepath.Join("testdata", "smollm2", "greedy.json"))
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

// Real weights: greedy continuations are llama.cpp's, but for near ties.
func TestSmolLM2ContinuesAsLlamaCpp(t *testing.T) {
	path, all := continuations(t)
	m, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tok, err := m.Tokenizer(mem.GiB)
	if err != nil {
		t.Fatal(err)
	}
	o := serve.Options{Config: m.Config, Types: m.Types, Context: 256, MaxSeqs: len(all)}
	dev := newCPU(2)
	j, err := serve.Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	e, err := serve.New(j, dev, device.Env{Ledger: mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()})}, m.Source)
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
	equal := 0
	for i := range all {
		if at := diverges(t, &all[i], got[i]); at < 0 || at >= 64 {
			equal++
		}
	}
	if equal < 18 {
		t.Errorf("%d of %d continuations are llama.cpp's for 64 tokens, want 18", equal, len(all))
	}
	t.Logf("%d of %d continuations are llama.cpp's for 64 tokens", equal, len(all))
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

// The command gives the same tokens as the engine: one of a text, one of a conversation.
func TestSmolLM2Generate(t *testing.T) {
	path, all := continuations(t)
	for _, i := range []int{0, len(all) - 2} {
		c := &all[i]
		var d struct {
			TokenIDs []int32   `json:"token_ids"`
			Prompt   int       `json:"prompt_tokens"`
			Ledger   mem.Bytes `json:"ledger_peak_bytes"`
			Promise  mem.Bytes `json:"predicted_peak_bytes"`
			RSS      mem.Bytes `json:"rss_peak_bytes"`
			Text     string    `json:"text"`
		}
		command(t, &d, "generate", "--model", path, "--prompt", c.Prompt, "--max-tokens", strconv.Itoa(len(c.Tokens)), "--temperature", "0")
		if d.Prompt != len(c.PromptIDs) || d.Text == "" {
			t.Errorf("%q: got %d tokens of the prompt, want %d, and the text %q", c.Prompt, d.Prompt, len(c.PromptIDs), d.Text)
		}
		diverges(t, c, d.TokenIDs)
		if d.Ledger != d.Promise || d.RSS > d.Promise {
			t.Errorf("%q: promised %v, ledger %v, RSS %v", c.Prompt, d.Promise, d.Ledger, d.RSS)
		}
	}
}

// perplexityWindows is how many of the golden's windows a test takes; scripts/peers/72-llamacpp-perplexity.sh takes them all.
const perplexityWindows = 8

// The perplexity of the text's first windows is llama.cpp's within 0.3%.
func TestSmolLM2Perplexity(t *testing.T) {
	path := golden.SmolLM2(t)
	want := golden.LoadPerplexity(t, filepath.Join("testdata", "smollm2", "perplexity.json"))
	windows := perplexityWindows
	if testing.Short() {
		windows = 2
	}
	b := make([]byte, want.Bytes)
	if _, err := io.ReadFull(corpus.Text(), b); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(text, b, 0o644); err != nil {
		t.Fatal(err)
	}
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
