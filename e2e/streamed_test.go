package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"loadline/mem"
	"loadline/model/gguf"
	"loadline/tensor/quant"
)

// The geometry of a model whose matrices take more than the runtime does.
const (
	streamedWidth, streamedFFN, streamedLayers = 768, 2560, 10
	streamedHeads, streamedKVHeads             = 12, 6
	streamedContext                            = 384
)

// streamedRun is what the tests of streaming read of generate's document.
type streamedRun struct {
	document
	TokenIDs   []int32   `json:"token_ids"`
	Prompt     int       `json:"prompt_tokens"`
	Context    int       `json:"context"`
	Speed      float64   `json:"tokens_per_second"`
	Streamed   mem.Bytes `json:"streamed_bytes_per_pass"`
	ReadRate   float64   `json:"read_bytes_per_second"`
	MostPasses float64   `json:"passes_per_second_bound"`
}

// refusal is its document where it does not fit.
type refusal struct {
	Fits    *bool     `json:"fits"`
	Limit   mem.Bytes `json:"limit_bytes"`
	Peak    mem.Bytes `json:"predicted_peak_bytes"`
	Largest []struct {
		Purpose string    `json:"purpose"`
		Bytes   mem.Bytes `json:"bytes"`
	} `json:"largest"`
	Nearest string `json:"nearest"`
	Try     string `json:"try"`
}

// byteVocabulary is a tokenizer of single bytes, with a merge that no text here has and a token that ends a text.
func byteVocabulary() gguf.Metadata {
	var tokens []string
	var types []int32
	more := rune(256)
	for b := range rune(256) {
		r := b
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae && b <= 0xff) { // as GPT-2 writes bytes that are no letters
			r, more = more, more+1
		}
		tokens, types = append(tokens, string(r)), append(types, 1)
	}
	tokens, types = append(tokens, "QZ", "<|end|>"), append(types, 1, 3)
	return gguf.Metadata{
		{Key: "tokenizer.ggml.model", Value: "gpt2"}, {Key: "tokenizer.ggml.pre", Value: "gpt-2"},
		{Key: "tokenizer.ggml.tokens", Value: tokens}, {Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: []string{"Q Z"}}, {Key: "tokenizer.ggml.eos_token_id", Value: uint32(257)},
	}
}

// randomGGUF writes a Llama with random weights, its matrices of a type, and returns its path and their bytes.
func randomGGUF(t *testing.T, typ quant.Type) (string, mem.Bytes) {
	t.Helper()
	meta := append(gguf.Metadata{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(streamedLayers)}, {Key: "llama.context_length", Value: uint32(streamedContext)},
		{Key: "llama.embedding_length", Value: uint32(streamedWidth)}, {Key: "llama.feed_forward_length", Value: uint32(streamedFFN)},
		{Key: "llama.attention.head_count", Value: uint32(streamedHeads)}, {Key: "llama.attention.head_count_kv", Value: uint32(streamedKVHeads)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)}, {Key: "llama.rope.freq_base", Value: float32(10000)},
	}, byteVocabulary()...)
	const vocab, kv = 258, streamedWidth / streamedHeads * streamedKVHeads
	infos := []gguf.Info{
		{Name: "token_embd.weight", Type: typ, Shape: []int64{vocab, streamedWidth}},
		{Name: "output_norm.weight", Type: quant.F32, Shape: []int64{streamedWidth}},
		{Name: "output.weight", Type: typ, Shape: []int64{vocab, streamedWidth}},
	}
	for i := range streamedLayers {
		for _, x := range []struct {
			name      string
			rows, row int64
		}{
			{"attn_q", streamedWidth, streamedWidth}, {"attn_k", kv, streamedWidth}, {"attn_v", kv, streamedWidth}, {"attn_output", streamedWidth, streamedWidth},
			{"ffn_gate", streamedFFN, streamedWidth}, {"ffn_up", streamedFFN, streamedWidth}, {"ffn_down", streamedWidth, streamedFFN},
		} {
			infos = append(infos, gguf.Info{Name: fmt.Sprintf("blk.%d.%s.weight", i, x.name), Type: typ, Shape: []int64{x.rows, x.row}})
		}
		for _, name := range []string{"attn_norm", "ffn_norm"} {
			infos = append(infos, gguf.Info{Name: fmt.Sprintf("blk.%d.%s.weight", i, name), Type: quant.F32, Shape: []int64{streamedWidth}})
		}
	}
	path := filepath.Join(t.TempDir(), typ.String()+".gguf")
	w, err := gguf.Create(path, infos, meta, 0)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	var matrices mem.Bytes
	for _, i := range infos {
		n := int64(1)
		for _, d := range i.Shape {
			n *= d
		}
		x := make([]float32, n)
		for k := range x {
			if x[k] = 1; len(i.Shape) == 2 {
				x[k] = (random.Float32() - 0.5) / 8
			}
		}
		size, _ := i.Type.Bytes(n)
		p := make([]byte, size)
		if err := errors.Join(quant.Encode(p, i.Type, x), w.Write(i.Name, p)); err != nil {
			t.Fatal(err)
		}
		if len(i.Shape) == 2 {
			matrices += mem.Bytes(size)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path, matrices
}

// onePage is n bytes to go on from, which are as many tokens.
func onePage(n int) string {
	return strings.Repeat("All the world's a stage, and all the men and women merely players. ", n/60+1)[:n]
}

// refused runs a command that does not fit.
func refused(t *testing.T, args ...string) (r refusal, said string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path, append(args, "--json")...)
	c.Env = environ("")
	var out, text bytes.Buffer
	c.Stdout, c.Stderr = &out, &text
	var exit *exec.ExitError
	if err := c.Run(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Fatalf("loadline %s: got %v, want exit code 3\n%s", strings.Join(args, " "), err, text.String())
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("loadline %s: %v in\n%s", strings.Join(args, " "), err, out.String())
	}
	return r, text.String()
}

// keepsLimit checks the memory that a document tells of.
func keepsLimit(t *testing.T, d *streamedRun, limit mem.Bytes) {
	t.Helper()
	t.Logf("limit %v, predicted %v, ledger %v, resident %v; %v streamed at %v/s, at most %.1f passes/s; %.1f tokens/s",
		d.Limit, d.Predicted, d.Ledger, d.RSS, d.Streamed, mem.Bytes(d.ReadRate), d.MostPasses, d.Speed)
	if d.Limit != limit || d.Predicted == 0 || d.Predicted != d.Ledger || d.Predicted > limit {
		t.Errorf("got a limit of %d bytes, %d predicted, %d in the ledger, want the limit %d and the same bytes within it", d.Limit, d.Predicted, d.Ledger, limit)
	}
	if runtime.GOOS == "linux" && (d.RSS == 0 || d.RSS > limit) {
		t.Errorf("the process held %v, the limit is %v", d.RSS, limit)
	}
}

// A model is larger than the limit: the process stays under it, from load over a prompt and new tokens to the last position, and says what
// it says with room. What does not fit at all is refused with what would, and each of these does.
func TestWeightsLargerThanTheLimit(t *testing.T) {
	const newOnes = 24
	for _, x := range []struct {
		typ   quant.Type
		limit mem.Bytes
	}{{quant.F16, 96 * mem.MiB}, {quant.Q8_0, 72 * mem.MiB}} {
		t.Run(x.typ.String(), func(t *testing.T) {
			if testing.Short() && x.typ != quant.Q8_0 {
				return
			}
			path, matrices := randomGGUF(t, x.typ)
			if x.limit >= matrices {
				t.Fatalf("the matrices are %v, the limit %v: nothing is tested", matrices, x.limit)
			}
			generate := func(prompt, tokens int, limit mem.Bytes, more ...string) []string {
				return append([]string{
					"generate", "--model", path, "--prompt", onePage(prompt), "--max-tokens", fmt.Sprint(tokens), "--temperature", "0.8", "--seed", "7",
					"--threads", "2", "--memory", fmt.Sprint(int64(limit)),
				}, more...)
			}
			var room, tight streamedRun
			command(t, &room, generate(streamedContext-newOnes, newOnes, mem.GiB)...)
			if keepsLimit(t, &room, mem.GiB); room.Streamed != 0 || room.ReadRate != 0 {
				t.Errorf("with room %v are streamed", room.Streamed)
			}
			if len(room.TokenIDs) != newOnes || room.Prompt+newOnes != streamedContext || room.Context != streamedContext {
				t.Fatalf("got %d tokens after %d with a context of %d, want %d to the last position", len(room.TokenIDs), room.Prompt, room.Context, newOnes)
			}
			different := map[int32]bool{}
			for _, id := range room.TokenIDs {
				different[id] = true
			}
			if len(different) < newOnes/3 {
				t.Errorf("%v has %d different tokens: it proves little", room.TokenIDs, len(different))
			}
			command(t, &tight, generate(streamedContext-newOnes, newOnes, x.limit)...)
			keepsLimit(t, &tight, x.limit)
			if !slices.Equal(tight.TokenIDs, room.TokenIDs) {
				t.Errorf("got tokens %v, with room %v", tight.TokenIDs, room.TokenIDs)
			}
			if least := matrices - x.limit; tight.Streamed < least || tight.Streamed > matrices {
				t.Errorf("%v are streamed of %v, want at least %v", tight.Streamed, matrices, least)
			}
			if got, want := tight.MostPasses, tight.ReadRate/float64(tight.Streamed); tight.ReadRate <= 0 || got < 0.99*want || got > 1.01*want {
				t.Errorf("%v read at %.0f bytes/s allow %v passes/s, want %v", tight.Streamed, tight.ReadRate, got, want)
			}
			if x.typ == quant.Q8_0 { // the same for every type
				refuses(t, generate, x.limit)
			}
		})
	}
}

// refuses asks for less and less memory, and does what the refusals advise.
func refuses(t *testing.T, generate func(prompt, tokens int, limit mem.Bytes, more ...string) []string, limit mem.Bytes) {
	t.Helper()
	const newOnes = 2
	with := func(context int, limit mem.Bytes, more ...string) []string {
		return generate(8, newOnes, limit, append(more, "--context", fmt.Sprint(context), "--prefill-chunk", "16")...)
	}
	runs := func(context int, limit mem.Bytes, more ...string) {
		t.Helper()
		var d streamedRun
		command(t, &d, with(context, limit, more...)...)
		if keepsLimit(t, &d, limit); d.Context != context || len(d.TokenIDs) != newOnes {
			t.Errorf("got %d tokens and a context of %d, want %d and %d", len(d.TokenIDs), d.Context, newOnes, context)
		}
	}
	raise := func(r *refusal) (n mem.Bytes) {
		t.Helper()
		m := regexp.MustCompile(`--memory (\d+)MiB`).FindStringSubmatch(r.Try)
		if m == nil {
			t.Fatalf("advice %q names no limit", r.Try)
		}
		fmt.Sscan(m[1], &n)
		return n * mem.MiB
	}
	hopeless, _ := refused(t, with(streamedContext, 40*mem.MiB)...)
	enough := raise(&hopeless)
	if enough < hopeless.Peak || enough > limit {
		t.Fatalf("got %+v: want an advice between its peak and %v", hopeless, limit)
	}
	runs(streamedContext, enough)
	// A little less: less context would do, and so would narrower keys and values.
	less := enough - 3*mem.MiB
	r, said := refused(t, with(streamedContext, less)...)
	if r.Fits == nil || *r.Fits || r.Limit != less || r.Peak <= less || r.Peak > enough || len(r.Largest) == 0 || r.Largest[0].Bytes == 0 {
		t.Errorf("got %+v, want that it does not fit into %v, and the largest lines", r, less)
	}
	for _, want := range []string{r.Peak.String(), less.String(), "even if every pass read", r.Largest[0].Purpose, r.Nearest} {
		if !strings.Contains(said, want) {
			t.Errorf("the refusal %q does not name %q", said, want)
		}
	}
	m := regexp.MustCompile(`^--context (\d+), or --kv-type (\S+), or --memory `).FindStringSubmatch(r.Try)
	if m == nil || raise(&r) > enough {
		t.Fatalf("advice %q: want a context and a type that fit, and no more memory than %v", r.Try, enough)
	}
	var context int
	fmt.Sscan(m[1], &context)
	if context >= streamedContext || context < streamedContext/4 {
		t.Errorf("a context of %d is advised", context)
	}
	runs(context, less)
	refused(t, with(context+1, less)...)
	runs(streamedContext, less, "--kv-type", m[2])
}

// The file of a model may be cut while it is read: the process says so and ends.
func TestStreamedFileIsCut(t *testing.T) {
	path, matrices := randomGGUF(t, quant.F16)
	cut := filepath.Join(t.TempDir(), "cut.gguf")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, whole[:len(whole)-int(matrices/8)], 0o644); err != nil {
		t.Fatal(err)
	}
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "generate", "--model", cut, "--prompt", "x", "--max-tokens", "2", "--memory", "96MiB")
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "try: ") {
		t.Errorf("got %v: %s", err, out)
	}
}

// A file that is cut while its weights are streamed ends the process, which says why once.
func TestFileIsCutWhileStreamed(t *testing.T) {
	path, matrices := randomGGUF(t, quant.Q8_0)
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "generate", "--model", path, "--prompt", "x", "--max-tokens", fmt.Sprint(streamedContext-1), "--memory", "72MiB",
		"--quiet", "--ignore-eos")
	var said bytes.Buffer
	c.Stderr = &said
	text, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(text, make([]byte, 1)); err != nil { // a token: all weights were read
		t.Fatalf("%v: %s", err, said.String())
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-int64(matrices)/2); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, text); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("got %v, want exit code 1: %s", err, said.String())
	}
	if strings.Count(said.String(), "\n") != 2 || strings.Count(said.String(), "read weight") != 1 || strings.Count(said.String(), path) != 1 {
		t.Errorf("want what went wrong, once, and what to do: got %s", said.String())
	}
}
