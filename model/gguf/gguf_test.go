package gguf

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"loadline/internal/whole"
	"loadline/tensor/quant"
)

// goldenMeta is what testdata/golden.py writes.
var goldenMeta = Metadata{
	{"general.architecture", "llama"}, {"general.name", "naïve ✓"}, {"t.u8", uint8(200)}, {"t.i8", int8(-100)}, {"t.u16", uint16(60000)},
	{"t.i16", int16(-30000)}, {"t.u32", uint32(4000000000)}, {"t.i32", int32(-2000000000)}, {"t.f32", float32(0.1)}, {"t.bool", true},
	{"t.str", "a b"}, {"t.u64", uint64(1 << 63)}, {"t.i64", int64(-1 << 62)}, {"t.f64", 0.1}, {"l.u8", []uint8{1, 2, 3}},
	{"l.i32", []int32{1, -2, 3}}, {"l.f32", []float32{0.5, -1.5}}, {"l.bool", []bool{true, false}}, {"l.u64", []uint64{1, 1 << 63}},
	{"tokenizer.ggml.tokens", []string{"<s>", "naïve", "", "▁the"}},
}

var goldenTensors = []Info{
	{Name: "token_embd.weight", Type: quant.Q8_0, Shape: []int64{3, 64}}, {Name: "blk.0.attn_norm.weight", Type: quant.F32, Shape: []int64{8}},
	{Name: "blk.0.ffn_up.weight", Type: quant.Q4_0, Shape: []int64{2, 2, 32}}, {Name: "odd.name", Type: quant.F16, Shape: []int64{5, 3}},
	{Name: "blk.0.b", Type: quant.BF16, Shape: []int64{1, 7}},
}

// goldenValues are the elements of tensor k of testdata/golden.py.
func goldenValues(k int, n int64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32((i*7+k*5)%11-5) / 4
	}
	return x
}

// encoded is goldenValues as a tensor stores them.
func encoded(t *testing.T, k int, i Info) []byte {
	t.Helper()
	n, err := i.size()
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, n)
	if err := quant.Encode(p, i.Type, goldenValues(k, i.Elems())); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGolden reads what gguf-py wrote, in either byte order.
func TestGolden(t *testing.T) {
	for _, name := range []string{"little", "big"} {
		f, err := Open("testdata/" + name + ".gguf")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if d := cmp.Diff(goldenMeta, f.Meta()); d != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", name, d)
		}
		if h := f.Header(); h.BigEndian != (name == "big") || h.Version != 3 || h.Alignment != 32 {
			t.Errorf("%s: got %+v", name, h)
		}
		if len(f.Tensors()) != len(goldenTensors) {
			t.Fatalf("%s: got %d tensors", name, len(f.Tensors()))
		}
		for k, got := range f.Tensors() {
			want := goldenTensors[k]
			if got.Name != want.Name || got.Type != want.Type || !cmp.Equal(got.Shape, want.Shape) {
				t.Errorf("%s: got %+v, want %+v", name, got, want)
			}
			p := make([]byte, got.Bytes)
			if err := f.ReadInto(got.Name, p); err != nil || !bytes.Equal(p, encoded(t, k, want)) {
				t.Errorf("%s: tensor %q: %v, got % x", name, got.Name, err, p)
			}
		}
	}
}

// TestWriteGolden writes the golden file again, byte for byte.
func TestWriteGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gguf")
	writeModel(t, path, goldenTensors, goldenMeta, 0)
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/little.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes that differ from the golden file's %d", len(got), len(want))
	}
}

func writeModel(t *testing.T, path string, infos []Info, meta Metadata, shardBytes int64) []string {
	t.Helper()
	w, err := Create(path, infos, meta, shardBytes)
	if err != nil {
		t.Fatal(err)
	}
	for k, i := range w.Tensors() {
		p := encoded(t, k, i)
		for len(p) > 0 {
			n := min(len(p), 13)
			if err := w.Write(i.Name, p[:n]); err != nil {
				t.Fatal(err)
			}
			p = p[n:]
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.Paths()
}

// TestSplit writes a model in several files and reads it from the path of any.
func TestSplit(t *testing.T) {
	dir := t.TempDir()
	meta := append(Metadata{{alignmentKey, uint32(64)}, {splitCountKey, uint16(9)}}, goldenMeta...)
	paths := writeModel(t, filepath.Join(dir, "m.gguf"), goldenTensors, meta, 200)
	if len(paths) != 3 || paths[2] != filepath.Join(dir, "m-00003-of-00003.gguf") {
		t.Fatalf("got %q", paths)
	}
	for _, path := range paths {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		want := append(Metadata{{alignmentKey, uint32(64)}}, goldenMeta...)
		want = append(want, KV{splitNoKey, uint16(0)}, KV{splitCountKey, uint16(3)}, KV{splitTensorsKey, int32(len(goldenTensors))})
		if d := cmp.Diff(want, f.Meta()); d != "" {
			t.Errorf("metadata (-want +got):\n%s", d)
		}
		if d := cmp.Diff(paths, f.Paths()); d != "" {
			t.Errorf("paths (-want +got):\n%s", d)
		}
		for k, i := range f.Tensors() {
			p := make([]byte, i.Bytes)
			if err := f.ReadInto(i.Name, p); err != nil || !bytes.Equal(p, encoded(t, k, goldenTensors[k])) || i.Offset%64 != 0 {
				t.Errorf("tensor %+v: %v, got % x", i, err, p)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}

	refuse := func(name, want string) {
		t.Helper()
		f, err := Open(paths[0])
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", name, err, want)
		}
	}
	second, err := os.ReadFile(paths[1])
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, paths[1], paths[0])
	refuse("the first twice", "says it is part 1 of 3, want 2 of 3")
	if err := os.Remove(paths[1]); err != nil {
		t.Fatal(err)
	}
	refuse("a missing part", "no such file")
	if err := os.WriteFile(paths[1], bytes.Replace(second, []byte("blk.0.ffn_up"), []byte("blk.0.ffn_uq"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(paths[0]); err != nil {
		t.Errorf("another name: %v", err)
	}
	whole := filepath.Join(dir, "whole.gguf")
	copyFile(t, whole, paths[0])
	if _, err := Open(whole); err == nil || !strings.Contains(err.Error(), "want a name that ends in -00001-of-00003.gguf") {
		t.Errorf("renamed: got %v", err)
	}
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	p, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, p, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSplitPath(t *testing.T) {
	if prefix, i, n, ok := SplitPath("a/b-00002-of-00010.gguf"); prefix != "a/b" || i != 1 || n != 10 || !ok {
		t.Errorf("got %q, %d, %d, %v", prefix, i, n, ok)
	}
	for _, path := range []string{"b.gguf", "b-00003-of-00002.gguf", "b-00000-of-00002.gguf", "b-1-of-2.gguf", "-00001-of-00002.gguf", "b-00001-of-00002.gguf.tmp"} {
		if _, _, _, ok := SplitPath(path); ok {
			t.Errorf("%s: got a part's name", path)
		}
	}
}

// TestRoundTrip writes random models and reads them again.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	types := []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q4_0, quant.Q8_0, quant.Q4_K, quant.I32, quant.F64}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(1, 12, 63)
		var infos []Info
		for _, name := range rapid.SliceOfNDistinct(name, 0, 6, rapid.ID).Draw(t, "names") {
			i := Info{Name: name, Type: rapid.SampledFrom(types).Draw(t, "type"), Shape: rapid.SliceOfN(rapid.Int64Range(0, 3), 0, 4).Draw(t, "shape")}
			if n := len(i.Shape); n > 0 {
				i.Shape[n-1] *= int64(i.Type.BlockElems())
			} else if i.Type.BlockElems() > 1 {
				i.Type = quant.F32
			}
			infos = append(infos, i)
		}
		var meta Metadata
		for _, key := range rapid.SliceOfNDistinct(rapid.StringN(1, 9, -1), 0, 5, rapid.ID).Draw(t, "keys") {
			value := rapid.OneOf(rapid.String().AsAny(), rapid.Uint32().AsAny(), rapid.Int8().AsAny(), rapid.Float32().AsAny(), rapid.Bool().AsAny(),
				rapid.SliceOfN(rapid.String(), 0, 3).AsAny(), rapid.SliceOfN(rapid.Int64(), 0, 3).AsAny(), rapid.SliceOf(rapid.Bool()).AsAny()).Draw(t, "value")
			meta.Set(key, value)
		}
		if rapid.Bool().Draw(t, "aligned") {
			meta.Set(alignmentKey, uint32(1)<<rapid.IntRange(0, 9).Draw(t, "alignment"))
		}
		path := filepath.Join(dir, "x.gguf")
		w, err := Create(path, infos, meta, rapid.Int64Range(0, 2000).Draw(t, "shard"))
		if err != nil {
			t.Fatal(err)
		}
		data := map[string][]byte{}
		for _, i := range w.Tensors() {
			p := rapid.SliceOfN(rapid.Byte(), int(i.Bytes), int(i.Bytes)).Draw(t, "bytes")
			data[i.Name] = p
			if err := w.Write(i.Name, p); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := Open(w.Paths()[len(w.Paths())-1])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if d := cmp.Diff(w.Tensors(), f.Tensors(), cmp.Transformer("shape", func(i Info) Info { i.Shape = append([]int64{}, i.Shape...); return i })); d != "" && len(infos) > 0 {
			t.Fatalf("tensors (-want +got):\n%s", d)
		}
		if d := cmp.Diff(append(Metadata{}, meta...), append(Metadata{}, f.Meta().Without(splitNoKey, splitCountKey, splitTensorsKey)...)); d != "" {
			t.Fatalf("metadata (-want +got):\n%s", d)
		}
		for _, i := range f.Tensors() {
			p := make([]byte, i.Bytes)
			if err := f.ReadInto(i.Name, p); err != nil || !bytes.Equal(p, data[i.Name]) {
				t.Fatalf("tensor %q: %v: its bytes differ", i.Name, err)
			}
			from := rapid.Int64Range(0, i.Bytes).Draw(t, "from")
			if err := f.ReadRange(i.Name, p[from:], from); err != nil || !bytes.Equal(p, data[i.Name]) {
				t.Fatalf("tensor %q from %d: %v: its bytes differ", i.Name, from, err)
			}
		}
	})
}

func TestReadRefuses(t *testing.T) {
	f, err := Open("testdata/big.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		got  error
		want string
	}{
		{f.ReadInto("odd.name", make([]byte, 29)), `tensor "odd.name": has 30 bytes, the buffer 29`},
		{f.ReadInto("nope", nil), `tensor "nope" is not in testdata/big.gguf`},
		{f.ReadRange("odd.name", make([]byte, 4), 28), `has 30 bytes, want 4 from 28 on`},
		{f.ReadRange("odd.name", nil, -1), `want 0 from -1 on`},
		{f.ReadRange("token_embd.weight", make([]byte, 34), 1), `is big-endian, want whole blocks of 34 bytes`},
	} {
		if c.got == nil || !strings.Contains(c.got.Error(), c.want) {
			t.Errorf("got %v, want %q", c.got, c.want)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open("testdata"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: got %v", err)
	}
}

func TestWriterHoldsToItsInfos(t *testing.T) {
	two := []Info{{Name: "a", Type: quant.F32, Shape: []int64{2}}, {Name: "b", Type: quant.I8, Shape: []int64{3}}}
	for want, write := range map[string]func(w *Writer){
		`tensor "a": has 8 bytes, got 0`:              func(*Writer) {},
		`tensor "a": has 8 bytes, got 5`:              func(w *Writer) { w.Write("a", make([]byte, 5)) },
		`tensor "b": has 3 bytes, got 0`:              func(w *Writer) { w.Write("a", make([]byte, 8)) },
		`tensor "b": want "a", of which 0 of 8 bytes`: func(w *Writer) { w.Write("b", make([]byte, 3)) },
		`tensor "a": has 8 bytes, got 9`:              func(w *Writer) { w.Write("a", make([]byte, 9)) },
		`tensor "b": all tensors are complete`:        func(w *Writer) { w.Write("a", make([]byte, 8)); w.Write("b", make([]byte, 3)); w.Write("b", []byte{1}) },
		`has 10 bytes, want `: func(w *Writer) {
			w.Write("a", make([]byte, 8))
			w.Write("b", make([]byte, 3))
			os.Truncate(w.Paths()[0]+whole.Suffix, 10)
		},
		`tensor "a": want "b", of which 0 of 3 bytes are writ`: func(w *Writer) { w.Write("a", make([]byte, 8)); w.Write("a", make([]byte, 1)) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.gguf")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Create(path, two, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		write(w)
		if err := w.Close(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line with %q", err, want)
		}
		if p, err := os.ReadFile(path); err != nil || string(p) != "old" {
			t.Errorf("%s: the old file has become %q (%v)", want, p, err)
		}
		if d, err := os.ReadDir(dir); err != nil || len(d) != 1 {
			t.Errorf("%s: left %v (%v), want only the old file", want, d, err)
		}
		if err := w.Close(); err != ErrClosed {
			t.Errorf("%s: second Close: got %v", want, err)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	one := func(i Info) []Info { return []Info{i} }
	for _, c := range []struct {
		infos []Info
		meta  Metadata
		want  string
	}{
		{one(Info{Name: "a", Type: 99}), nil, "type 99 is not known"},
		{one(Info{Name: "a", Type: quant.Q4_0, Shape: []int64{31}}), nil, "rows of 31 elements, want a multiple of 32 for Q4_0"},
		{one(Info{Name: "a", Type: quant.Q4_0}), nil, "rows of 1 elements"},
		{one(Info{Name: "a", Shape: []int64{-1}}), nil, "negative dimension"},
		{one(Info{Name: "a", Shape: []int64{1 << 40, 1 << 40}}), nil, "overflows"},
		{one(Info{Name: "a", Shape: []int64{1 << 60}}), nil, "overflows"},
		{one(Info{Name: "a", Shape: make([]int64, 5)}), nil, "has 5 dimensions, want at most 4"},
		{one(Info{Name: strings.Repeat("a", 64)}), nil, "cannot name a tensor"},
		{one(Info{Name: ""}), nil, "cannot name a tensor"},
		{one(Info{Name: "\xff"}), nil, "cannot name a tensor"},
		{[]Info{{Name: "a"}, {Name: "a"}}, nil, `tensor "a" appears twice`},
		{[]Info{{Name: "a", Shape: []int64{1 << 57}}, {Name: "b", Shape: []int64{1 << 58}}}, nil, "more than 2^60 bytes"},
		{nil, Metadata{{"a", 1}}, "a value of type int cannot be written"},
		{nil, Metadata{{"a", []any{}}}, "cannot be written"},
		{nil, Metadata{{"", "x"}}, "is empty"},
		{nil, Metadata{{"a", "x"}, {"a", "y"}}, "there twice"},
		{nil, Metadata{{alignmentKey, uint32(24)}}, "want a power of two"},
		{nil, Metadata{{alignmentKey, uint32(0)}}, "want a power of two"},
		{nil, Metadata{{"a", strings.Repeat("x", maxStringBytes+1)}}, "want at most 16777216"},
	} {
		w, err := Create(filepath.Join(dir, "x.gguf"), c.infos, c.meta, 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %.200v, want an error with %q", err, c.want)
		}
		if w != nil {
			w.Abort()
		}
	}
	if _, err := Create(filepath.Join(dir, "x.bin"), goldenTensors, nil, 1); err == nil || !strings.Contains(err.Error(), "want a name that ends in .gguf") {
		t.Errorf("got %v", err)
	}
	if d, err := os.ReadDir(dir); err != nil || len(d) != 0 {
		t.Errorf("left %v (%v)", d, err)
	}
}

func TestMetadata(t *testing.T) {
	m := append(Metadata{}, goldenMeta...)
	for key, want := range map[string]int64{"t.u8": 200, "t.i8": -100, "t.u16": 60000, "t.i16": -30000, "t.u32": 4000000000, "t.i32": -2000000000, "t.i64": -1 << 62} {
		if got, ok := m.Int(key); got != want || !ok {
			t.Errorf("Int(%s) = %d, %v, want %d", key, got, ok, want)
		}
		if got, ok := m.Float(key); got != float64(want) || !ok {
			t.Errorf("Float(%s) = %v, %v, want %d", key, got, ok, want)
		}
		if got, ok := m.Ints(key); len(got) != 1 || got[0] != want || !ok {
			t.Errorf("Ints(%s) = %v, %v, want %d", key, got, ok, want)
		}
	}
	for _, key := range []string{"t.u64", "t.f32", "t.str", "l.i32", "none"} {
		if got, ok := m.Int(key); ok {
			t.Errorf("Int(%s) = %d", key, got)
		}
	}
	if got, ok := m.Float("t.u64"); got != 1<<63 || !ok {
		t.Errorf("Float(t.u64) = %v, %v", got, ok)
	}
	if got, ok := m.Ints("l.i32"); !cmp.Equal(got, []int64{1, -2, 3}) || !ok {
		t.Errorf("Ints(l.i32) = %v, %v", got, ok)
	}
	if got, ok := m.Ints("l.u64"); ok {
		t.Errorf("Ints(l.u64) = %v", got)
	}
	if got, ok := m.Flag("t.bool"); !got || !ok {
		t.Errorf("Flag(t.bool) = %v, %v", got, ok)
	}
	if got, ok := m.Text("general.name"); got != "naïve ✓" || !ok {
		t.Errorf("Text = %q, %v", got, ok)
	}
	if got, ok := m.Texts("tokenizer.ggml.tokens"); len(got) != 4 || !ok {
		t.Errorf("Texts = %q, %v", got, ok)
	}
	m.Set("t.u8", "now text")
	m.Set("new", []string{"x"})
	if v, _ := m.Get("t.u8"); v != "now text" || len(m) != len(goldenMeta)+1 {
		t.Errorf("after Set: %v, %d keys", v, len(m))
	}
	for v, want := range map[any]string{uint32(1): "u32", "x": "str", 0.5: "f64", true: "bool", 3: "int"} {
		if got := TypeName(v); got != want {
			t.Errorf("TypeName(%v) = %s, want %s", v, got, want)
		}
	}
	if got := TypeName([]string{"a", "b"}); got != "arr[str,2]" {
		t.Errorf("got %s", got)
	}
}

// TestHeaderOfUnknownLength reads from a stream, and no further than the header but for what is buffered.
func TestHeaderOfUnknownLength(t *testing.T) {
	p, err := os.ReadFile("testdata/little.gguf")
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(bytes.NewReader(p), int64(len(p)))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := ReadHeader(bytes.NewReader(p[:h.DataAt]), -1)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(h, stream); d != "" {
		t.Errorf("(-whole +stream):\n%s", d)
	}
	binary.LittleEndian.PutUint32(p[4:], 2)
	if h, err = ReadHeader(bytes.NewReader(p), int64(len(p))); err != nil || h.Version != 2 {
		t.Errorf("version 2: got %+v, %v", h, err)
	}
}
