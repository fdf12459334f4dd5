package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// golden is what Hugging Face's tokenizers library does with testdata/sample.txt; see testdata/golden.py.
type golden struct {
	VocabSize int         `json:"vocab_size"`
	Merges    [][2]string `json:"merges"`
	Cases     []struct {
		Text string  `json:"text"`
		IDs  []int32 `json:"ids"`
	} `json:"cases"`
}

func readGolden(t testing.TB) golden {
	t.Helper()
	var g golden
	if err := json.Unmarshal(readFile(t, "testdata/golden.json"), &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// trainSample trains on testdata/sample.txt.
func trainSample(t testing.TB, vocab int) *Tokenizer {
	t.Helper()
	tok, err := Train(bytes.NewReader(readFile(t, "testdata/sample.txt")), vocab, TrainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestTrainLearnsWhatTheLibraryLearns(t *testing.T) {
	g := readGolden(t)
	tok := trainSample(t, g.VocabSize)
	names := tok.names()
	if got, want := len(tok.bpe.merges), len(g.Merges); got != want {
		t.Fatalf("got %d merges, want %d", got, want)
	}
	for i, m := range tok.bpe.merges {
		if got := [2]string{names(m.left), names(m.right)}; got != g.Merges[i] {
			t.Fatalf("merge %d: got %q, want %q", i, got, g.Merges[i])
		}
	}
	if got, want := tok.VocabSize(), g.VocabSize; got != want {
		t.Errorf("vocabulary: got %d, want %d", got, want)
	}
	if got, want := tok.EOS(), int32(g.VocabSize-1); got != want {
		t.Errorf("EOS: got %d, want %d", got, want)
	}
}

func TestEncodeIsTheLibrarys(t *testing.T) {
	g := readGolden(t)
	tok, err := Load("testdata/trained.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.EOS(); got != 0 {
		t.Errorf("EOS: got %d, want 0", got)
	}
	for _, c := range g.Cases {
		if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%q: got %v, want %v", c.Text, got, c.IDs)
		}
		if got := string(tok.Decode(c.IDs)); got != c.Text {
			t.Errorf("decoded: got %q, want %q", got, c.Text)
		}
	}
}

// TestLoadReadsOldMerges reads the same file with merges in the form of files written before 2024.
func TestLoadReadsOldMerges(t *testing.T) {
	g := readGolden(t)
	var f map[string]any
	if err := json.Unmarshal(readFile(t, "testdata/trained.json"), &f); err != nil {
		t.Fatal(err)
	}
	var old []string
	for _, m := range g.Merges {
		old = append(old, strings.Join(m[:], " "))
	}
	f["model"].(map[string]any)["merges"] = old
	p, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(bytes.NewReader(p))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range g.Cases {
		if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Fatalf("%q: got %v, want %v", c.Text, got, c.IDs)
		}
	}
}
