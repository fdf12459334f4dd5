package logcheck

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// formatPattern is a kind of line that names the format of weights, or of keys and values. A log's first word stands: what loads first is
// the model, and what follows its drafts and adapters.
type formatPattern struct {
	system string
	match  *regexp.Regexp
	kv     bool
}

var formatPatterns = []formatPattern{
	{"llamacpp", regexp.MustCompile(`(?:file type|model ftype) +[:=] +(?:all |mostly )?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*(?: - (?:Small|Medium|Large))?)`), false},
	{"llamacpp", regexp.MustCompile(`[-._/](?i:(IQ\d_[A-Z0-9]+|Q\d_(?:K(?:_[SML])?|\d)|BF16|F16|F32))\.gguf\b`), false},
	{"llamacpp", regexp.MustCompile(`, K \((\w+)\):`), true},
	{"vllm", regexp.MustCompile(`\bquantization=([\w-]+)`), false},
	{"vllm", regexp.MustCompile(`\bkv_cache_dtype=([\w-]+)`), true},
	{"sglang", regexp.MustCompile(`\bquantization='?([\w-]+)`), false},
	{"sglang", regexp.MustCompile(`\bkv_cache_dtype='?([\w-]+)`), true},
}

// naming is part of every line that a pattern of formats matches, and of few others.
var naming = []string{"file type", "ftype", ".gguf", "quantization=", "kv_cache_dtype=", ", K ("}

// readFormats keeps the first format of weights and of the cache that a line of each system names.
func readFormats(line string, words map[string]*[2]string) {
	for i := range formatPatterns {
		p := &formatPatterns[i]
		m := p.match.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if words[p.system] == nil {
			words[p.system] = &[2]string{}
		}
		at := &words[p.system][0]
		if p.kv {
			at = &words[p.system][1]
		}
		word := strings.ToLower(m[1])
		if size := strings.LastIndex(word, " - "); size >= 0 { // Q4_K - Medium
			word = word[:size] + "_" + word[size+3:size+4]
		}
		*at = cmp.Or(*at, word)
	}
}

// Planned returns the format of weights among known that the log's is planned as: itself, what it is called here, or of those of llama.cpp
// the one with as many bits. Empty says that the log names none, or none that is like one of them.
func (l *Log) Planned(known []string) string {
	word := l.Quant
	switch {
	case word == "" || slices.Contains(known, word):
		return word
	case l.System != "llamacpp":
		return map[string]string{"none": "bf16", "awq": "awq-int4", "awq_marlin": "awq-int4", "gptq": "awq-int4", "gptq_marlin": "awq-int4", "fp8": "fp8"}[word]
	case word == "f16":
		return "bf16"
	}
	bits := strings.TrimPrefix(word, "i")
	for _, k := range known {
		if len(bits) > 1 && bits[0] == 'q' && strings.HasPrefix(k, bits[:2]) {
			return k
		}
	}
	return ""
}

// PlannedKV is Planned of keys and values.
func (l *Log) PlannedKV() string {
	return map[string]string{"f16": "f16", "bf16": "f16", "q8_0": "q8_0", "q4_0": "q4_0", "auto": "f16", "fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8"}[l.KVType]
}
