package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loadline/cost"
	"loadline/mem"
)

// program builds the command once and returns its path; TestMain removes it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "loadline-e2e-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "loadline")
	if out, err := exec.Command("go", "build", "-o", path, "loadline/cmd/loadline").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// built is the directory that program made.
var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// document is what the end-to-end tests read of train's document.
type document struct {
	Limit     mem.Bytes `json:"limit_bytes"`
	Predicted mem.Bytes `json:"predicted_peak_bytes"`
	Ledger    mem.Bytes `json:"ledger_peak_bytes"`
	RSS       mem.Bytes `json:"rss_peak_bytes"`
	ByPurpose map[string]struct {
		Predicted mem.Bytes `json:"predicted"`
		Ledger    mem.Bytes `json:"ledger"`
	} `json:"by_purpose"`
	Losses     []float32 `json:"losses"`
	Checkpoint string    `json:"checkpoint"`
}

// planned is what they read of plan's.
type planned struct {
	Plans []struct {
		Peak mem.Bytes `json:"peak_bytes"`
	} `json:"plans"`
}

// command runs it to its end and reads its document.
func command(t *testing.T, doc any, args ...string) {
	t.Helper()
	commandOn(t, "", doc, args...)
}

// hidden are settings of GODEBUG that hide instructions of a CPU from a process, and so leave it fewer kernels: AVX2's, and generic ones.
// Where a CPU has no AVX-512 the first changes nothing.
const (
	onlyAVX2    = "cpu.avx512f=off"
	onlyGeneric = "cpu.avx2=off"
)

// environ is an environment in which auto decides by a described machine, not by how fast this one is just now, and some of the CPU may be
// hidden.
func environ(hide string) []string {
	env := append(os.Environ(), "LOADLINE_MACHINE="+cost.Laptop2().Name)
	if hide != "" {
		env = append(env, "GODEBUG="+hide)
	}
	return env
}

// commandOn is command on a CPU of which some is hidden.
func commandOn(t *testing.T, hide string, doc any, args ...string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path, append(args, "--json", "--quiet")...)
	c.Env = environ(hide)
	var out, text bytes.Buffer
	c.Stdout, c.Stderr = &out, &text
	if err := c.Run(); err != nil {
		t.Fatalf("loadline %s: %v\n%s", strings.Join(args, " "), err, text.String())
	}
	if err := json.Unmarshal(out.Bytes(), doc); err != nil {
		t.Fatalf("loadline %s: %v in\n%s", strings.Join(args, " "), err, out.String())
	}
}

// peakOf asks plan what a run needs.
func peakOf(t *testing.T, hide string, args ...string) mem.Bytes {
	t.Helper()
	var p planned
	commandOn(t, hide, &p, append([]string{"plan"}, args...)...)
	if len(p.Plans) == 0 || p.Plans[0].Peak == 0 {
		t.Fatalf("plan %v: got %+v", args, p)
	}
	return p.Plans[0].Peak
}

// Runs of the command, each in as many whole MiB as it says that it needs, or fewer where auto decides: promise and ledger are equal to the
// byte, the process stays under the limit, and what it holds besides the ledger's other purposes is within the Runtime line. The losses
// are the same.
func TestProcessKeepsItsLimit(t *testing.T) {
	const steps = "4"
	preset := []string{"--preset", "llama-tiny", "--steps", steps, "--lr", "0.003"}
	up := func(n mem.Bytes) mem.Bytes { return (n + mem.MiB - 1) / mem.MiB * mem.MiB }
	none, full := peakOf(t, "", append(preset, "--recompute", "none")...), peakOf(t, "", append(preset, "--recompute", "full")...)
	settings := []struct {
		name  string
		limit mem.Bytes // 0 is what plan says
		args  []string
		like  int    // the setting whose losses it has; −1 where another number of ranks sums in another order, or something else is computed
		hide  string // of the CPU
	}{
		{"recompute none", none, []string{"--recompute", "none"}, 0, ""},
		{"recompute full", full, []string{"--recompute", "full"}, 0, ""},
		{"recompute tags", 0, []string{"--recompute", "norm,mlp.act"}, 0, ""},
		{"recompute auto, half way", full + (none-full)/2, []string{"--recompute", "auto"}, 0, ""},
		{"recompute auto, below full", full - 2*mem.MiB, []string{"--recompute", "auto"}, 0, ""},
		{"offload to a file", 0, []string{"--offload", "activations"}, 0, ""},
		{"one thread", none, []string{"--threads", "1"}, 0, ""},
		{"ZeRO-1 on 2 ranks", 0, []string{"--ranks", "2", "--zero", "1", "--batch", "4"}, -1, ""},
		{"ZeRO-3 on 2 ranks", 0, []string{"--ranks", "2", "--zero", "3", "--batch", "4"}, 7, ""},
		{"bf16", 0, []string{"--precision", "bf16"}, -1, ""},
		{"bf16, recompute full, one thread", 0, []string{"--precision", "bf16", "--recompute", "full", "--threads", "1"}, 9, ""},
		{"bf16 alone, ZeRO-2 on 2 ranks", 0, []string{"--precision", "bf16", "--master", "none", "--ranks", "2", "--zero", "2", "--batch", "2"}, -1, ""},
		{"fp16", 0, []string{"--precision", "fp16"}, -1, ""},
		{"fp16, recompute tags, offload to a file", 0, []string{"--precision", "fp16", "--recompute", "norm", "--offload", "activations"}, 12, ""},
		{"fp32, AVX2", 0, []string{"--recompute", "full"}, -1, onlyAVX2},
		{"bf16, AVX2", 0, []string{"--precision", "bf16"}, -1, onlyAVX2},
		{"fp16, AVX2, recompute full", 0, []string{"--precision", "fp16", "--recompute", "full"}, -1, onlyAVX2},
		{"fp32, generic", 0, []string{"--seq", "32", "--batch", "2"}, -1, onlyGeneric},
		{"bf16, generic, recompute full", 0, []string{"--precision", "bf16", "--seq", "32", "--batch", "2", "--recompute", "full"}, -1, onlyGeneric},
		{"fp16, generic", 0, []string{"--precision", "fp16", "--seq", "32", "--batch", "2"}, -1, onlyGeneric},
		{"optimizer to a file", 0, []string{"--offload", "optimizer"}, 0, ""},
		{"bf16, optimizer and activations to a file", 0, []string{"--precision", "bf16", "--offload", "optimizer,activations"}, 9, ""},
	}
	if testing.Short() {
		settings = settings[:2]
	}
	docs := make([]document, len(settings))
	for i, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			args := append(slices.Clone(preset), s.args...)
			limit := s.limit
			if limit == 0 {
				limit = peakOf(t, s.hide, args...)
			}
			limit = up(limit)
			d := &docs[i]
			commandOn(t, s.hide, d, append([]string{"train", "--out", filepath.Join(t.TempDir(), "run"), "--save-every", "0", "--memory", fmt.Sprint(int64(limit))}, args...)...)
			t.Logf("limit %v, predicted %v, ledger %v, resident %v", d.Limit, d.Predicted, d.Ledger, d.RSS)
			if d.Limit != limit || d.Predicted != d.Ledger || d.Predicted > limit || d.Predicted == 0 {
				t.Errorf("got a limit of %d bytes, %d predicted, %d in the ledger, want the limit %d and the same bytes within it", d.Limit, d.Predicted, d.Ledger, limit)
			}
			var sum [2]mem.Bytes
			for purpose, n := range d.ByPurpose {
				if n.Predicted != n.Ledger {
					t.Errorf("%s: predicted %d bytes, the ledger has %d", purpose, n.Predicted, n.Ledger)
				}
				sum[0], sum[1] = sum[0]+n.Predicted, sum[1]+n.Ledger
			}
			if sum != [2]mem.Bytes{d.Predicted, d.Ledger} {
				t.Errorf("purposes sum to %v, the peaks are %v and %v", sum, d.Predicted, d.Ledger)
			}
			line := d.ByPurpose[mem.Runtime.String()].Ledger
			if runtime.GOOS == "linux" {
				if d.RSS == 0 || d.RSS > limit {
					t.Errorf("the process held %v, the limit is %v", d.RSS, limit)
				}
				if above := d.RSS - (d.Ledger - line); above > line {
					t.Errorf("the process held %v above the other purposes, the Runtime line is %v", above, line)
				}
			}
			if line == 0 || line > 48*mem.MiB {
				t.Errorf("the Runtime line is %v", line)
			}
			if s.like >= 0 {
				sameBits(t, "losses", d.Losses, docs[s.like].Losses)
			}
		})
	}
}

// killed starts the command and kills it, as kill -9 does, when it has reported a number of events and a while has passed; it returns the
// number of events that it had reported by then. A command that ends before is an error.
func killed(t *testing.T, hide string, events int, after time.Duration, args ...string) int {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	ctx, kill := context.WithCancel(t.Context()) // Cancel kills the process
	defer kill()
	c := exec.CommandContext(ctx, path, append(args, "--quiet", "--events", "/dev/fd/3")...)
	c.Env = environ(hide)
	var text bytes.Buffer
	c.Stderr, c.ExtraFiles = &text, []*os.File{to}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	to.Close() // the child's own stays
	if events == 0 {
		time.AfterFunc(after, kill)
	}
	n := 0
	lines := bufio.NewScanner(from)
	for lines.Scan() { // until the process, and its ranks, are gone
		if bytes.Contains(lines.Bytes(), []byte(`"event":"begin"`)) { // it says that the process is there, not how far it is
			continue
		}
		if n++; n == events {
			time.AfterFunc(after, kill)
		}
	}
	var ended *exec.ExitError
	if err := c.Wait(); !errors.As(err, &ended) || ended.Exited() {
		t.Fatalf("loadline %s: it ended by itself after %d events: %v\n%s", strings.Join(args, " "), n, err, text.String())
	}
	return n
}

// A run that is killed at random moments (as it starts, computes and saves), seventeen in all, and resumed each time, ends with the losses and weights
// of the run that nothing stopped.
func TestKilledRunIsTheSame(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, run := range []struct {
		name  string
		kills int
		args  []string
		hide  string // of the CPU
	}{
		{"one rank", 5, []string{"--preset", "llama-tiny", "--batch", "4", "--recompute", "full"}, ""},
		{"two ranks", 4, []string{"--preset", "moe-tiny", "--batch", "2", "--ranks", "2", "--zero", "3"}, ""},
		{"bf16", 3, []string{"--preset", "moe-tiny", "--batch", "2", "--precision", "bf16", "--offload", "activations,optimizer"}, ""},
		{"fp16, AVX2", 3, []string{"--preset", "llama-tiny", "--batch", "4", "--precision", "fp16", "--recompute", "auto"}, onlyAVX2},
		{"fp32, generic", 2, []string{"--preset", "llama-tiny", "--batch", "1", "--seq", "32"}, onlyGeneric},
	} {
		t.Run(run.name, func(t *testing.T) {
			if testing.Short() {
				run.kills = min(run.kills, 2)
			}
			// Enough steps for all kills, also where a few are made after the last that it is let report.
			steps := fmt.Sprint(run.kills*7 + 10)
			args := append([]string{"train", "--seq", "64", "--steps", steps, "--save-every", "2"}, run.args...)
			var want, got document
			commandOn(t, run.hide, &want, append(args, "--out", filepath.Join(t.TempDir(), "run"))...)
			out := filepath.Join(t.TempDir(), "run")
			args = append(args, "--out", out, "--resume", out)
			reported := 0
			for k := range run.kills {
				events, after := random.IntN(6), time.Duration(random.Int64N(int64(15*time.Millisecond)))
				if k == run.kills-1 && reported == 0 { // one at least after the start
					events = max(events, 1)
				}
				if events == 0 { // somewhere from its first instruction to its first step
					after = time.Duration(random.Int64N(int64(60 * time.Millisecond)))
				}
				n := killed(t, run.hide, events, after, args...)
				reported += n
				t.Logf("kill %d: after %d events, %d in all", k+1, events, n)
			}
			if reported == 0 {
				t.Error("no kill came after the start")
			}
			commandOn(t, run.hide, &got, args...)
			sameBits(t, "losses", got.Losses, want.Losses)
			if !bytes.Equal(modelFile(t, got.Checkpoint), modelFile(t, want.Checkpoint)) {
				t.Error("trained weights differ")
			}
			left, err := os.ReadDir(out)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range left {
				if strings.HasPrefix(f.Name(), ".tmp-") {
					t.Errorf("%s is left of a killed run", f.Name())
				}
			}
		})
	}
}
