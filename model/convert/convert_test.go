package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"loadline/internal/whole"
	"loadline/mem/arena"
	"loadline/model"
	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/model/weights"
	"loadline/tensor/quant"
)

const goldenDir = "../testdata/golden"

// goldens are models with all layouts that GGUF has of its own: turned rows, a head of its own, experts, and flipped matrices.
func goldens() []string { return []string{"dense", "dense_untied", "moe", "gpt2"} }

// directory makes a Hugging Face directory of a golden model, with its elements in a type.
func directory(t *testing.T, name string, typ quant.Type) string {
	t.Helper()
	dir := t.TempDir()
	body, err := os.ReadFile(filepath.Join(goldenDir, name, configName))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, configName), body)
	f, err := safetensors.Open(filepath.Join(goldenDir, name, "weights.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var infos []safetensors.Info
	for _, i := range f.Tensors() {
		infos = append(infos, safetensors.Info{Name: i.Name, DType: elemType(typ), Shape: i.Shape})
	}
	w, err := safetensors.CreateSharded(dir, infos, nil, 40<<10)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range w.Tensors() {
		p := make([]byte, i.Bytes/i.DType.Bytes()*4)
		if err := f.ReadInto(i.Name, p); err != nil {
			t.Fatal(err)
		}
		out := make([]byte, i.Bytes)
		if err := errors.Join(quant.Encode(out, typ, arena.F32(p)), w.Write(i.Name, out)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path string, p []byte) {
	t.Helper()
	if err := os.WriteFile(path, p, 0o644); err != nil {
		t.Fatal(err)
	}
}

// convert runs one conversion, with the least buffer.
func convert(t *testing.T, in, out, to, typ string) *Result {
	t.Helper()
	r, err := Run(t.Context(), Options{In: in, Out: out, To: to, Type: typ, Buffer: make([]byte, MinBuffer)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// stored is the tensors of a safetensors directory as they are stored.
func stored(t *testing.T, dir string) map[string]string {
	t.Helper()
	set, err := safetensors.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	all := map[string]string{}
	for _, i := range set.Tensors() {
		p := make([]byte, i.Bytes)
		if err := set.ReadInto(i.Name, p); err != nil {
			t.Fatal(err)
		}
		name := i.Name
		if !strings.HasPrefix(name, "transformer.") && (strings.HasPrefix(name, "h.") || strings.HasPrefix(name, "w") || strings.HasPrefix(name, "ln_f")) {
			name = "transformer." + name // GPT-2's published files leave it out
		}
		all[name] = fmt.Sprint(i.DType, i.Shape, string(p))
	}
	return all
}

func open(t *testing.T, path string) *weights.Model {
	t.Helper()
	m, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// same compares the weights of two models as float32.
func same(t *testing.T, what string, got, want *weights.Model) {
	t.Helper()
	if !reflect.DeepEqual(got.Config, want.Config) {
		t.Errorf("%s: got %+v, want %+v", what, got.Config, want.Config)
		return
	}
	sameWeights(t, what, got, want)
}

func sameWeights(t *testing.T, what string, got, want *weights.Model) {
	t.Helper()
	got.Widen()
	want.Widen()
	for _, p := range want.Config.Parameters() {
		a, b := make([]byte, 4*p.Elems()), make([]byte, 4*p.Elems())
		if err := errors.Join(got.ReadAt(p.Name, 0, a), want.ReadAt(p.Name, 0, b)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s: %s differs", what, p.Name)
		}
	}
}

// TestThereAndBack makes a GGUF file of a directory and a directory of that: all bits are as they were, vectors included.
func TestThereAndBack(t *testing.T) {
	for _, name := range goldens() {
		for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16} {
			what := fmt.Sprintf("%s %v", name, typ)
			dir := directory(t, name, typ)
			tmp := t.TempDir()
			file, back := filepath.Join(tmp, "model.gguf"), filepath.Join(tmp, "back")
			r := convert(t, dir, file, GGUF, "")
			same(t, what+" as GGUF", open(t, file), open(t, dir))
			f, err := gguf.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			if n, ok := f.Meta().Int(fileTypeKey); !ok || n != map[quant.Type]int64{quant.F32: 0, quant.F16: 1, quant.BF16: 32}[typ] {
				t.Errorf("%s: got file type %d, %t", what, n, ok)
			}
			for _, i := range f.Tensors() {
				want := typ
				if len(i.Shape) < 2 || stays(i.Name) {
					want = quant.F32
				}
				if i.Type != want {
					t.Errorf("%s: got %s of type %v, want %v", what, i.Name, i.Type, want)
				}
			}
			if len(r.Tensors) != len(f.Tensors()) || len(r.Files) != 1 {
				t.Errorf("%s: got %d tensors in %q", what, len(r.Tensors), r.Files)
			}
			f.Close()
			convert(t, file, back, Safetensors, "")
			got, want := stored(t, back), stored(t, dir)
			for k, v := range want {
				if strings.HasSuffix(k, ".attn.bias") || strings.HasSuffix(k, "masked_bias") {
					continue
				}
				if got[k] != v {
					t.Errorf("%s: %s: got %.60q, want %.60q", what, k, got[k], v)
				}
			}
			same(t, what+" and back", open(t, back), open(t, dir))
			var c struct {
				Type string `json:"torch_dtype"`
			}
			body, err := os.ReadFile(filepath.Join(back, configName))
			if err != nil || json.Unmarshal(body, &c) != nil || c.Type != map[quant.Type]string{quant.F32: "float32", quant.F16: "float16", quant.BF16: "bfloat16"}[typ] {
				t.Errorf("%s: got torch_dtype %q, %v", what, c.Type, err)
			}
		}
	}
}

// TestTypes gives every type that can be written: matrices are each encoded as quant does, and all else stays.
func TestTypes(t *testing.T) {
	dir := directory(t, "dense_untied", quant.F32)
	from := filepath.Join(t.TempDir(), "f32.gguf")
	convert(t, dir, from, GGUF, "")
	plain, err := gguf.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	read := func(f *gguf.File, i gguf.Info) []byte {
		p := make([]byte, i.Bytes)
		if err := f.ReadInto(i.Name, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, name := range []string{"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "mxfp4", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs"} {
		asked, err := quant.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		var files [][]byte
		ins := []string{dir}
		if name == "q8_0" || name == "q4_k" { // from either, the same tensors
			ins = append(ins, from)
		}
		for _, in := range ins {
			out := filepath.Join(t.TempDir(), "q.gguf")
			convert(t, in, out, GGUF, name)
			f, err := gguf.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			var all []byte
			for _, i := range f.Tensors() {
				want := quant.F32
				if len(i.Shape) == 2 && !stays(i.Name) {
					want = fitting(asked, i.Shape[1])
				}
				if i.Type != want {
					t.Errorf("%s: got %s of type %v, want %v", name, i.Name, i.Type, want)
					continue
				}
				x, ok := plain.Tensor(i.Name)
				if !ok {
					t.Fatalf("%s: %s is new", name, i.Name)
				}
				blocks := make([]byte, i.Bytes)
				if err := quant.Encode(blocks, want, arena.F32(read(plain, x))); err != nil {
					t.Fatal(err)
				}
				got := read(f, i)
				if !bytes.Equal(got, blocks) {
					t.Errorf("%s: %s differs", name, i.Name)
				}
				all = append(all, got...)
			}
			f.Close()
			files = append(files, all)

			// To GGUF again without a type the file is the same; to safetensors blocks are widened.
			again, wide := out+".again.gguf", out+".wide"
			convert(t, out, again, GGUF, "")
			a, errA := os.ReadFile(out)
			b, errB := os.ReadFile(again)
			if errA != nil || errB != nil || !bytes.Equal(a, b) {
				t.Errorf("%s: GGUF to GGUF gives another file, %v, %v", name, errA, errB)
			}
			convert(t, out, wide, Safetensors, "")
			same(t, name+" widened", open(t, wide), open(t, out))
		}
		if len(files) > 1 && !bytes.Equal(files[0], files[1]) {
			t.Errorf("%s: differs by where it is from", name)
		}
	}
}

func TestFitting(t *testing.T) {
	for _, x := range []struct {
		t    quant.Type
		row  int64
		want quant.Type
	}{
		{quant.Q4_K, 512, quant.Q4_K}, {quant.Q4_K, 576, quant.Q5_0}, {quant.Q6_K, 96, quant.Q8_0}, {quant.Q4_0, 33, quant.F16}, {quant.Q2_K, 100, quant.F16}, {quant.BF16, 7, quant.BF16},
	} {
		if got := fitting(x.t, x.row); got != x.want {
			t.Errorf("%v of rows of %d: got %v, want %v", x.t, x.row, got, x.want)
		}
	}
}

// TestDirectoryToDirectory changes the type of elements, and copies what is beside them.
func TestDirectoryToDirectory(t *testing.T) {
	dir := directory(t, "dense", quant.F32)
	write(t, filepath.Join(dir, "tokenizer_config.json"), []byte(`{"a":1}`))
	write(t, filepath.Join(dir, "notes.bin"), []byte("not for us"))
	out := filepath.Join(t.TempDir(), "a", "out")
	r := convert(t, dir, out, Safetensors, "bf16")
	want := stored(t, directory(t, "dense", quant.BF16))
	if got := stored(t, out); !reflect.DeepEqual(got, want) {
		t.Errorf("got %d tensors that are not those rounded", len(got))
	}
	if body, err := os.ReadFile(filepath.Join(out, "tokenizer_config.json")); err != nil || string(body) != `{"a":1}` {
		t.Errorf("tokenizer_config.json: got %q, %v", body, err)
	}
	if _, err := os.Stat(filepath.Join(out, "notes.bin")); err == nil {
		t.Error("a file that is none of a model was copied")
	}
	if c, err := model.ReadConfig(filepath.Join(out, configName)); err != nil || c.HiddenSize == 0 {
		t.Errorf("config.json: got %+v, %v", c, err)
	}
	if len(r.Files) != 3 {
		t.Errorf("got files %q, want 3", r.Files)
	}
	// What is no weight passes as it is.
	odd := t.TempDir()
	w, err := safetensors.Create(filepath.Join(odd, safetensors.ModelName), []safetensors.Info{{Name: "x", DType: safetensors.I64, Shape: []int64{3}}, {Name: "y", DType: safetensors.F32, Shape: []int64{1, 1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte("123456781234567812345678")
	if err := errors.Join(w.Write("x", body), w.Write("y", []byte{0, 0, 128, 63}), w.Close()); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(odd, configName), []byte(`{"model_type":"none that is known"}`))
	convert(t, odd, out+"2", Safetensors, "f16")
	if got := stored(t, out+"2"); got["x"] != fmt.Sprint("I64", []int64{3}, string(body)) || got["y"] != fmt.Sprint("F16", []int64{1, 1}, "\x00\x3c") {
		t.Errorf("got %q", got)
	}
}

func TestRefused(t *testing.T) {
	dir := directory(t, "dense", quant.F32)
	out := filepath.Join(t.TempDir(), "out")
	buf := make([]byte, MinBuffer)
	for _, x := range []struct {
		o    Options
		says string
	}{
		{Options{In: dir, Out: out, To: "onnx", Buffer: buf}, "want gguf or safetensors"},
		{Options{In: dir, Out: out, To: GGUF, Type: "q9", Buffer: buf}, `type "q9" is not known`},
		{Options{In: dir, Out: out, To: GGUF, Type: "iq1_s", Buffer: buf}, "IQ1_S cannot be written"},
		{Options{In: dir, Out: out, To: Safetensors, Type: "q4_0", Buffer: buf}, "f32, f16 or bf16"},
		{Options{In: dir, Out: out, To: GGUF, Buffer: buf[:100]}, "a buffer of 100 bytes"},
		{Options{In: dir, Out: dir, To: GGUF, Buffer: buf}, "it exists"},
		{Options{In: dir, Out: "", To: Safetensors, Buffer: buf}, "want the name of a directory"},
		{Options{In: dir, Out: out + "/", To: GGUF, Buffer: buf}, "want the name of a file"},
		{Options{In: dir + "/no", Out: out, To: GGUF, Buffer: buf}, "no such file"},
		{Options{In: t.TempDir(), Out: out, To: GGUF, Buffer: buf}, "no model"},
	} {
		if _, err := Run(t.Context(), x.o); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s to %s: got %v, want %q in it", x.o.In, x.o.To, err, x.says)
		}
	}
	packed := t.TempDir()
	write(t, filepath.Join(packed, configName), []byte(`{"model_type":"llama","quantization_config":{"quant_method":"gptq"}}`))
	w, err := safetensors.Create(filepath.Join(packed, safetensors.ModelName), nil, nil)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{In: packed, Out: out, To: Safetensors, Type: "f16", Buffer: buf}); err == nil || !strings.Contains(err.Error(), "is quantised") {
		t.Errorf("the type of a quantised model: got %v", err)
	}
	// What is interrupted, or cannot be read to its end, leaves nothing.
	for _, to := range []string{GGUF, Safetensors} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, err := Run(ctx, Options{In: dir, Out: out, To: to, Buffer: buf, Progress: func(string, int64, int64) {
			if n++; n == 3 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("to %s: got %v, want it interrupted", to, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// Two that write the same file or directory at once do not mix their bytes: the second is refused, and what the first writes stays.
func TestTwoAtOnce(t *testing.T) {
	in := directory(t, "dense", quant.F32)
	for _, to := range []string{GGUF, Safetensors} {
		out := filepath.Join(t.TempDir(), "out")
		tried := false
		o := Options{In: in, Out: out, To: to, Buffer: make([]byte, MinBuffer), Progress: func(string, int64, int64) {
			if tried {
				return
			}
			tried = true
			if _, err := Run(context.Background(), Options{In: in, Out: out, To: to, Buffer: make([]byte, MinBuffer)}); !errors.Is(err, whole.ErrBusy) {
				t.Errorf("%s: the second got %v, want ErrBusy", to, err)
			}
		}}
		if _, err := Run(context.Background(), o); err != nil || !tried {
			t.Fatalf("%s: %v", to, err)
		}
		same(t, to, open(t, out), open(t, in))
	}
}
