// Package writers turns a plan into configurations that the planned framework reads: DeepSpeed's JSON, accelerate's
// YAML, torchtitan's TOML (to 0.2.2) and Python (from 0.3), torchtune's overrides, trainer arguments for transformers, and
// the arguments of Megatron-LM, vLLM, SGLang, llama-server and Loadline itself.
//
// Invariants: every setting that the plan decides is written, with the reason beside it, in a comment where the format has them and in a
// table of its own where it has none. A written file depends on the plan alone, so that goldens can hold it.
//
// It writes nothing to disk, and does not invent what the plan says nothing of: learning rates, data and paths are
// the user's. Names of settings are from each framework's own parsers (deepspeed 0.19, accelerate 1.15, torchtitan
// 0.2.2 and its main branch, Megatron-Core 0.17, vLLM 0.11, SGLang 0.5, llama.cpp b6900).
package writers

import (
	"fmt"
	"strings"

	"loadline/mem"
	"loadline/planner/search"
)

// File is one configuration.
type File struct {
	Name string `json:"name"` // without a folder
	Body string `json:"body"`
}

// Setting is one line of a configuration, and why it is so.
type Setting struct {
	Key, Value string
	Why        string
}

// Job is what is written for.
type Job struct {
	Model    string // as the user named it: a path, a hub name or a built-in one
	File     bool   // Model is a path
	Hardware string // this, or the name of a machine of HardwareFile; empty for built-in cards, which the question names
	// HardwareFile is the user's file of machines; empty without one.
	HardwareFile string
	Question     search.Question
	Plan         search.Plan
}

// Write returns the files for a plan's framework, and Loadline's own.
func Write(j Job) ([]File, error) {
	if j.Question.Shape == nil || j.Plan.Ranks < 1 {
		return nil, fmt.Errorf("writers: a plan of no ranks or no model: want one of search.Plans, with its answer's question")
	}
	var files []File
	c := &j.Plan.Config
	switch c.System {
	case "deepspeed":
		files = append(j.deepSpeed(), j.accelerate(), j.trainerArguments())
	case "peft", "fsdp-qlora":
		files = []File{j.accelerate(), j.trainerArguments()}
	case "torchtitan":
		files = []File{j.titanTOML(), j.titanPython()}
	case "torchtune":
		files = []File{j.torchtune()}
	case "megatron":
		files = []File{j.megatron()}
	case "vllm":
		files = []File{j.vllm()}
	case "sglang":
		files = []File{j.sglang()}
	case "llamacpp":
		files = []File{j.llamaServer()}
	case "transformers", search.Own:
	default:
		return nil, fmt.Errorf("writers: no format for framework %q, want one of %v", c.System, search.Frameworks(j.Question.Task))
	}
	return append(files, j.loadline()), nil
}

// head are the lines at the top of every file that has comments.
func (j *Job) head() string {
	p := &j.Plan
	where := fmt.Sprintf("%d × %s", p.Ranks, j.Question.Machine.Card.Name)
	return fmt.Sprintf("# %s on %s: %v a rank at the peak, %v to %v with 8 chances in 10, out of %v.\n", j.Question.Shape.Name, where, p.Peak, p.Range[0], p.Range[1], j.Question.Machine.Card.Reported())
}

// comment lines up settings with their reasons behind them.
func comment(lines []Setting, join string, prefix string) string {
	width := 0
	for _, l := range lines {
		width = max(width, len([]rune(prefix+l.Key+join+l.Value)))
	}
	var b strings.Builder
	for _, l := range lines {
		text := strings.TrimRight(prefix+l.Key+join+l.Value, " ")
		if l.Why == "" {
			fmt.Fprintf(&b, "%s\n", text)
			continue
		}
		fmt.Fprintf(&b, "%-*s  # %s\n", width, text, l.Why)
	}
	return b.String()
}

// script writes a command with one argument a line. Bash lets an array hold comments. before sets variables that the command uses.
func (j *Job) script(command string, lines []Setting, before ...Setting) string {
	var b strings.Builder
	b.WriteString("#!/usr/bin/env bash\n" + j.head() + "set -euo pipefail\n" + comment(before, "=", "") + "args=(\n")
	b.WriteString(comment(lines, " ", "  "))
	fmt.Fprintf(&b, ")\nexec %s \"${args[@]}\" \"$@\"\n", command)
	return b.String()
}

// table writes settings and reasons for people, for formats without comments.
func table(title string, lines []Setting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n| key | value | why |\n|---|---|---|\n", title)
	for _, l := range lines {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", l.Key, l.Value, l.Why)
	}
	return b.String()
}

// Reasons that several formats share.

func (j *Job) whyMicro() string {
	c := &j.Plan.Config
	return fmt.Sprintf("with %d tokens the peak is %v of %v", c.MicroBatch*j.Question.Seq, j.Plan.Peak, j.Question.Machine.Card.Reported())
}

func (j *Job) whyBatch() string {
	c := &j.Plan.Config
	return fmt.Sprintf("%d a rank × %d data-parallel ranks × %d accumulated", c.MicroBatch, c.DP, c.Accumulate)
}

func (j *Job) globalBatch() int {
	c := &j.Plan.Config
	return c.MicroBatch * c.DP * c.Accumulate
}

func (j *Job) whyRecompute() string {
	switch j.Plan.Config.Recompute {
	case "full":
		return "layers are kept as their inputs and computed again: keeping more does not fit, or buys nothing"
	case "selective":
		return "what is large and cheap is computed again"
	}
	return "everything kept fits"
}

func (j *Job) purpose(p mem.Purpose) mem.Bytes { return j.Plan.ByPurpose[p.String()] }
