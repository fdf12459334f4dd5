package tokenizer

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sentences is how many of the families' texts are sentences in many languages, and code; the others are the awkward ones.
const sentences = 54

// BenchmarkFamilies encodes English, the families' sentences with as much of it, all their texts, and each of those alone, as short
// prompts are. MB/cpu-s counts the time that the thread ran, which is what one core does on a machine that others use too.
func BenchmarkFamilies(b *testing.B) {
	english := readFile(b, "testdata/sample.txt")
	texts := familyTexts(b)
	for i := range texts {
		texts[i] = appendValid(nil, texts[i])
	}
	mixed := bytes.Join(texts[:sentences], []byte("\n"))
	mixed = append(mixed, english[:len(mixed)]...)
	for _, name := range []string{
		"gpt2", "llama3", "qwen3", "gptoss", "deepseek_v3", "llama2", "phi3", "gemma", "t5", "bert", "spm_bpe", "spm_unigram", "gguf_command-r",
		"gguf_llama-bpe", "gguf_qwen2", "gguf_phi-3", "gguf_deepseek-llm", "gguf_t5", "gguf_bert-bge",
	} {
		tok := readFamily(b, name).tokenizer(b)
		for _, c := range []struct {
			kind  string
			texts [][]byte
		}{{"english", [][]byte{english}}, {"mixed", [][]byte{mixed}}, {"awkward", [][]byte{bytes.Join(texts, []byte(" "))}}, {"prompts", texts}} {
			b.Run(name+"/"+c.kind, func(b *testing.B) { benchmarkEncode(b, tok, c.texts) })
		}
	}
}

func benchmarkEncode(b *testing.B, tok *Tokenizer, texts [][]byte) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ids []int32
	size := 0
	for _, t := range texts {
		size += len(t)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	start, n := threadTime(b), 0
	for b.Loop() {
		for _, t := range texts {
			ids = tok.AppendEncode(ids[:0], t)
		}
		n++
	}
	b.ReportMetric(float64(n*size)/1e6/(threadTime(b)-start).Seconds(), "MB/cpu-s")
}

// threadTime is how long the thread has run.
func threadTime(t testing.TB) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
