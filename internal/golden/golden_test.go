package golden

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const dir = "../../model/testdata/golden"

var modelDirs = []string{"dense", "dense_untied", "moe", "gpt2"}

// file builds a safetensors file.
func file(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func TestParseReadsEveryType(t *testing.T) {
	data := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5))
	data = binary.LittleEndian.AppendUint32(data, 0x80000001) // −(2³¹−1)
	data = binary.LittleEndian.AppendUint64(data, math.Float64bits(-0.1))
	entries, rest, err := parse(file(`{"__metadata__":{"format":"pt"},
		"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},
		"b":{"dtype":"I32","shape":[],"data_offsets":[4,8]},
		"c":{"dtype":"F64","shape":[1],"data_offsets":[8,16]},
		"d":{"dtype":"F32","shape":[0,3],"data_offsets":[16,16]}}`, data...))
	if err != nil {
		t.Fatal(err)
	}
	s := &Set{t: t, path: "built", entries: entries, data: rest}
	if got, shape := s.F32("a"); len(got) != 1 || got[0] != 1.5 || !slices.Equal(shape, []int{1, 1}) {
		t.Errorf("a: got %v %v", got, shape)
	}
	if got, shape := s.I32("b"); len(got) != 1 || got[0] != -math.MaxInt32 || len(shape) != 0 {
		t.Errorf("b: got %v %v", got, shape)
	}
	if got, shape := s.F64("c"); len(got) != 1 || got[0] != -0.1 || !slices.Equal(shape, []int{1}) {
		t.Errorf("c: got %v %v", got, shape)
	}
	if got, shape := s.F32("d"); len(got) != 0 || !slices.Equal(shape, []int{0, 3}) {
		t.Errorf("d: got %v %v", got, shape)
	}
	if got := s.Names(); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("names: got %v", got)
	}
	if s.Has("e") || !s.Has("a") {
		t.Error("Has: got e or not a")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		file       []byte
	}{
		{"short", "at least 8 bytes", []byte{1, 2}},
		{"long header", "header of", binary.LittleEndian.AppendUint64(nil, 1<<63)},
		{"not JSON", "header", file(`{`)},
		{"type", "file has BF16", file(`{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}`, 0, 0)},
		{"beyond the end", "bytes 0 to 8 of 4", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 0, 0, 0, 0)},
		{"backwards", "bytes 4 to 0", file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[4,0]}}`, 0, 0, 0, 0)},
		{"shape", "wants 8 bytes, file has 4", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 0, 0, 0, 0)},
		{"negative", "shape [-1]", file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 0, 0, 0, 0)},
	} {
		if _, _, err := parse(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestSetStopsTheTest(t *testing.T) {
	path := filepath.Join(dir, "dense", "activations.safetensors")
	for name, c := range map[string]struct {
		want string
		f    func(testing.TB)
	}{
		"no file":   {"no such file", func(tb testing.TB) { Load(tb, filepath.Join(dir, "none")) }},
		"not one":   {"golden: ", func(tb testing.TB) { Load(tb, filepath.Join(dir, "text.bin")) }},
		"no tensor": {`no tensor "nope"`, func(tb testing.TB) { Load(tb, path).F32("nope") }},
		"type":      {`tensor "tokens": want F32, file has I32`, func(tb testing.TB) { Load(tb, path).F32("tokens") }},
		"no curve":  {"no such file", func(tb testing.TB) { LoadCurve(tb, filepath.Join(dir, "none")) }},
	} {
		if got := fatal(t, c.f); got == "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want a report with %q", name, got, c.want)
		}
	}
	if got := fatal(t, func(tb testing.TB) { Load(tb, path).F32("logits") }); got != "" {
		t.Errorf("a good read: got %q", got)
	}
}

// The committed loss is the mean cross-entropy of the committed logits: files, types and row order are read as they were written.
func TestModelsAgreeWithThemselves(t *testing.T) {
	for _, name := range modelDirs {
		acts := Load(t, filepath.Join(dir, name, "activations.safetensors"))
		logits, shape := acts.F32("logits")
		targets, rows := acts.I32("targets")
		if len(shape) != 3 || !slices.Equal(rows, shape[:2]) || shape[2] != 256 {
			t.Fatalf("%s: got logits %v and targets %v", name, shape, rows)
		}
		loss, _ := acts.F32("loss")
		loss64, _ := acts.F64("loss_f64")
		got := []float64{meanCrossEntropy(logits, targets, shape[2])}
		Close(t, name+" loss", got, []float64{float64(loss[0])}, 1e-6)
		Close(t, name+" loss in float64", got, loss64, 1e-6)

		weights := Load(t, filepath.Join(dir, name, "weights.safetensors"))
		grads := Load(t, filepath.Join(dir, name, "grads.safetensors"))
		if !slices.Equal(weights.Names(), grads.Names()) {
			t.Errorf("%s: weights %v, gradients %v", name, weights.Names(), grads.Names())
		}
		for _, n := range weights.Names() {
			w, ws := weights.F32(n)
			g, gs := grads.F32(n)
			if !slices.Equal(ws, gs) || !(MaxAbs(w) > 0.1) || !(MaxAbs(g) > 1e-3) {
				t.Errorf("%s %s: shapes %v and %v, max|w| %g, max|g| %g", name, n, ws, gs, MaxAbs(w), MaxAbs(g))
			}
		}
	}
}

func meanCrossEntropy(logits []float32, targets []int32, vocab int) float64 {
	total := 0.0
	for i, target := range targets {
		row, sum := logits[i*vocab:(i+1)*vocab], 0.0
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		total += math.Log(sum) - float64(row[target])
	}
	return total / float64(len(targets))
}

func TestOpsHaveAttributes(t *testing.T) {
	set := Load(t, filepath.Join(dir, "ops.safetensors"))
	text, err := os.ReadFile(filepath.Join(dir, "ops.json"))
	if err != nil {
		t.Fatal(err)
	}
	var attributes map[string]map[string]any
	if err := json.Unmarshal(text, &attributes); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, name := range set.Names() {
		op, _, _ := strings.Cut(name, ".")
		seen[op] = true
		if attributes[op] == nil {
			t.Errorf("%s: no attributes of %s", name, op)
		}
	}
	if len(seen) != len(attributes) || len(seen) < 15 {
		t.Errorf("got %d operations and attributes of %d, want as many, 15 or more", len(seen), len(attributes))
	}
	x, shape := set.F32("rmsnorm.input.x")
	weight, _ := set.F32("rmsnorm.input.weight")
	want, _ := set.F32("rmsnorm.output.y")
	got := make([]float32, len(x))
	for r := range shape[0] {
		sum := 0.0
		for _, v := range x[r*shape[1] : (r+1)*shape[1]] {
			sum += float64(v) * float64(v)
		}
		scale := 1 / math.Sqrt(sum/float64(shape[1])+attributes["rmsnorm"]["eps"].(float64))
		for i, w := range weight {
			got[r*shape[1]+i] = float32(float64(x[r*shape[1]+i]) * scale * float64(w))
		}
	}
	Close(t, "rmsnorm", got, want, 1e-7)
}
