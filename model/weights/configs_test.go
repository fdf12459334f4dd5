package weights

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const configsDir = "testdata/configs/"

// Configurations of published models are read: each has as many parameters as transformers makes, and turns as fast.
func TestPublishedConfigs(t *testing.T) {
	body, err := os.ReadFile(configsDir + "expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		Parameters  int64
		Frequencies []float64
		Magnitude   float64
	}
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 37 {
		t.Errorf("got %d configurations, want 37 at least", len(all))
	}
	for name, want := range all {
		c, err := readConfig(configsDir + name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := c.Params(); got != want.Parameters {
			t.Errorf("%s: got %d parameters, want %d", name, got, want.Parameters)
		}
		if len(want.Frequencies) == 0 {
			continue
		}
		rope, ok := c.Rope(0, 16)
		if !ok || len(want.Frequencies) != pairsOf(rope.Turned, c.HeadDim)/2 {
			t.Errorf("%s: got a rotation of %+v, want %d pairs", name, rope, len(want.Frequencies))
			continue
		}
		for i, w := range want.Frequencies {
			got := math.Pow(rope.Theta, -2*float64(i)/float64(2*len(want.Frequencies)))
			if rope.Divisors != "" {
				got /= rope.Divisors.Values()[i]
			}
			if !(math.Abs(got-w) <= 1e-5*w) {
				t.Errorf("%s: pair %d turns by %g, want %g", name, i, got, w)
				break
			}
		}
		if m := cmp.Or(rope.Magnitude, 1); math.Abs(m-want.Magnitude) > 1e-6 {
			t.Errorf("%s: turned elements are times %g, want %g", name, m, want.Magnitude)
		}
	}
	files, err := filepath.Glob(configsDir + "*.json")
	if err != nil || len(files) != len(all)+1 {
		t.Errorf("got %d files, %v, want %d", len(files), err, len(all)+1)
	}
	// A few fields that the counts say nothing of.
	for _, x := range []struct {
		name, what string
		got        func(name string) int
		want       int
	}{
		{"mistral-7b-v0.1", "window", windowOf(0), 4096}, {"mistral-7b-instruct-v0.3", "window", windowOf(0), 0}, {"qwen2.5-0.5b", "window", windowOf(23), 0},
		{"deepseek-r1-distill-qwen-1.5b", "window", windowOf(27), 0}, {"gemma-2-2b", "window of layer 0", windowOf(0), 4096}, {"gemma-2-2b", "window of layer 1", windowOf(1), 0},
		{"gemma-3-1b-it", "window of layer 4", windowOf(4), 512}, {"gemma-3-1b-it", "window of layer 5", windowOf(5), 0}, {"gemma-3-4b-it", "window of layer 5", windowOf(5), 0},
		{"gemma-3-27b-it", "window of layer 6", windowOf(6), 1024}, {"gpt-oss-20b", "window of layer 0", windowOf(0), 128}, {"phi-3-mini-4k", "window", windowOf(0), 2047},
		{"phi-4", "window", windowOf(0), 0},
	} {
		if got := x.got(configsDir + x.name + ".json"); got != x.want {
			t.Errorf("%s: got a %s of %d, want %d", x.name, x.what, got, x.want)
		}
	}
}

// windowOf is how many positions a layer sees, −1 without a configuration.
func windowOf(layer int) func(path string) int {
	return func(path string) int {
		c, err := readConfig(path)
		if err != nil {
			return -1
		}
		return c.Window(layer)
	}
}

func pairsOf(n, head int) int {
	if n > 0 {
		return n
	}
	return head
}

// What is not built is refused by its name.
func TestConfigsOfOtherFamilies(t *testing.T) {
	for body, want := range map[string]string{
		`{"model_type":"qwen2_moe"}`: `model_type "qwen2_moe"`, `{"model_type":"llama4","text_config":{"model_type":"llama4_text"}}`: `"llama4_text"`,
		`{"model_type":"phimoe"}`: `"phimoe"`, `{"model_type":"gemma"}`: `"gemma"`,
	} {
		path := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readConfig(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to name %s", body, err, want)
		}
	}
}
