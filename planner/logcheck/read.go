// Package logcheck reads what a framework logged about its memory, holds it line by line against the plan, says what
// explains the difference, and keeps what was learnt in a profile of the user's.
//
// Known logs: vLLM's and SGLang's start-up, llama.cpp's buffers, DeepSpeed's see_memory_usage, torch's memory_summary
// and its out-of-memory message. Invariants: reading is bounded in bytes, lines and readings; a line that is not
// recognised is passed over, and a log without any is an error. A profile is replaced as a whole or not at all.
//
// Of the planner's packages this one touches files: the profile. It predicts nothing itself.
package logcheck

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loadline/mem"
)

// Names of readings, as reports have them.
const (
	Weights     = "weights"
	HostWeights = "weights on the CPU"
	KV          = "keys and values"
	KVTokens    = "tokens of keys and values"
	Concurrency = "sequences at once"
	Activations = "activations"
	Compute     = "compute buffers"
	Graphs      = "CUDA graphs"
	Outside     = "outside torch"
	Allocated   = "peak allocated"
	Reserved    = "peak reserved"
	Process     = "the whole process"
	Total       = "memory of the card"
	Utilization = "gpu_memory_utilization"
	Context     = "context"
)

// Reading is one figure of a log. Value is in bytes where Bytes is set.
type Reading struct {
	Name  string
	Value float64
	Bytes bool
	Line  int // the first line of the log that it comes from
}

// Log is what was read.
type Log struct {
	System   string // vllm, sglang, llamacpp, deepspeed, torch
	Readings []Reading
	// Quant is the format of the weights, as the log names it in lower case, and KVType that of keys and values; empty where it
	// names none.
	Quant, KVType string
	// RanOut tells that the run ended for lack of memory.
	RanOut bool
}

// Bounds of a log.
const (
	maxLogBytes = 256 << 20
	maxLogLine  = 1 << 20
)

// Get returns a reading.
func (l *Log) Get(name string) (float64, bool) {
	for _, r := range l.Readings {
		if r.Name == name {
			return r.Value, true
		}
	}
	return 0, false
}

// how a figure that appears several times is put together.
type fold uint8

const (
	last fold = iota
	sum
	most
)

// pattern is one kind of line: a regular expression whose first group is the number, and where there is a second, its
// unit.
type pattern struct {
	system string
	match  *regexp.Regexp
	name   string
	fold   fold
	count  bool // the number is no size
}

const size = `([\d.,]+) ?([KMGT]i?B)`

var patterns = []pattern{
	{"vllm", regexp.MustCompile(`(?:Loading model weights|Model loading) took ` + size), Weights, last, false},
	{"vllm", regexp.MustCompile(`model weights take ` + size), Weights, last, false},
	{"vllm", regexp.MustCompile(`non_torch_memory takes ` + size), Outside, last, false},
	{"vllm", regexp.MustCompile(`PyTorch activation peak memory takes ` + size), Activations, last, false},
	{"vllm", regexp.MustCompile(`reserved for KV Cache is ` + size), KV, last, false},
	{"vllm", regexp.MustCompile(`Available KV cache memory: ` + size), KV, last, false},
	{"vllm", regexp.MustCompile(`total_gpu_memory \(` + size), Total, last, false},
	{"vllm", regexp.MustCompile(`gpu_memory_utilization(?: \(|=)([\d.]+)`), Utilization, last, true},
	{"vllm", regexp.MustCompile(`GPU KV cache size: ([\d,]+) tokens`), KVTokens, last, true},
	{"vllm", regexp.MustCompile(`Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x`), Concurrency, last, true},
	{"vllm", regexp.MustCompile(`Maximum concurrency for ([\d,]+) tokens per request`), Context, last, true},
	{"vllm", regexp.MustCompile(`Graph capturing finished in \d+ secs?, took ` + size), Graphs, last, false},

	{"sglang", regexp.MustCompile(`Load weight end\..*mem usage=` + size), Weights, last, false},
	{"sglang", regexp.MustCompile(`KV Cache is allocated\. .*#tokens: ([\d,]+)`), KVTokens, last, true},
	{"sglang", regexp.MustCompile(`KV Cache is allocated\. .*K size: ` + size), KV, last, false},
	{"sglang", regexp.MustCompile(`KV Cache is allocated\. .*V size: ` + size), KV, sum, false},
	{"sglang", regexp.MustCompile(`Capture cuda graph end\..*mem usage=` + size), Graphs, last, false},

	{"llamacpp", regexp.MustCompile(`(?:CPU\w*|CUDA_Host|\w+_Host) (?:model )?buffer size = +` + size), HostWeights, sum, false},
	{"llamacpp", regexp.MustCompile(`(?:CUDA|Vulkan|ROCm|SYCL|Metal|MTL)\d* model buffer size = +` + size), Weights, sum, false},
	{"llamacpp", regexp.MustCompile(`llm_load_tensors: +(?:CUDA|Vulkan|ROCm|SYCL|Metal)\d* buffer size = +` + size), Weights, sum, false},
	{"llamacpp", regexp.MustCompile(`KV buffer size = +` + size), KV, sum, false},
	{"llamacpp", regexp.MustCompile(`(?:CUDA|Vulkan|ROCm|SYCL|Metal|MTL)\d* compute buffer size = +` + size), Compute, most, false},
	{"llamacpp", regexp.MustCompile(`llama_\w+: n_ctx +[:=] (\d+)`), Context, last, true},

	{"deepspeed", regexp.MustCompile(`Max_MA ` + size), Allocated, most, false},
	{"deepspeed", regexp.MustCompile(`Max_CA ` + size), Reserved, most, false},

	{"torch", regexp.MustCompile(`^\| Allocated memory +\| +[\d.]+ \w+ +\| +` + size), Allocated, most, false},
	{"torch", regexp.MustCompile(`^\| GPU reserved memory +\| +[\d.]+ \w+ +\| +` + size), Reserved, most, false},
	{"torch", regexp.MustCompile(`total capacity of ` + size), Total, last, false},
	{"torch", regexp.MustCompile(`this process has ` + size), Process, last, false},
	{"torch", regexp.MustCompile(`Of the allocated memory ` + size), Allocated, most, false},
}

// hint is part of every line that a pattern matches, and of few others.
var hint = regexp.MustCompile(`\d ?[KMGT]i?B|tokens|n_ctx|gpu_memory_utilization`)

// ranOut are the lines that say so.
// Each of its texts holds one of ranOutWords, which are looked for first: that is far quicker than the pattern.
var ranOut = regexp.MustCompile(`(?i)CUDA out of memory|OutOfMemoryError|cudaMalloc failed: out of memory|No available memory for the cache blocks|failed to allocate buffer`)

var ranOutWords = []string{"emory", "EMORY", "llocate", "LLOCATE"}

// tellsRanOut tells whether a line says that memory was not enough.
func tellsRanOut(line string) bool {
	return holdsAny(line, ranOutWords) && ranOut.MatchString(line)
}

// holdsAny tells whether a line holds one of the words.
func holdsAny(line string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
}

// Read reads a log.
func Read(r io.Reader) (*Log, error) {
	in := bufio.NewScanner(io.LimitReader(r, maxLogBytes))
	in.Buffer(nil, 2*maxLogLine)
	ended := true
	in.Split(func(data []byte, last bool) (int, []byte, error) {
		i := bytes.IndexByte(data, '\n')
		if ended = i >= 0; ended {
			return i + 1, data[:i], nil
		}
		if last && len(data) > 0 || len(data) >= maxLogLine { // a line without an end, such as of a progress bar, is read in pieces
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	found := map[string]map[string]*Reading{}
	hits := map[string]int{}
	l := &Log{}
	words := map[string]*[2]string{}
	for n, next := 1, 1; in.Scan(); n = next {
		line := in.Text()
		if ended {
			next = n + 1
		}
		if !l.RanOut && tellsRanOut(line) {
			l.RanOut = true
		}
		if holdsAny(line, naming) {
			readFormats(line, words)
		}
		if !hint.MatchString(line) {
			continue
		}
		for i := range patterns {
			p := &patterns[i]
			m := p.match.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			v, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
			if err != nil {
				continue
			}
			if !p.count {
				v *= unit(m[2], p.system)
			}
			hits[p.system]++
			of := found[p.system]
			if of == nil {
				of = map[string]*Reading{}
				found[p.system] = of
			}
			have := of[p.name]
			switch {
			case have == nil:
				of[p.name] = &Reading{p.name, v, !p.count, n}
			case p.fold == sum:
				have.Value += v
			case p.fold == most:
				have.Value = max(have.Value, v)
			default:
				have.Value = v
			}
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("logcheck: %w", err)
	}
	for _, p := range patterns {
		if hits[p.system] > hits[l.System] || l.System == "" && hits[p.system] > 0 {
			l.System = p.system
		}
	}
	if l.System == "" {
		return nil, fmt.Errorf("logcheck: no line of memory is known in it: want a start-up log of vLLM, SGLang or llama.cpp, DeepSpeed's see_memory_usage, or torch's memory_summary")
	}
	if w := words[l.System]; w != nil {
		l.Quant, l.KVType = w[0], w[1]
	}
	done := map[string]bool{}
	for _, p := range patterns {
		if r := found[l.System][p.name]; r != nil && !done[p.name] {
			done[p.name] = true
			l.Readings = append(l.Readings, *r)
		}
	}
	return l, nil
}

// unit returns the bytes of a unit as a system writes it: torch and what is built on it divide by 2^30 and say GB.
func unit(name, system string) float64 {
	u, err := mem.ParseBytes("1" + name)
	if err != nil {
		return 1
	}
	if !strings.Contains(name, "i") {
		u, err = mem.ParseBytes("1" + name[:1] + "iB")
		if err != nil {
			return 1
		}
	}
	return float64(u)
}
