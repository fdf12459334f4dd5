package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/mem"
	"loadline/train"
)

// checkMemory checks what every verb that runs programs promises.
func checkMemory(t *testing.T, name string, m memoryReport) {
	t.Helper()
	if m.Predicted == 0 || m.Predicted != m.Ledger {
		t.Errorf("%s: predicted %d bytes, the ledger saw %d", name, m.Predicted, m.Ledger)
	}
	if m.RSS > m.Limit || m.RSS == 0 {
		t.Errorf("%s: the process held %v, the limit is %v", name, m.RSS, m.Limit)
	}
	var sum purposeReport
	for _, p := range m.ByPurpose {
		sum.Predicted += p.Predicted
		sum.Ledger += p.Ledger
	}
	if sum.Predicted != m.Predicted || sum.Ledger != m.Ledger {
		t.Errorf("%s: purposes sum to %+v, the peaks are %d and %d", name, sum, m.Predicted, m.Ledger)
	}
	line := m.ByPurpose[mem.Runtime.String()].Ledger
	if above := m.RSS - (m.Ledger - line); above > line {
		t.Errorf("%s: the process held %v above the other purposes, the Runtime line is %v", name, above, line)
	}
	if m.Seconds <= 0 {
		t.Errorf("%s: got %v seconds", name, m.Seconds)
	}
}

// TestTrain follows a run from its plan to what is generated from it.
func TestTrain(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	val := text(t, 8000)
	args := small(t, out, "--steps", "6", "--recompute", "auto", "--save-every", "2", "--keep", "1", "--val-data", val, "--eval-every", "3")
	events := filepath.Join(t.TempDir(), "events.jsonl")

	var plan planDocument
	document(t, &plan, codeDone, append([]string{"plan"}, args[1:]...)...)
	if !plan.Fits || len(plan.Plans) < 2 || len(plan.Least) != 3 || plan.Nearest != "" {
		t.Fatalf("got plan %+v", plan)
	}
	if _, err := os.Stat(out); err == nil {
		t.Fatal("plan has made --out")
	}
	var d trainDocument
	r := document(t, &d, codeDone, append(args, "--events", events)...)
	checkMemory(t, "train", d.memoryReport)
	if plan.Plans[0].Peak != d.Predicted {
		t.Errorf("plan says %d bytes, train %d", plan.Plans[0].Peak, d.Predicted)
	}
	for p, n := range plan.Plans[0].ByPurpose {
		if d.ByPurpose[p].Predicted != n {
			t.Errorf("%s: plan says %d bytes, train %d", p, n, d.ByPurpose[p].Predicted)
		}
	}
	if len(d.Losses) != 6 || d.Losses[5] >= d.Losses[0] || !slices.Equal(d.ValSteps, []int64{3, 6}) || len(d.ValLosses) != 2 {
		t.Errorf("got losses %v, validation %v after %v", d.Losses, d.ValLosses, d.ValSteps)
	}
	if d.Interrupted || d.Steps != 6 || d.Recompute != "auto" || d.Precision != "fp32" || d.Saved == 0 || d.TokensPerSecond <= 0 || d.StepSeconds <= 0 {
		t.Errorf("got %+v", d)
	}
	for _, want := range []string{"least memory: none", "chosen: recompute auto", "promise kept"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("stderr: want %q in\n%s", want, r.err)
		}
	}
	if got, want := eventsOf(t, events), "begin start step step save step eval step save step step eval save end"; got != want {
		t.Errorf("events: got %s, want %s", got, want)
	}
	if got := checkpoints(t, out); !slices.Equal(got, []string{"step-6"}) {
		t.Errorf("got checkpoints %v, want step-6", got)
	}

	// A finished run, resumed, says all again; an --out that exists is not overwritten.
	var again trainDocument
	document(t, &again, codeDone, append(args, "--resume", out)...)
	if !slices.Equal(again.Losses, d.Losses) || !slices.Equal(again.ValLosses, d.ValLosses) || again.StepSeconds != 0 {
		t.Errorf("resumed: got losses %v and %v, want %v and %v", again.Losses, again.ValLosses, d.Losses, d.ValLosses)
	}
	if r := loadline(t, append(args[:len(args):len(args)], "--resume", out)...); r.code != 0 || !strings.Contains(r.out, "nothing left to do: 6 steps of 6") {
		t.Errorf("resumed: got exit code %d and %s%s", r.code, r.out, r.err)
	}
	if r := loadline(t, append(args[:len(args):len(args)], "--resume", out, "--steps", "7", "--data", val)...); r.code != codeFailed || !strings.Contains(r.err, "  try: give --data") {
		t.Errorf("resumed with another text: got exit code %d and %s", r.code, r.err)
	}
	if r := loadline(t, args...); r.code != codeUsage {
		t.Errorf("--out that exists: got exit code %d, want 2", r.code)
	}
	useModel(t, out)
}

// useModel generates from, inspects and tokenizes with what was trained.
func useModel(t *testing.T, out string) {
	generate := []string{"generate", "--model", out, "--prompt", "ROMEO:", "--max-tokens", "12", "--temperature", "0", "--memory", "64MiB"}
	var g, h generateDocument
	document(t, &g, codeDone, generate...)
	checkMemory(t, "generate", g.memoryReport)
	if len(g.TokenIDs) != 12 || g.PromptTokens == 0 || g.Text == "" {
		t.Errorf("got %+v", g)
	}
	document(t, &h, codeDone, append(generate, "--block-size", "4", "--prefill-chunk", "2", "--threads", "1")...)
	if !slices.Equal(g.TokenIDs, h.TokenIDs) {
		t.Errorf("blocks of 4, chunks of 2: got tokens %v, want %v", h.TokenIDs, g.TokenIDs)
	}
	if r := loadline(t, append(generate, "--quiet")...); r.out != g.Text+"\n" || r.err != "" {
		t.Errorf("streamed %q and said %q, want %q and nothing", r.out, r.err, g.Text+"\n")
	}
	if r := loadline(t, append(generate, "--memory", "20MiB")...); r.code != codeDoesNotFit || !strings.Contains(r.err, "does not fit: needs ") || !strings.Contains(r.err, "try: --memory ") {
		t.Errorf("generate in 20 MiB: got exit code %d and %s", r.code, r.err)
	}
	var plan planDocument
	document(t, &plan, codeDone, "plan", out, "--context", fmt.Sprint(g.Context), "--memory", "64MiB")
	if plan.Plans[0].Peak != g.Predicted {
		t.Errorf("plan says %d bytes, generate %d", plan.Plans[0].Peak, g.Predicted)
	}
	document(t, &plan, codeDoesNotFit, "plan", out, "--context", "2000", "--concurrency", "4", "--memory", "40MiB")
	if plan.Fits || plan.Plans[0].Peak <= 40<<20 || plan.Nearest == "" {
		t.Errorf("got plan %+v", plan)
	}
	useGGUF(t, out, generate, &g)
	var i inspectDocument
	document(t, &i, codeDone, "inspect", out)
	if i.Parameters != 918_656 || len(i.Tensors) != 38 || i.Training == nil || i.Training.Step != 6 || i.Tokenizer == nil {
		t.Errorf("inspect: got %d parameters, %d tensors, %+v", i.Parameters, len(i.Tensors), i.Training)
	}
	path := text(t, 2000)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ids struct{ IDs []int32 }
	r := document(t, &ids, codeDone, "tokenize", "--model", out, path)
	if len(ids.IDs) == 0 {
		t.Fatalf("tokenize: got %s", r.out)
	}
	c := command("tokenize", "--model", out, "--decode")
	c.Stdin = strings.NewReader(r.out)
	if r := finish(t, c); r.out != string(want) {
		t.Errorf("decoded: got %q, want %q", r.out, want)
	}
	c = command("tokenize", "--model", out, "--json")
	if r := finish(t, c); r.out != `{"ids":[]}`+"\n" {
		t.Errorf("nothing tokenized: got %q", r.out)
	}
}

// eventsOf lists the names of the events in a log.
func eventsOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for s := bufio.NewScanner(f); s.Scan(); {
		var e struct{ Event, Time string }
		if err := json.Unmarshal(s.Bytes(), &e); err != nil || e.Time == "" {
			t.Fatalf("event %q: %v", s.Text(), err)
		}
		names = append(names, e.Event)
	}
	return strings.Join(names, " ")
}

// checkpoints lists the names of the checkpoints in a directory.
func checkpoints(t *testing.T, out string) []string {
	t.Helper()
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "step-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestDoesNotFit checks a refusal: exit code 3, the numbers, what would fit, and nothing on the disk.
func TestDoesNotFit(t *testing.T) {
	for _, verb := range []string{"train", "plan"} {
		dir := t.TempDir()
		t.Chdir(dir)
		var d planDocument
		r := document(t, &d, codeDoesNotFit, verb, "--preset", "llama-tiny", "--memory", "96MiB", "--out", filepath.Join(dir, "run"))
		if d.Fits || d.Limit != 96<<20 || len(d.Plans) != 3 || d.Plans[0].OOMChance != 1 || d.Plans[0].Peak <= d.Limit || d.Nearest != "--recompute auto" {
			t.Errorf("%s: got %+v", verb, d)
		}
		if len(d.Largest) < 3 || d.Largest[0].Purpose != "activations" || d.Largest[0].Bytes < d.Largest[1].Bytes {
			t.Errorf("%s: got largest lines %+v", verb, d.Largest)
		}
		for i, l := range d.Least {
			if want := []string{"none", "full", "auto"}[i]; l.Recompute != want || l.Bytes == 0 {
				t.Errorf("%s: got least %+v, want that of %s", verb, l, want)
			}
		}
		if !strings.Contains(r.err, "loadline: does not fit") || !strings.Contains(r.err, "  try: --recompute auto") {
			t.Errorf("%s: got %s", verb, r.err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s has left %v, %v", verb, left, err)
		}
	}
}

// TestLeastFits trains at the least that a refusal names.
func TestLeastFits(t *testing.T) {
	var no planDocument
	args := small(t, filepath.Join(t.TempDir(), "run"), "--steps", "2", "--batch", "4", "--seq", "128", "--recompute", "auto")
	document(t, &no, codeDoesNotFit, append(args, "--memory", "60MiB")...)
	flags := strings.Fields(no.Nearest)
	var d trainDocument
	document(t, &d, codeDone, append(args, flags...)...)
	checkMemory(t, "train "+no.Nearest, d.memoryReport)
}

// TestSettingsKeepTheLoss trains the same steps under other settings: the losses have the same bits, and every process stays inside.
func TestSettingsKeepTheLoss(t *testing.T) {
	var want []float32
	for _, more := range [][]string{
		{}, {"--recompute", "full", "--threads", "1"}, {"--recompute", "norm,mlp.act", "--attention", "flash"}, {"--offload", "activations"},
		{"--offload", "activations", "--tier", "file:" + t.TempDir() + "=1GiB"}, {"--device-memory", "40MiB", "--offload", "activations"},
		{"--offload", "optimizer"}, {"--device-memory", "40MiB", "--offload", "activations,optimizer"},
	} {
		out := filepath.Join(t.TempDir(), "run")
		var d trainDocument
		document(t, &d, codeDone, small(t, out, append(more, "--steps", "3")...)...)
		checkMemory(t, strings.Join(more, " "), d.memoryReport)
		if want == nil {
			want = d.Losses
		}
		if len(d.Losses) != 3 || !slices.Equal(d.Losses, want) {
			t.Errorf("%v: got losses %v, want %v", more, d.Losses, want)
		}
		for _, e := range dirNames(t, out) {
			if !strings.HasPrefix(e, "step-") && !strings.HasPrefix(e, tokensPrefix) && e != "tokenizer.json" && e != ".lock" {
				t.Errorf("%v has left %s", more, e)
			}
		}
	}
}

func dirNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestModel goes on from a trained model with fresh optimizer state.
func TestModel(t *testing.T) {
	dir := t.TempDir()
	document(t, &trainDocument{}, codeDone, small(t, filepath.Join(dir, "a"), "--steps", "2")...)
	var d trainDocument
	document(t, &d, codeDone, "train", filepath.Join(dir, "a"), "--data", text(t, 40_000), "--steps", "2", "--batch", "2", "--seq", "32",
		"--out", filepath.Join(dir, "b"), "--memory", "96MiB", "--quiet")
	if len(d.Losses) != 2 || d.Losses[0] >= 6.93 {
		t.Errorf("got losses %v, want them to begin below those of a fresh model", d.Losses)
	}
}

// TestPrecision trains in 16 bits, on one rank and on two: to the byte as planned, near fp32's loss, and to a model that generates.
func TestPrecision(t *testing.T) {
	dir := t.TempDir()
	var wide trainDocument
	document(t, &wide, codeDone, small(t, filepath.Join(dir, "fp32"), "--steps", "4")...)
	for _, precision := range []string{"bf16", "fp16"} {
		for _, ranks := range []string{"1", "2"} {
			out := filepath.Join(dir, precision+ranks)
			args := small(t, out, "--steps", "4", "--precision", precision, "--ranks", ranks)
			var plan planDocument
			document(t, &plan, codeDone, append([]string{"plan"}, args[1:]...)...)
			var d trainDocument
			document(t, &d, codeDone, args...)
			checkMemory(t, precision, d.memoryReport)
			if plan.Plans[0].Peak != d.Predicted || d.Precision != precision || d.ByPurpose[mem.MasterWeights.String()].Ledger == 0 {
				t.Errorf("%s, %s ranks: plan says %d bytes, train %d, %+v", precision, ranks, plan.Plans[0].Peak, d.Predicted, d.ByPurpose)
			}
			if d.Skipped != 0 || len(d.Losses) != 4 || ranks == "1" && (d.Losses[3] > 1.01*wide.Losses[3] || d.Losses[3] < 0.99*wide.Losses[3]) {
				t.Errorf("%s, %s ranks: got losses %v, %d skipped, fp32 %v", precision, ranks, d.Losses, d.Skipped, wide.Losses)
			}
			var g generateDocument
			document(t, &g, codeDone, "generate", out, "--prompt", "To be", "--max-tokens", "4", "--memory", "96MiB", "--quiet")
			if len(g.TokenIDs) == 0 {
				t.Errorf("%s, %s ranks: generated nothing", precision, ranks)
			}
		}
	}
}

// TestLeastState trains without masters and with an optimizer that keeps little, sharded, and says what it saves.
func TestLeastState(t *testing.T) {
	dir := t.TempDir()
	var wide, d, again trainDocument
	document(t, &wide, codeDone, small(t, filepath.Join(dir, "adamw"), "--steps", "4", "--precision", "bf16")...)
	out := filepath.Join(dir, "adafactor")
	args := small(t, out, "--steps", "4", "--precision", "bf16", "--master", "none", "--optimizer", "adafactor", "--lr", "1e-2", "--ranks", "2",
		"--zero", "2", "--head-chunk", "auto", "--label-smoothing", "0.05", "--z-loss", "1e-4")
	document(t, &d, codeDone, args...)
	checkMemory(t, "adafactor", d.memoryReport)
	moments, all := d.ByPurpose[mem.OptimState.String()].Ledger, wide.ByPurpose[mem.OptimState.String()].Ledger
	if d.ByPurpose[mem.MasterWeights.String()].Ledger != 0 || 20*moments > all || moments == 0 {
		t.Errorf("got %v of optimizer state, adamw %v, and %+v", moments, all, d.ByPurpose)
	}
	if len(d.Losses) != 4 || d.Losses[3] >= d.Losses[0] {
		t.Errorf("got losses %v, want them to fall", d.Losses)
	}
	document(t, &again, codeDone, append(args, "--resume", out)...)
	if !slices.Equal(again.Losses, d.Losses) {
		t.Errorf("resumed: got losses %v, want %v", again.Losses, d.Losses)
	}
}

// TestOverflow drives fp16 beyond what it holds: the run ends in one line with the tensor's name, and one that says what to do.
func TestOverflow(t *testing.T) {
	for _, ranks := range []string{"1", "2"} {
		r := loadline(t, small(t, filepath.Join(t.TempDir(), "out"), "--steps", "40", "--precision", "fp16", "--lr", "30", "--warmup", "0", "--ranks", ranks)...)
		if r.code != codeFailed || !strings.Contains(r.err, "that is not finite is") || !strings.Contains(r.err, "  try: use --precision bf16") && !strings.Contains(r.err, "a smaller --lr") {
			t.Errorf("%s ranks: got exit code %d and %s", ranks, r.code, r.err)
		}
	}
}

// TestPlanText writes the step's program.
func TestPlanText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program.txt")
	r := loadline(t, "plan", "--preset", "llama-tiny", "--batch", "1", "--seq", "16", "--memory", "96MiB", "--program", path, "--text")
	p, err := os.ReadFile(path)
	if r.code != 0 || err != nil || !strings.Contains(string(p), train.StepProgram) || !strings.Contains(r.out, string(p)) {
		t.Errorf("got exit code %d, %v, and %d bytes of text", r.code, err, len(p))
	}
}

// TestRates has the peak learning rate that is given, that of the run that is gone on from, or the default of what there is to begin with.
func TestRates(t *testing.T) {
	dir := t.TempDir()
	fresh, tuned := filepath.Join(dir, "fresh"), filepath.Join(dir, "tuned")
	data := text(t, 40_000)
	for _, x := range []struct {
		out  string
		args []string
		want string
	}{
		{fresh, []string{"--preset", "llama-tiny"}, "0.001 "},
		{fresh, []string{"--resume", fresh}, "0.001 "},
		{filepath.Join(dir, "sgd"), []string{"--model", fresh, "--optimizer", "sgd"}, "0.001 "},
		{filepath.Join(dir, "lion"), []string{fresh, "--optimizer", "lion"}, "5e-06 "},
		{tuned, []string{"--model", fresh}, "2e-05 "},
		{tuned, []string{"--resume", tuned}, "2e-05 "},
		{filepath.Join(dir, "given"), []string{"--model", fresh, "--lr", "3e-4"}, "0.0003 "},
		{filepath.Join(dir, "given"), []string{"--model", fresh, "--resume", filepath.Join(dir, "given")}, "0.0003 "},
		{filepath.Join(dir, "given"), []string{"--resume", filepath.Join(dir, "given"), "--lr", "4e-4"}, "0.0004 "},
	} {
		args := []string{"train", "--data", data, "--batch", "2", "--seq", "32", "--steps", "1", "--memory", "96MiB", "--out", x.out}
		r := loadline(t, append(args, x.args...)...)
		if r.code != codeDone || !strings.Contains(r.err+r.out, "learning rate "+x.want) {
			t.Errorf("%v: got exit code %d, want a learning rate of %sin\n%s", x.args, r.code, x.want, r.err+r.out)
		}
	}
}
