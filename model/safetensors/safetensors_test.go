package safetensors

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"loadline/internal/whole"
)

// pattern returns the n bytes that testdata/golden.py gives the tensor at place k of its list.
func pattern(n int64, k int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + k)
	}
	return p
}

// goldenTensors lists what testdata/golden.py writes, in its order.
var goldenTensors = []Info{
	{Name: "f64", DType: F64, Shape: []int64{2}},
	{Name: "f32", DType: F32, Shape: []int64{2, 3}},
	{Name: "f16", DType: F16, Shape: []int64{3, 1, 2}},
	{Name: "bf16", DType: BF16, Shape: []int64{5}},
	{Name: "f8_e4m3", DType: F8E4M3, Shape: []int64{4}},
	{Name: "f8_e5m2", DType: F8E5M2, Shape: []int64{3}},
	{Name: "i64", DType: I64, Shape: []int64{1}},
	{Name: "i32", DType: I32, Shape: []int64{2, 2}},
	{Name: "i16", DType: I16, Shape: []int64{3}},
	{Name: "i8", DType: I8, Shape: []int64{7}},
	{Name: "u64", DType: U64, Shape: []int64{1}},
	{Name: "u32", DType: U32, Shape: []int64{1}},
	{Name: "u16", DType: U16, Shape: []int64{1}},
	{Name: "u8", DType: U8, Shape: []int64{2}},
	{Name: "bool", DType: Bool, Shape: []int64{2}},
	{Name: "scalar", DType: F32, Shape: []int64{}},
	{Name: "empty", DType: F32, Shape: []int64{0, 4}},
	{Name: "odd \"näme\" <日本>\n", DType: U8, Shape: []int64{3}},
}

var goldenMetadata = map[string]string{"format": "pt", "note": "naïve ✓"}

func TestReadGolden(t *testing.T) {
	wantGolden(t, "testdata/golden.safetensors")
}

// wantGolden fails unless the file holds what testdata/golden.py writes.
func wantGolden(t *testing.T, path string) {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, want := len(f.Tensors()), len(goldenTensors); got != want {
		t.Errorf("got %d tensors, want %d", got, want)
	}
	if d := cmp.Diff(goldenMetadata, f.Metadata()); d != "" {
		t.Errorf("metadata (-want +got):\n%s", d)
	}
	for k, want := range goldenTensors {
		got, ok := f.Tensor(want.Name)
		if !ok {
			t.Errorf("tensor %q is missing", want.Name)
			continue
		}
		if got.DType != want.DType || !cmp.Equal(got.Shape, want.Shape) {
			t.Errorf("tensor %q: got %s %v, want %s %v", want.Name, got.DType, got.Shape, want.DType, want.Shape)
		}
		p := make([]byte, got.Bytes)
		if err := f.ReadInto(want.Name, p); err != nil {
			t.Error(err)
		}
		if w := pattern(got.Bytes, k); !bytes.Equal(p, w) {
			t.Errorf("tensor %q: got % x, want % x", want.Name, p, w)
		}
	}
}

// TestWriteGolden writes the golden file's tensors and reads them back.
func TestWriteGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "golden.safetensors")
	place := make(map[string]int)
	for k, i := range goldenTensors {
		place[i.Name] = k
	}
	infos := append([]Info(nil), goldenTensors...)
	Sort(infos)
	w, err := Create(path, infos, goldenMetadata)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range w.Tensors() {
		for _, b := range pattern(i.Bytes, place[i.Name]) {
			if err := w.Write(i.Name, []byte{b}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantGolden(t, path)
	golden, err := Open("testdata/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer golden.Close()
	// Only the headers' lengths and the order of types of one width may differ from the reference writer.
	var got, want int64
	for _, i := range w.Tensors() {
		got += i.Bytes
	}
	for _, i := range golden.Tensors() {
		want += i.Bytes
	}
	if got != want {
		t.Errorf("got %d bytes of tensors, want %d", got, want)
	}
}

// TestRoundTrip writes random tensors in random pieces and reads them whole and in part.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	types := []DType{F64, F32, F16, BF16, F8E4M3, F8E5M2, I64, I32, I16, I8, U64, U32, U16, U8, Bool}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.String().Filter(func(s string) bool { return s != metadataKey }), 0, 6, rapid.ID).Draw(t, "names")
		var infos []Info
		for _, name := range names {
			infos = append(infos, Info{Name: name, DType: rapid.SampledFrom(types).Draw(t, "type"),
				Shape: rapid.SliceOfN(rapid.Int64Range(0, 5), 0, 3).Draw(t, "shape")})
		}
		Sort(infos)
		meta := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "meta")
		path := filepath.Join(dir, "x.safetensors")
		w, err := Create(path, infos, meta)
		if err != nil {
			t.Fatal(err)
		}
		infos = w.Tensors()
		for k, i := range infos {
			for rest := pattern(i.Bytes, k); len(rest) > 0; {
				n := rapid.IntRange(0, len(rest)).Draw(t, "piece")
				if err := w.Write(i.Name, rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if d := cmp.Diff(meta, f.Metadata()); d != "" {
			t.Fatalf("metadata (-want +got):\n%s", d)
		}
		if got := len(f.Tensors()); got != len(infos) {
			t.Fatalf("got %d tensors, want %d", got, len(infos))
		}
		for k, want := range infos {
			got, ok := f.Tensor(want.Name)
			if d := cmp.Diff(want, got); !ok || d != "" && len(want.Shape) > 0 {
				t.Fatalf("tensor %q (-want +got):\n%s", want.Name, d)
			}
			p := make([]byte, got.Bytes)
			if err := f.ReadInto(want.Name, p); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(p, pattern(got.Bytes, k)) {
				t.Fatalf("tensor %q: its bytes differ", want.Name)
			}
			from := rapid.Int64Range(0, got.Bytes).Draw(t, "from")
			part := make([]byte, rapid.Int64Range(0, got.Bytes-from).Draw(t, "length"))
			if err := f.ReadRange(want.Name, part, from); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(part, p[from:from+int64(len(part))]) {
				t.Fatalf("tensor %q from %d: its bytes differ", want.Name, from)
			}
		}
	})
}

func TestReadIntoRefuses(t *testing.T) {
	f, err := Open("testdata/golden.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ got, want string }{
		{errText(f.ReadInto("f32", make([]byte, 23))), `tensor "f32": has 24 bytes, the buffer 23`},
		{errText(f.ReadInto("nope", nil)), `tensor "nope" is not in testdata/golden.safetensors`},
		{errText(f.ReadRange("f32", make([]byte, 9), 16)), `tensor "f32": has 24 bytes, want 9 from 16 on`},
		{errText(f.ReadRange("f32", nil, -1)), `want 0 from -1 on`},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestWriterHoldsToItsInfos(t *testing.T) {
	two := []Info{{Name: "a", DType: F32, Shape: []int64{2}}, {Name: "b", DType: I8, Shape: []int64{3}}}
	for _, c := range []struct {
		name  string
		write func(w *Writer)
		want  string
	}{
		{"nothing", func(*Writer) {}, `tensor "a": has 8 bytes, got 0`},
		{"part", func(w *Writer) { w.Write("a", make([]byte, 5)) }, `tensor "a": has 8 bytes, got 5`},
		{"one of two", func(w *Writer) { w.Write("a", make([]byte, 8)) }, `tensor "b": has 3 bytes, got 0`},
		{"out of order", func(w *Writer) { w.Write("b", make([]byte, 3)) }, `tensor "b": want "a", of which 0 of 8 bytes are written`},
		{"too soon", func(w *Writer) { w.Write("a", make([]byte, 5)); w.Write("b", make([]byte, 3)) }, `want "a", of which 5 of 8`},
		{"too much", func(w *Writer) { w.Write("a", make([]byte, 9)) }, `tensor "a": has 8 bytes, got 9`},
		{"after the end", func(w *Writer) {
			w.Write("a", make([]byte, 8))
			w.Write("b", make([]byte, 3))
			w.Write("b", make([]byte, 1))
		}, `tensor "b": all tensors are complete`},
		{"cut behind its back", func(w *Writer) {
			w.Write("a", make([]byte, 8))
			w.Write("b", make([]byte, 3))
			os.Truncate(w.files[0].f.Path()+whole.Suffix, 20)
		}, "has 20 bytes, want"},
		{"when a write fails", func(w *Writer) { w.files[0].f.Abort(); w.Write("a", make([]byte, 8)) }, `tensor "a": file already closed`},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.safetensors")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Create(path, two, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.write(w)
		if err := w.Close(); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", c.name, err, c.want)
		}
		if p, err := os.ReadFile(path); err != nil || string(p) != "old" {
			t.Errorf("%s: the old file has become %q (%v)", c.name, p, err)
		}
		if d, err := os.ReadDir(dir); err != nil || len(d) != 1 {
			t.Errorf("%s: left %v (%v), want only the old file", c.name, d, err)
		}
		if err := w.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: second Close: got %v, want ErrClosed", c.name, err)
		}
	}
}

func TestAbort(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "x"), []Info{{Name: "a", DType: U8, Shape: []int64{1}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
	}
	if err := w.Write("a", []byte{1}); !errors.Is(err, ErrClosed) {
		t.Errorf("Write: got %v, want ErrClosed", err)
	}
	if d, err := os.ReadDir(dir); err != nil || len(d) != 0 {
		t.Errorf("left %v (%v), want nothing", d, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for _, c := range []struct {
		infos []Info
		meta  map[string]string
		want  string
	}{
		{[]Info{{Name: "a", DType: "F4"}}, nil, `tensor "a": dtype "F4" is not known`},
		{[]Info{{Name: "a", DType: F32, Shape: []int64{-1}}}, nil, "negative dimension"},
		{[]Info{{Name: "a", DType: F32, Shape: []int64{1 << 40, 1 << 40}}}, nil, "overflows"},
		{[]Info{{Name: "a", DType: U8, Shape: []int64{1 << 61}}, {Name: "b", DType: U8, Shape: []int64{1 << 62}}}, nil, "more than 2^62 bytes"},
		{[]Info{{Name: "a", DType: F32, Shape: make([]int64, 17)}}, nil, "has 17 dimensions, want at most 16"},
		{[]Info{{Name: "a", DType: U8}, {Name: "a", DType: U8}}, nil, `tensor "a" appears twice`},
		{[]Info{{Name: "__metadata__", DType: U8}}, nil, `"__metadata__" cannot name a tensor`},
		{[]Info{{Name: "\xff", DType: U8}}, nil, `cannot name a tensor`},
		{[]Info{{Name: "a", DType: U8}, {Name: "b", DType: F32}}, nil, `tensor "b": F32 at offset 1 is not aligned`},
		{nil, map[string]string{"k": "\xff"}, "not valid UTF-8"},
		{[]Info{{Name: strings.Repeat("x", maxHeaderBytes), DType: U8}}, nil, "want at most 16777216"},
	} {
		w, err := Create(path, c.infos, c.meta)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %.200v, want an error with %q", err, c.want)
		}
		if w != nil {
			w.Abort()
		}
	}
	if _, err := Create(filepath.Join(dir, "none", "x"), nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such directory: got %v", err)
	}
	if d, err := os.ReadDir(dir); err != nil || len(d) != 0 {
		t.Errorf("left %v (%v), want nothing", d, err)
	}
}
