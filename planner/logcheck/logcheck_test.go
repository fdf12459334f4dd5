package logcheck

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/mem"
	"loadline/planner/hardware"
	"loadline/planner/search"
	"loadline/planner/shape"
)

func readLog(t *testing.T, name string) *Log {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func answer(t *testing.T, model, machine string, q search.Question) *search.Answer {
	t.Helper()
	cards, err := shape.Load()
	if err != nil {
		t.Fatal(err)
	}
	table, err := hardware.Load()
	if err != nil {
		t.Fatal(err)
	}
	q.Shape, _ = cards.ByName(model)
	if q.Machine, err = search.ParseMachine(table, machine); err != nil {
		t.Fatal(err)
	}
	a, err := search.Plans(q)
	if err != nil || !a.Fits {
		t.Fatalf("got %+v, %v; want a plan", a, err)
	}
	return a
}

// TestRead checks the figures of every kind of log.
func TestRead(t *testing.T) {
	gib, mib := float64(mem.GiB), float64(mem.MiB)
	for name, want := range map[string]struct {
		system string
		ranOut bool
		values map[string]float64
	}{
		"vllm.log": {"vllm", false, map[string]float64{
			Weights: 14.99 * gib, Outside: 0.19 * gib, Activations: 1.23 * gib, KV: 54.78 * gib, Total: 79.10 * gib, Utilization: 0.9, KVTokens: 448752, Concurrency: 54.78, Context: 8192, Graphs: 0.61 * gib,
		}},
		"sglang.log":    {"sglang", false, map[string]float64{Weights: 15.08 * gib, KVTokens: 434913, KV: 53.08 * gib, Graphs: 0.48 * gib}},
		"llamacpp.log":  {"llamacpp", false, map[string]float64{Weights: 4403.49 * mib, HostWeights: 281.81 * mib, KV: 1024 * mib, Compute: 266.5 * mib, Context: 8192}},
		"deepspeed.log": {"deepspeed", false, map[string]float64{Allocated: 41.73 * gib, Reserved: 46 * gib}},
		"torch.log":     {"torch", true, map[string]float64{Allocated: 35.1 * gib, Reserved: 34512 * mib, Process: 38.18 * gib, Total: 39.39 * gib}},
	} {
		l := readLog(t, name)
		if l.System != want.system || l.RanOut != want.ranOut || len(l.Readings) != len(want.values) {
			t.Errorf("%s: got %s, ran out %v, %v", name, l.System, l.RanOut, l.Readings)
		}
		for key, v := range want.values {
			if got, ok := l.Get(key); !ok || math.Abs(got/v-1) > 1e-9 {
				t.Errorf("%s: %s: got %g, %v; want %g", name, key, got, ok, v)
			}
		}
	}
	if _, err := Read(strings.NewReader("hello\nworld\n")); err == nil {
		t.Error("a log of nothing: got no error")
	}
	if _, err := Read(strings.NewReader(strings.Repeat("x", maxLogLine+1))); err == nil {
		t.Error("a line without end: got no error")
	}
}

// TestCompare checks the plans of the jobs that such logs come from.
func TestCompare(t *testing.T) {
	a := answer(t, "Llama-3.1-8B", "H100-SXM-80GB", search.Question{Task: search.Serve, Framework: "vllm", Context: 8192, Concurrency: 16, Hold: search.Hold{Quant: "bf16"}})
	rep, err := Compare(readLog(t, "vllm.log"), a.Question, a.Plans[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range rep.Lines {
		t.Log(l)
		switch l.Name {
		case Weights:
			if math.Abs(l.Error) > 0.01 || l.Why != "as planned" {
				t.Errorf("got %v", l)
			}
		case KV, KVTokens, Concurrency:
			if math.Abs(l.Error) > 0.04 {
				t.Errorf("got %v", l)
			}
		}
	}
	if len(rep.Lines) < 7 {
		t.Errorf("got %d lines: %v", len(rep.Lines), rep)
	}
	b := answer(t, "Llama-3.1-8B", "RTX-4090", search.Question{Task: search.Serve, Framework: "llamacpp", Context: 8192, Hold: search.Hold{Quant: "q4_k_m"}})
	rep, err = Compare(readLog(t, "llamacpp.log"), b.Question, b.Plans[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range rep.Lines {
		t.Log(l)
		if math.Abs(l.Error) > 0.05 {
			t.Errorf("got %v", l)
		}
	}
	if len(rep.Lines) != 3 || len(rep.Alone) != 2 {
		t.Errorf("got %v", rep)
	}
	c := answer(t, "Llama-3.1-8B", "4xA100-80GB", search.Question{Task: search.Train, Framework: "deepspeed", Seq: 4096, GlobalBatch: 32, Hold: search.Hold{Recompute: "full"}})
	rep, err = Compare(readLog(t, "deepspeed.log"), c.Question, c.Plans[0])
	if err != nil || len(rep.Lines) != 2 {
		t.Fatalf("got %v, %v", rep, err)
	}
	for _, l := range rep.Lines {
		if l.Planned <= 0 || l.Why == "" {
			t.Errorf("got %v", l)
		}
	}
}

// TestExplain checks what differences are put down to.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		system, name string
		ratio        float64
		want         string
	}{
		{"vllm", Weights, 1.01, "as planned"}, {"vllm", Weights, 2, "not loaded in the planned format"}, {"vllm", Weights, 1.2, "vision tower"}, {"vllm", KVTokens, 2, "8 bits"},
		{"llamacpp", KV, 0.531, "q8_0"}, {"llamacpp", Compute, 4, "flash attention"}, {"deepspeed", Reserved, 1.3, "expandable_segments"}, {"torch", Allocated, 1.5, "longer samples"}, {"vllm", KV, 0.7, "less"},
	} {
		line := Line{Name: c.name, Planned: 1e9, Measured: c.ratio * 1e9}
		line.Error = line.Planned/line.Measured - 1
		if got := explain(&Log{System: c.system}, &line); !strings.Contains(got, c.want) {
			t.Errorf("%s %s × %g: got %q, want %q in it", c.system, c.name, c.ratio, got, c.want)
		}
	}
}

// TestLearn checks that a profile keeps what was read, believes one log by half, and is refused where it is broken.
func TestLearn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profile.json")
	p, err := Load(path)
	if err != nil || p.Factor("vllm", Graphs) != 1 {
		t.Fatalf("an empty profile: got %v, %v", p, err)
	}
	rep := &Report{System: "vllm", Lines: []Line{{Name: Graphs, Planned: 1e9, Measured: 2e9}, {Name: Weights, Planned: 1, Measured: 1e9}}}
	p.Learn(rep)
	if got := p.Factor("vllm", Graphs); math.Abs(got-math.Sqrt2) > 1e-9 {
		t.Errorf("after one log: got %g, want √2", got)
	}
	for range 99 {
		p.Learn(rep)
	}
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Factor("vllm", Graphs); math.Abs(got-2) > 0.02 {
		t.Errorf("after a hundred: got %g, want 2", got)
	}
	if f := again.Factors(); len(f) != 1 || math.Abs(f["vllm/workspace"]-2) > 0.02 {
		t.Errorf("factors: got %v, want the workspace's alone", f)
	}
	if again.Factor("vllm", Weights) != 1 {
		t.Errorf("another job's weights were believed: %v", again)
	}
	for _, bad := range []string{`{`, `{"figures":{"a/b":{"logs":0,"mean_log":0}}}`, `{"figures":{"a/b":{"logs":1,"mean_log":99}}}`} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
	if err := p.Save(filepath.Join(t.TempDir(), "nowhere", "p.json")); err == nil {
		t.Error("a folder that is not there: got no error")
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".profile-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestReadLongLines checks that a line without an end hides neither what is before it nor what follows, nor moves line numbers.
func TestReadLongLines(t *testing.T) {
	const line = "load_tensors:        CUDA0 model buffer size =  4403.49 MiB\n"
	for _, n := range []int{0, 1, maxLogLine - 1, maxLogLine, 3*maxLogLine + 7} {
		l, err := Read(strings.NewReader("a\n" + strings.Repeat("\r#", n) + "\n" + line))
		if err != nil || len(l.Readings) != 1 || l.Readings[0].Line != 3 {
			t.Errorf("%d bytes: got %+v, %v; want one figure, in line 3", 2*n, l, err)
		}
	}
}
