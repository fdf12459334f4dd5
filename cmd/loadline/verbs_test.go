package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/model/tokenizer"
	"loadline/serve/chat"
)

// plainTemplate is a chat template without special tokens.
const plainTemplate = "{% for m in messages %}{{ m.role | upper }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"

// talking trains a small model, whose checkpoint gets a chat template, and returns its path.
func talking(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	document(t, &trainDocument{}, codeDone, small(t, out, "--steps", "2")...)
	dir := filepath.Join(out, checkpoints(t, out)[0])
	if err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(plainTemplate), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// piped runs a command line on an input.
func piped(t *testing.T, input string, args ...string) result {
	t.Helper()
	c := command(args...)
	c.Stdin = strings.NewReader(input)
	return finish(t, c)
}

// TestChat talks through a pipe.
func TestChat(t *testing.T) {
	dir := talking(t)
	r := piped(t, "Hello\n\n/system Be brief.\nHow are\\\nyou?\n/reset\nHello\n/exit\nnot read\n", "chat", dir, "--json", "--temperature", "0",
		"--max-tokens", "5", "--context", "200", "--memory", "96MiB")
	var d chatDocument
	if err := json.Unmarshal([]byte(r.out), &d); err != nil || r.code != codeDone {
		t.Fatalf("got exit code %d, document %q: %v; %s", r.code, r.out, err, r.err)
	}
	checkMemory(t, "chat", d.memoryReport)
	var said []string
	for _, m := range d.Messages {
		if said = append(said, m.Role); m.Role != "assistant" {
			said = append(said, m.Content)
			continue
		}
		if n := len(m.TokenIDs); n == 0 || n > 5 || m.PromptTokens == 0 || m.Finish != "length" && m.Finish != "stop" {
			t.Errorf("got the reply %+v", m)
		}
		if !strings.Contains(r.err, m.Content) {
			t.Errorf("the reply %q is not in the text %q", m.Content, r.err)
		}
	}
	want := []string{"user", "Hello", "assistant", "system", "Be brief.", "user", "How are\nyou?", "assistant", "user", "Hello", "assistant"}
	if !slices.Equal(said, want) {
		t.Errorf("got %q, want %q", said, want)
	}
	if d.Context != 200 || d.Dropped != 0 || !(d.TokensPerSecond > 0) {
		t.Errorf("got %+v", d)
	}
	// A reset forgets the system's message no more than the blocks that were computed: the last turn begins like the one before.
	if n := len(d.Messages); d.Messages[1].CachedTokens != 0 || d.Messages[n-1].CachedTokens == 0 || d.Messages[n-1].CachedTokens%16 != 0 {
		t.Errorf("got %d cached tokens in the first turn and %d in the last, want none and whole blocks", d.Messages[1].CachedTokens, d.Messages[n-1].CachedTokens)
	}
	// The first reply is what generate makes of the template's text; the third has the system's message before it.
	var g generateDocument
	document(t, &g, codeDone, "generate", dir, "--prompt", "USER: Hello\nASSISTANT:", "--temperature", "0", "--max-tokens", "5", "--memory", "96MiB")
	if first := d.Messages[1]; !slices.Equal(g.TokenIDs, first.TokenIDs) || g.PromptTokens != first.PromptTokens {
		t.Errorf("got %v after %d tokens, generate makes %v after %d", first.TokenIDs, first.PromptTokens, g.TokenIDs, g.PromptTokens)
	}
	if a, b := d.Messages[1].PromptTokens, d.Messages[len(d.Messages)-1].PromptTokens; b <= a {
		t.Errorf("got a prompt of %d tokens after a reset, want more than %d: the system's message stays", b, a)
	}
	// Text alone, with a text that ends replies.
	r = piped(t, "Hello", "chat", dir, "--temperature", "0", "--max-tokens", "5", "--context", "64", "--memory", "96MiB", "--quiet", "--stop", d.Messages[1].Content[:1])
	if r.code != codeDone || r.out != "\n" || r.err != "" {
		t.Errorf("stopped at once: got exit code %d, %q and %q", r.code, r.out, r.err)
	}
}

// TestChatShortens talks until the context is full.
func TestChatShortens(t *testing.T) {
	dir := talking(t)
	r := piped(t, strings.Repeat("one two three\n", 6), "chat", dir, "--json", "--max-tokens", "8", "--context", "64", "--memory", "96MiB")
	var d chatDocument
	if err := json.Unmarshal([]byte(r.out), &d); err != nil || r.code != codeDone {
		t.Fatalf("got exit code %d, document %q: %v; %s", r.code, r.out, err, r.err)
	}
	if d.Dropped == 0 || len(d.Messages) != 12 || !strings.Contains(r.err, "the context of 64 tokens is full: the oldest turn is left out") {
		t.Errorf("got %d turns left out of %d messages; %s", d.Dropped, len(d.Messages), r.err)
	}
	for _, m := range d.Messages {
		if m.PromptTokens+len(m.TokenIDs) > 64 {
			t.Errorf("got %d tokens of prompt and reply, the context is 64", m.PromptTokens+len(m.TokenIDs))
		}
	}
	for _, x := range []struct {
		input, want string
		code        int
		args        []string
	}{
		{strings.Repeat("long ", 60), "the context is 64", codeFailed, nil},
		{strings.Repeat("x", maxMessage+1), "a message has more than", codeFailed, nil},
		{"hello", "the template refuses: no", codeFailed, []string{"--chat-template", fileWith(t, "{{ raise_exception('no') }}")}},
		{"hello", "makes no text", codeFailed, []string{"--chat-template", fileWith(t, "{# nothing #}")}},
		{"hello", "template line 1", codeFailed, []string{"--chat-template", fileWith(t, "{% include 'x' %}")}},
		{"hello", "positions", codeUsage, []string{"--context", "100000000"}},
		{"hello", "does not fit", codeDoesNotFit, []string{"--memory", "50MiB"}},
	} {
		args := append([]string{"chat", dir, "--memory", "96MiB", "--context", "64", "--quiet"}, x.args...)
		r := piped(t, x.input, args...)
		lines := strings.Split(strings.TrimSpace(r.err), "\n")
		if r.code != x.code || len(lines) != 2 || !strings.Contains(lines[0], x.want) && !strings.Contains(lines[0], "KV block") || !strings.HasPrefix(lines[1], "  try: ") {
			t.Errorf("%v: got exit code %d and %q, want %d and %q", x.args, r.code, r.err, x.code, x.want)
		}
	}
	// A context that nobody asked for gives way before weights do.
	r = piped(t, "hello", "chat", dir, "--json", "--memory", "55MiB", "--max-tokens", "2")
	var short chatDocument
	if err := json.Unmarshal([]byte(r.out), &short); err != nil || r.code != codeDone {
		t.Fatalf("got exit code %d, document %q: %v; %s", r.code, r.out, err, r.err)
	}
	checkMemory(t, "chat", short.memoryReport)
	if said := fmt.Sprintf("the context is %d tokens, not ", short.Context); short.Context < goodChatContext || short.StreamedBytes != 0 || !strings.Contains(r.err, said) {
		t.Errorf("got a context of %d and %d streamed bytes; %s", short.Context, short.StreamedBytes, r.err)
	}
	if err := os.Remove(filepath.Join(dir, "chat_template.jinja")); err != nil {
		t.Fatal(err)
	}
	if r := piped(t, "hello", "chat", dir, "--memory", "96MiB"); r.code != codeFailed || !strings.Contains(r.err, "has no chat template") {
		t.Errorf("without a template: got exit code %d and %s", r.code, r.err)
	}
}

// fileWith writes a text to a file and returns its path.
func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConversation leaves out the oldest turns, and no more of them than it has to.
func TestConversation(t *testing.T) {
	tok, err := tokenizer.Train(strings.NewReader(""), 257, tokenizer.TrainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template, err := chat.Parse("{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	c := conversation{template: template, tok: tok, context: 30, reserve: 8, system: "sys"}
	for i, x := range []struct {
		user, reply, want string // the prompt, a token a byte; empty for an error
		dropped           int
	}{
		{"one", "1", "ssysuone", 0},
		{"two", "2", "ssysuonea1utwo", 0},
		{"three", "3", "ssysuonea1utwoa2uthree", 0},
		{"four", "4", "ssysuthreea3ufour", 2},
		{"a message of twenty-two", "5", "ssysua message of twenty-two", 2},
		{"a message of at least thirty tokens", "", "", 0},
		{"six", "6", "ssysusix", 1},
		{"seven", "7", "ssysusixa6useven", 0},
	} {
		ids, dropped, err := c.prompt(x.user)
		var long *longMessageError
		if x.want == "" {
			if !errors.As(err, &long) || long.context != 30 {
				t.Errorf("message %d: got %v, want that it is too long", i, err)
			}
		} else if got := string(tok.Decode(ids)); err != nil || got != x.want {
			t.Errorf("message %d: got %q, %v, want %q", i, got, err, x.want)
		}
		if dropped != x.dropped {
			t.Errorf("message %d: %d turns left out, want %d", i, dropped, x.dropped)
		}
		if err == nil {
			c.add(x.user, x.reply)
		}
	}
}

func TestReadMessage(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("a\r\n\\\nb\\\nc\n"+strings.Repeat("x", 100)+"\nend"), 16)
	for _, want := range []string{"a", "\nb\nc", strings.Repeat("x", 100)} {
		if got, err := readMessage(r); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if got, err := readMessage(r); got != "end" || !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v, want the last line and the end", got, err)
	}
}

func TestCommands(t *testing.T) {
	var errs bytes.Buffer
	x := &chatting{chatFlags: &chatFlags{}, a: &app{err: &errs}}
	x.conv.add("a", "b")
	for _, c := range []struct {
		line        string
		done, known bool
	}{
		{"hello", false, false}, {"/usr/bin is a path", false, false}, {"/exit the room", false, false}, {"/2", false, false}, {"/", false, false}, {"/foo", false, true}, {"/Reset all of it", false, true},
		{"/system You are brief.", false, true}, {"/help", false, true}, {" /reset ", false, true}, {"/exit", true, true}, {"/quit", true, true},
	} {
		if done, known := x.command(c.line); done != c.done || known != c.known {
			t.Errorf("%q: got %v, %v, want %v, %v", c.line, done, known, c.done, c.known)
		}
	}
	said := "there is no command /foo: " + chatCommands + "\nthere is no command /Reset: " + chatCommands + "\n"
	if x.conv.system != "You are brief." || len(x.conv.turns) != 0 || !strings.HasPrefix(errs.String(), said) || strings.Count(errs.String(), chatCommands) != 3 {
		t.Errorf("got %+v and %q", x.conv, errs.String())
	}
}

// TestPerplexity measures a model on a text.
func TestPerplexity(t *testing.T) {
	dir, data := talking(t), text(t, 4_000)
	run := func(more ...string) (d evalDocument) {
		t.Helper()
		document(t, &d, codeDone, append([]string{"eval", "--perplexity", dir, "--data", data, "--memory", "128MiB", "--context", "64"}, more...)...)
		checkMemory(t, "eval", d.memoryReport)
		if math.Abs(d.Perplexity-math.Exp(d.MeanLoss)) > 1e-9*d.Perplexity || !(d.Stderr > 0) || !(d.TokensPerSecond > 0) || d.Interrupted {
			t.Errorf("%v: got %+v", more, d)
		}
		return d
	}
	half := run("--quiet")
	if half.Windows != half.TextTokens/64 || half.Tokens != 31*half.Windows || half.Score != "half" || half.Context != 64 {
		t.Errorf("got %+v", half)
	}
	// Two steps have taught it more than nothing: 1,024 tokens alike would give 1,024.
	if half.Perplexity > 1010 || half.Perplexity < 10 {
		t.Errorf("got a perplexity of %v", half.Perplexity)
	}
	for _, more := range [][]string{{"--threads", "1"}, {"--prefill-chunk", "5"}, {"--block-size", "7"}} {
		if d := run(more...); d.MeanLoss != half.MeanLoss || d.Tokens != half.Tokens {
			t.Errorf("%v: got a mean loss of %v, want %v", more, d.MeanLoss, half.MeanLoss)
		}
	}
	all := run("--score", "all", "--windows", "2")
	if all.Windows != 2 || all.Tokens != 126 || all.TextTokens != half.TextTokens {
		t.Errorf("got %+v", all)
	}
	if r := loadline(t, "eval", "--perplexity", dir, "--data", data, "--windows", "1", "--context", "64"); r.code != codeDone || !strings.HasPrefix(r.out, "perplexity ") || !strings.Contains(r.out, "31 tokens scored (half) in 1 window of 64") {
		t.Errorf("for people: got exit code %d and %q; %s", r.code, r.out, r.err)
	}
	if r := loadline(t, "eval", "--perplexity", dir, "--data", fileWith(t, "short"), "--context", "64"); r.code != codeFailed || !strings.Contains(r.err, "a longer text") {
		t.Errorf("a short text: got exit code %d and %s", r.code, r.err)
	}
	var no struct {
		Error string
		Code  int `json:"exit_code"`
	}
	document(t, &no, codeDoesNotFit, "eval", "--perplexity", dir, "--data", data, "--memory", "50MiB")
	if no.Code != codeDoesNotFit || !strings.Contains(no.Error, "--memory is 50 MiB") {
		t.Errorf("got %+v", no)
	}
}

// TestBenchModel measures a model as llama-bench does.
func TestBenchModel(t *testing.T) {
	dir := talking(t)
	var d benchModelDocument
	document(t, &d, codeDone, "bench", dir, "-p", "16,0", "-n", "3", "--depth", "0,8", "-r", "2", "--threads", "2", "--memory", "128MiB")
	checkMemory(t, "bench", d.memoryReport)
	var tests []string
	for _, x := range d.Results {
		tests = append(tests, x.Test)
		if !(x.TokensPerSecond > 0) || x.Threads != 2 || math.IsNaN(x.Stddev) {
			t.Errorf("got %+v", x)
		}
	}
	if want := []string{"pp16", "tg3", "pp16 @ d8", "tg3 @ d8"}; !slices.Equal(tests, want) || d.Repeat != 2 || d.Parameters == 0 {
		t.Errorf("got %q and %+v, want %q", tests, d, want)
	}
	profile := filepath.Join(t.TempDir(), "cpu.prof")
	r := loadline(t, "bench", "--model", dir, "-p", "4", "-n", "2", "-r", "1", "--kernels", "generic", "--quiet", "--kv-type", "q8_0", "--cpuprofile", profile)
	if st, err := os.Stat(profile); err != nil || st.Size() == 0 {
		t.Errorf("profile: %v", err)
	}
	if r.code != codeDone || !strings.Contains(r.out, "pp4") || !strings.Contains(r.out, "generic kernels") {
		t.Errorf("got exit code %d and %q; %s", r.code, r.out, r.err)
	}
	if x := (&benchModelFlags{prompt: []int{512}, generate: []int{128}, depth: []int{0}, repeat: 5, prefillRows: 512, blockSize: 16}); true {
		got, err := x.tests()
		if err != nil || len(got) != 2 || got[0].String() != "pp512" || got[1].String() != "tg128" {
			t.Errorf("by default: got %v, %v", got, err)
		}
	}
}

// TestSamplingFlags drives generate where its flags decide everything.
func TestSamplingFlags(t *testing.T) {
	dir := talking(t)
	run := func(more ...string) (d generateDocument) {
		t.Helper()
		document(t, &d, codeDone, append([]string{"generate", dir, "--prompt", "To be", "--max-tokens", "4", "--memory", "96MiB", "--quiet"}, more...)...)
		return d
	}
	const forced = "97=1000000"
	if d := run("--logit-bias", forced); !slices.Equal(d.TokenIDs, []int32{97, 97, 97, 97}) || d.Finish != "length" || d.Logprobs != nil {
		t.Errorf("one token favoured: got %v, %s", d.TokenIDs, d.Finish)
	}
	if d := run("--logit-bias", forced, "--stop-token", "97"); !slices.Equal(d.TokenIDs, []int32{97}) || d.Finish != "stop" || d.Text != "" {
		t.Errorf("ended by its token: got %v, %s, %q", d.TokenIDs, d.Finish, d.Text)
	}
	if d := run("--logit-bias", forced, "--frequency-penalty", "1e6"); d.TokenIDs[0] != 97 || slices.Contains(d.TokenIDs[1:], 97) {
		t.Errorf("penalized: got %v, want token 97 once", d.TokenIDs)
	}
	greedy := run("--temperature", "0").TokenIDs
	for _, more := range [][]string{{"--top-k", "1"}, {"--min-p", "1"}, {"--top-p", "1e-9"}} {
		if d := run(more...); !slices.Equal(d.TokenIDs, greedy) {
			t.Errorf("%v: got %v, want %v as without a temperature", more, d.TokenIDs, greedy)
		}
	}
	d := run("--temperature", "0", "--logprobs", "3")
	if len(d.Logprobs) != 4 {
		t.Fatalf("got log probabilities of %d tokens, want 4", len(d.Logprobs))
	}
	for i, x := range d.Logprobs {
		if x.ID != d.TokenIDs[i] || len(x.Top) != 3 || x.Top[0] != x.tokenLogprob || x.Top[1].Logprob > x.Top[0].Logprob || x.Logprob >= 0 {
			t.Errorf("token %d: got %+v", i, x)
		}
	}
	if r := loadline(t, "generate", dir, "--prompt", "To be", "--max-tokens", "2", "--logprobs", "1", "--quiet"); r.code != codeDone || strings.Count(r.out, "  of ") != 2 {
		t.Errorf("for people: got %q; %s", r.out, r.err)
	}
	for flags, want := range map[string]string{
		"--logit-bias 5": "want TOKEN=VALUE", "--logit-bias 5=x": `"x" is not a number`, "--logit-bias 1024=1": "want a token below 1024",
		"--logit-bias 5=1e9": "logit_bias", "--stop-token Zzyzx!!": "tokens", "--typical-p 2": "typical_p", "--repetition-penalty -1": "repetition_penalty",
		"--top-p 3": "top_p", "--temperature -1": "temperature", "--logprobs 99": "want 0 to 20", "--logprobs -2": "want 0 to 20",
	} {
		r := loadline(t, append([]string{"generate", dir, "--prompt", "x"}, strings.Fields(flags)...)...)
		if r.code != codeUsage || !strings.Contains(r.err, want) {
			t.Errorf("%s: got exit code %d and %s, want %q", flags, r.code, r.err, want)
		}
	}
}
