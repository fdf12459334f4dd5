package safetensors

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/bounded"
)

// shardInfos are tensors of 24, 10, 16, 0 and 3 bytes.
var shardInfos = []Info{
	{Name: "embed", DType: F32, Shape: []int64{6}}, {Name: "a", DType: U8, Shape: []int64{10}}, {Name: "b", DType: BF16, Shape: []int64{8}},
	{Name: "none", DType: F32, Shape: []int64{0}}, {Name: "head", DType: I8, Shape: []int64{3}},
}

// writeSharded writes shardInfos with files of at most so many bytes.
func writeSharded(t *testing.T, dir string, shardBytes int64) {
	t.Helper()
	w, err := CreateSharded(dir, shardInfos, map[string]string{"format": "pt"}, shardBytes)
	if err != nil {
		t.Fatal(err)
	}
	for k, i := range w.Tensors() {
		if err := w.Write(i.Name, pattern(i.Bytes, k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestSharded(t *testing.T) {
	for _, c := range []struct {
		shardBytes int64
		files      []string
		order      string
	}{
		{1 << 20, []string{ModelName}, "embed none b a head"},
		{53, []string{ModelName}, "embed none b a head"},
		{52, []string{ShardName(0, 2), ShardName(1, 2), IndexName}, "embed none b a head"},
		{26, []string{ShardName(0, 3), ShardName(1, 3), ShardName(2, 3), IndexName}, "embed none b a head"},
		{0, []string{ShardName(0, 4), ShardName(1, 4), ShardName(2, 4), ShardName(3, 4), IndexName}, "embed a b none head"},
	} {
		dir := t.TempDir()
		writeSharded(t, dir, c.shardBytes)
		if d := cmp.Diff(c.files, names(t, dir)); d != "" {
			t.Fatalf("%d bytes a file (-want +got):\n%s", c.shardBytes, d)
		}
		for _, path := range []string{dir, filepath.Join(dir, c.files[len(c.files)-1])} {
			s, err := OpenSet(path)
			if err != nil {
				t.Fatal(err)
			}
			var order []string
			for k, i := range s.Tensors() {
				order = append(order, i.Name)
				p := make([]byte, i.Bytes)
				if err := s.ReadInto(i.Name, p); err != nil || !bytes.Equal(p, pattern(i.Bytes, k)) {
					t.Errorf("tensor %q: got % x, %v", i.Name, p, err)
				}
				if i.Bytes > 2 {
					if err := s.ReadRange(i.Name, p[:2], 1); err != nil || !bytes.Equal(p[:2], pattern(i.Bytes, k)[1:3]) {
						t.Errorf("tensor %q from 1: got % x, %v", i.Name, p[:2], err)
					}
				}
				if got, ok := s.Tensor(i.Name); !ok || got.Bytes != i.Bytes {
					t.Errorf("tensor %q: got %v, %v", i.Name, got, ok)
				}
			}
			if got := strings.Join(order, " "); got != c.order {
				t.Errorf("%d bytes a file: got %s, want %s", c.shardBytes, got, c.order)
			}
			if _, ok := s.Tensor("nope"); ok || s.ReadInto("nope", nil) == nil || s.ReadRange("nope", nil, 0) == nil {
				t.Error("a tensor that is not there was read")
			}
			if got := s.Metadata()["format"]; got != "pt" {
				t.Errorf("metadata: got %q", got)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestShardedLeavesNothing aborts, and closes with a tensor missing.
func TestShardedLeavesNothing(t *testing.T) {
	for _, end := range []func(w *Writer) error{(*Writer).Abort, (*Writer).Close} {
		dir := t.TempDir()
		w, err := CreateSharded(dir, shardInfos, nil, 20)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write("embed", make([]byte, 24)); err != nil {
			t.Fatal(err)
		}
		end(w)
		if got := names(t, dir); len(got) > 0 {
			t.Errorf("left %v", got)
		}
	}
}

func TestCreateShardedRefuses(t *testing.T) {
	dir := t.TempDir()
	many := make([]Info, maxShards+1)
	for i := range many {
		many[i] = Info{Name: strings.Repeat("x", i+1), DType: U8, Shape: []int64{1}}
	}
	for want, infos := range map[string][]Info{
		"appears twice":       {{Name: "a", DType: U8, Shape: []int64{4}}, {Name: "a", DType: U8, Shape: []int64{4}}},
		"is not known":        {{Name: "a", DType: "F3"}},
		"more than 2^62":      {{Name: "a", DType: U8, Shape: []int64{1 << 61}}, {Name: "b", DType: U8, Shape: []int64{1<<61 + 1}}},
		"want at most 4096":   many,
		"cannot name a tenso": {{Name: "\xff", DType: U8}},
	} {
		if _, err := CreateSharded(dir, infos, nil, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %.200v, want an error with %q", err, want)
		}
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("left %v", got)
	}
}

func TestOpenSetRefuses(t *testing.T) {
	for name, c := range map[string]struct{ index, want string }{
		"no JSON":      {`{`, "index: unexpected end"},
		"no map":       {`{"metadata":{}}`, "has no weight_map"},
		"list":         {`{"weight_map":["a"]}`, "cannot unmarshal"},
		"parent":       {`{"weight_map":{"a":"../model.safetensors"}}`, "want the name of a .safetensors file beside it"},
		"absolute":     {`{"weight_map":{"a":"/model.safetensors"}}`, "want the name of"},
		"backslash":    {`{"weight_map":{"a":"..\\model.safetensors"}}`, "want the name of"},
		"hidden":       {`{"weight_map":{"a":".safetensors"}}`, "want the name of"},
		"other ending": {`{"weight_map":{"a":"model.bin"}}`, "want the name of"},
		"empty":        {`{"weight_map":{"a":""}}`, "want the name of"},
		"no file":      {`{"weight_map":{"a":"none.safetensors"}}`, "no such file"},
		"no tensor":    {`{"weight_map":{"nope":"` + ShardName(0, 2) + `"}}`, "which has no such tensor"},
		"other file":   {`{"weight_map":{"embed":"` + ShardName(1, 2) + `"}}`, "which has no such tensor"},
	} {
		dir := t.TempDir()
		writeSharded(t, dir, 52)
		if err := os.WriteFile(filepath.Join(dir, IndexName), []byte(c.index), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSet(dir)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", name, err, c.want)
		}
	}
	if _, err := OpenSet(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has neither") {
		t.Errorf("empty directory: got %v", err)
	}
	if _, err := OpenSet(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no such path: got no error")
	}
}

// FuzzIndex checks that whatever an index says, no file outside its directory is named.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata":{"total_size":3},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Add([]byte(`{
  "metadata": {
    "total_parameters": 3075098624,
    "total_size": 6150197248
  },
  "weight_map": {
    "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
    "model.layers.0.input_layernorm.weight": "model-00001-of-00002.safetensors",
    "model.layers.0.mlp.down_proj.weight": "model-00001-of-00002.safetensors",
    "model.layers.35.self_attn.v_proj.weight": "model-00002-of-00002.safetensors",
    "model.norm.weight": "model-00002-of-00002.safetensors"
  }
}
`))
	f.Add([]byte(`{"weight_map":{"a":"x.safetensors","a":"..","b":"a/b.safetensors","c":"C:\\x","d":"x.safetensors\u0000"}}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		var weights map[string]string
		var files []string
		var err error
		bounded.Run(t, len(p), 256<<10, 128, func() { weights, files, err = parseIndex(p) })
		if err != nil {
			return
		}
		if len(files) == 0 || len(files) > len(weights) {
			t.Fatalf("%d files of %d tensors", len(files), len(weights))
		}
		for _, name := range files {
			if !filepath.IsLocal(name) || filepath.Base(name) != name {
				t.Fatalf("names %q", name)
			}
		}
	})
}
