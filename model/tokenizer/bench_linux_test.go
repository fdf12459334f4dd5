package tokenizer

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkFamilies encodes English, and the other families' texts, which are the awkward ones. MB/cpu-s counts the time that the
// thread ran, which is what one core does on a machine that others use too.
func BenchmarkFamilies(b *testing.B) {
	english := readFile(b, "testdata/sample.txt")
	mixed := appendValid(nil, bytes.Join(familyTexts(b), []byte(" ")))
	for _, name := range []string{
		"gpt2", "llama3", "qwen3", "gptoss", "deepseek_v3", "llama2", "gemma", "t5", "bert", "spm_bpe", "spm_unigram", "gguf_phi-3", "gguf_deepseek-llm", "gguf_t5",
	} {
		tok := readFamily(b, name).tokenizer(b)
		for _, c := range []struct {
			kind string
			text []byte
		}{{"english", english}, {"mixed", mixed}} {
			b.Run(name+"/"+c.kind, func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var ids []int32
				b.SetBytes(int64(len(c.text)))
				start, n := threadTime(b), 0
				for b.Loop() {
					ids = tok.AppendEncode(ids[:0], c.text)
					n++
				}
				b.ReportMetric(float64(n*len(c.text))/1e6/(threadTime(b)-start).Seconds(), "MB/cpu-s")
			})
		}
	}
}

// threadTime is how long the thread has run.
func threadTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
