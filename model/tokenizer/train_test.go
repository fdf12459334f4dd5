package tokenizer

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
)

// english returns n bytes of made-up text with the word statistics of a language: Zipf's law over 30,000 words.
func english(n int) []byte {
	rng := rand.New(rand.NewPCG(3, 4))
	words := make([]string, 30000)
	for i := range words {
		var w strings.Builder
		for range 1 + rng.IntN(4) {
			w.WriteByte("bcdfghklmnprstvw"[rng.IntN(16)])
			w.WriteByte("aeiou"[rng.IntN(5)])
			if rng.IntN(2) == 0 {
				w.WriteByte("nrst"[rng.IntN(4)])
			}
		}
		words[i] = w.String()
	}
	zipf := rand.NewZipf(rng, 1.1, 3, uint64(len(words)-1))
	var text bytes.Buffer
	for text.Len() < n {
		text.WriteString(words[zipf.Uint64()])
		text.WriteString([]string{" ", " ", " ", " ", ", ", ".\n"}[rng.IntN(6)])
	}
	return text.Bytes()[:n]
}

func TestTrainIsDeterministic(t *testing.T) {
	text := english(200 << 10)
	first, err := Train(bytes.NewReader(text), 700, TrainOptions{MaxWords: 2000})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Train(io.MultiReader(bytes.NewReader(text[:777]), bytes.NewReader(text[777:])), 700, TrainOptions{MaxWords: 2000})
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, second, first)
}

// TestTrainIsFastAndSmall holds training on a megabyte to 3 s and 24 MiB, and encoding to 3 MB/s.
func TestTrainIsFastAndSmall(t *testing.T) {
	text := english(1 << 20)
	before, start := allocated(), time.Now()
	tok, err := Train(bytes.NewReader(text), 1024, TrainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	took, heap := time.Since(start), allocated()-before
	if took > 3*time.Second*raceFactor {
		t.Errorf("training took %v, want at most 3s", took)
	}
	if limit := uint64(24 << 20); heap > limit { // all it ever allocates, so the peak is below
		t.Errorf("training took %d bytes of heap, want at most %d", heap, limit)
	}
	if got := tok.VocabSize(); got != 1024 {
		t.Errorf("vocabulary: got %d, want 1024", got)
	}
	start = time.Now()
	ids := tok.AppendEncode(nil, text)
	rate := float64(len(text)) / time.Since(start).Seconds() / 1e6
	if rate*raceFactor < 3 {
		t.Errorf("encoding runs at %.1f MB/s, want at least 3", rate)
	}
	t.Logf("trained in %v, %d KiB of heap; encoded at %.1f MB/s, %.2f bytes a token",
		took, heap>>10, rate, float64(len(text))/float64(len(ids)))
}

// allocated returns the bytes of heap allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestTrainForgetsRareWords trains on more words than may be counted: the frequent ones must survive.
func TestTrainForgetsRareWords(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		for i := range 50000 {
			fmt.Fprintf(w, "rare%dwords often ", i*7919)
		}
		w.Close()
	}()
	words, err := countWords(r, 500, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(words) > 500 {
		t.Errorf("got %d words, want at most 500", len(words))
	}
	for _, w := range words {
		if w.text == " often" && w.count == 50000 {
			return
		}
	}
	t.Errorf("the most frequent word has been forgotten")
}

// TestTrainForgetsLongWords counts words of a text that has no spaces: their bytes are bounded too, and what is frequent survives.
func TestTrainForgetsLongWords(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		for i := range 50000 {
			fmt.Fprintf(w, "%d often", uint64(i)*7919*7919*7919)
			fmt.Fprint(w, strings.Repeat(" ", i%2), strings.Repeat("x", maxWordBytes-1))
		}
		w.Close()
	}()
	const most = 4096
	words, err := countWords(r, 500, most)
	if err != nil {
		t.Fatal(err)
	}
	bytes, often := 0, int64(0)
	for _, w := range words {
		bytes += len(w.text)
		if strings.HasPrefix(w.text, " often") {
			often += w.count
		}
	}
	if bytes > most || often < 49000 {
		t.Errorf("got words of %d bytes, %d of them the frequent ones, want at most %d and about 50000", bytes, often, most)
	}
}

func TestTrainStopsWhenNothingRepeats(t *testing.T) {
	tok, err := Train(strings.NewReader("abcdefg"), 1024, TrainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.VocabSize(); got != minVocab {
		t.Errorf("vocabulary: got %d, want %d", got, minVocab)
	}
}

func TestTrainRefuses(t *testing.T) {
	for _, c := range []struct {
		vocab int
		o     TrainOptions
		want  string
	}{
		{256, TrainOptions{}, "vocabulary size is 256, want 257 to 1048576"},
		{1 << 21, TrainOptions{}, "vocabulary size is 2097152"},
		{300, TrainOptions{MinCount: -1}, "minimum count is -1"},
		{300, TrainOptions{MaxWords: -1}, "maximum of words is -1"},
		{300, TrainOptions{MaxWordBytes: -1}, "maximum of bytes of words is -1"},
	} {
		if _, err := Train(strings.NewReader("text"), c.vocab, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d, %+v: got %v, want an error with %q", c.vocab, c.o, err, c.want)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	text := readFile(b, "testdata/sample.txt")
	tok := trainSample(b, 600)
	var ids []int32
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		ids = tok.AppendEncode(ids[:0], text)
	}
}

// Progress tells of every token, and changes none.
func TestTrainProgress(t *testing.T) {
	const text = "so shaken as we are, so wan with care, find we a time for frighted peace to pant"
	last, most := 0, 0
	got, err := Train(strings.NewReader(text), 270, TrainOptions{Progress: func(tokens, all int) {
		if tokens < last || tokens > last+1 && last > 0 || all != 269 {
			t.Errorf("got %d of %d behind %d", tokens, all, last)
		}
		last, most = tokens, max(most, tokens)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if want, err := Train(strings.NewReader(text), 270, TrainOptions{}); err != nil || most+1 != got.VocabSize() || want.VocabSize() != got.VocabSize() {
		t.Errorf("told of %d tokens, got %d, %v", most, got.VocabSize(), err)
	}
}
