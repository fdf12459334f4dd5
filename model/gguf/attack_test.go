package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"loadline/internal/bounded"
)

// raw builds a file field by field: strings with their length before them, byte slices as they are.
func raw(fields ...any) []byte {
	var b bytes.Buffer
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			binary.Write(&b, binary.LittleEndian, uint64(len(f)))
			b.WriteString(f)
		case []byte:
			b.Write(f)
		default:
			if err := binary.Write(&b, binary.LittleEndian, f); err != nil {
				panic(err)
			}
		}
	}
	return b.Bytes()
}

// head is a file's first 24 bytes.
func head(tensors, keys uint64) []byte { return raw([]byte(magic), uint32(3), tensors, keys) }

// one is a file with one tensor, F32 unless said otherwise, and n bytes behind the header.
func one(n int, info ...any) []byte {
	p := append(head(1, 0), raw(info...)...)
	p = append(p, make([]byte, padded(int64(len(p)), defaultAlignment)-int64(len(p)))...)
	return append(p, make([]byte, n)...)
}

const huge = uint64(math.MaxUint64)

// attacks are files that readers have choked on, by what became of it.
var attacks = []struct {
	name string
	file []byte
	want string
}{
	{"empty", nil, "the header ends early, at byte 0"},
	{"CVE-2024-39720: magic alone, read beyond its end", []byte("GGUF"), "the file is cut short: the header ends early, at byte 4"},
	{"cut in the counts", head(1, 1)[:20], "tensors, want at most"},
	{"another file", []byte("PK\x03\x04 and so on, for long enough"), "not a GGUF file"},
	{"version 1", raw([]byte(magic), uint32(1), uint64(0), uint64(0)), "version 1, want 2 or 3"},
	{"version 0", raw([]byte(magic), uint32(0), uint64(0), uint64(0)), "version 0, want 2 or 3"},
	{"version 4, big-endian", raw([]byte(magic), []byte{0, 0, 0, 4}, uint64(0), uint64(0)), "version 4, want 2 or 3"},

	{"CVE-2024-21836: count of tensors times their size overflows", head(huge/88+1, 0), "tensors, want at most"},
	{"CVE-2024-21836: as many as fit an int64", head(math.MaxInt64, 0), "tensors, want at most"},
	{"more tensors than bytes", append(head(100, 0), make([]byte, 99)...), "100 tensors, want at most"},
	{"CVE-2024-23605: count of keys times their size overflows", head(0, huge/64+1), "keys, want at most"},
	{"more keys than bytes", append(head(0, 100), make([]byte, 99)...), "100 keys, want at most"},
	{"CVE-2024-23496: length of a string, plus one, is 0", append(head(0, 1), raw(huge, make([]byte, 40))...), "bytes of a key, want at most"},
	{"length of a string beyond the file", append(head(0, 1), raw(uint64(1000), make([]byte, 40))...), "1000 bytes of a key"},
	{"CVE-2024-21825: length of a value, plus one, is 0", append(head(0, 1), raw("k", uint32(kindString), huge, make([]byte, 40))...), "bytes of a string, want at most"},
	{"CVE-2025-49847: token of more than 2³¹ bytes", append(head(0, 1), raw("tokenizer.ggml.tokens", uint32(kindArray), uint32(kindString), uint64(1), uint64(1)<<31, make([]byte, 40))...), "bytes of a string, want at most"},
	{"CVE-2024-21825: values times their size overflow", append(head(0, 1), raw("k", uint32(kindArray), uint32(kindU64), huge/8+2, make([]byte, 40))...), "values of key \"k\", want at most"},
	{"CVE-2025-52566: more tokens than an int32 holds", append(head(0, 1), raw("k", uint32(kindArray), uint32(kindString), uint64(1)<<31, make([]byte, 40))...), "values of key \"k\", want at most"},
	{"43 bytes that loop 2⁶⁴ times", append(head(0, 1), raw("k", uint32(kindArray), uint32(kindU8), []byte{255, 255})...), "the header ends early"},
	{"an array of 2⁶³ bytes", append(head(0, 1), raw("key", uint32(kindArray), uint32(kindU8), uint64(1)<<63)...), "values of key \"key\", want at most"},
	{"arrays of arrays", append(head(0, 1), raw("k", uint32(kindArray), uint32(kindArray), uint64(3), make([]byte, 40))...), "an array of kind 9"},
	{"array of an unknown kind", append(head(0, 1), raw("k", uint32(kindArray), uint32(13), uint64(3), make([]byte, 40))...), "an array of kind 13"},
	{"unknown kind", append(head(0, 1), raw("k", uint32(13), make([]byte, 40))...), "kind 13 is not known"},
	{"empty key", append(head(0, 1), raw("", uint32(kindU8), uint8(1), make([]byte, 9))...), `key "" is empty`},
	{"key that is no UTF-8", append(head(0, 1), raw("\xff", uint32(kindU8), uint8(1))...), "not valid UTF-8"},
	{"key twice", append(head(0, 2), raw("k", uint32(kindU8), uint8(1), "k", uint32(kindU8), uint8(1))...), `key "k" appears twice`},
	{"alignment of 0", append(head(0, 1), raw(alignmentKey, uint32(kindU32), uint32(0))...), "want a power of two"},
	{"alignment of 48", append(head(0, 1), raw(alignmentKey, uint32(kindU32), uint32(48))...), "want a power of two"},
	{"alignment of 2³¹", append(head(0, 1), raw(alignmentKey, uint32(kindU32), uint32(1)<<31)...), "want a power of two"},
	{"alignment as text", append(head(0, 1), raw(alignmentKey, uint32(kindString), "32")...), "want a power of two"},

	{"CVE-2024-21802: more dimensions than a tensor has room for", one(64, "t", uint32(5), []uint64{1, 1, 1, 1, 1}, uint32(0), uint64(0)), "has 5 dimensions, want at most 4"},
	{"CVE-2024-21802: 2³² of them", one(64, "t", uint32(math.MaxUint32), uint64(1)), "dimensions, want at most 4"},
	{"negative dimension", one(64, "t", uint32(1), huge, uint32(0), uint64(0)), "overflows"},
	{"CVE-2026-33298: product of dimensions wraps to a small one", one(64, "t", uint32(4), []uint64{1 << 32, 1 << 32, 1, 1}, uint32(0), uint64(0)), "overflows"},
	{"CVE-2026-33298: product fits, bytes wrap", one(64, "t", uint32(2), []uint64{1 << 31, 1 << 31}, uint32(0), uint64(0)), "overflows"},
	{"CVE-2026-33298: wraps around a zero", one(64, "t", uint32(4), []uint64{1 << 62, 0, 1 << 62, 4}, uint32(0), uint64(0)), "overflows"},
	{"unknown type", one(64, "t", uint32(1), uint64(1), uint32(4), uint64(0)), "type 4 is not known"},
	{"type 2³²−1", one(64, "t", uint32(1), uint64(1), uint32(math.MaxUint32), uint64(0)), "is not known"},
	{"row that is no whole block", one(64, "t", uint32(1), uint64(33), uint32(2), uint64(0)), "rows of 33 elements, want a multiple of 32 for Q4_0"},
	{"CVE-2026-7482: tensor longer than the file", one(64, "t", uint32(1), uint64(17), uint32(0), uint64(0)), "the file is cut short: tensor \"t\": its 68 bytes end at 68, the file has 64 for tensors"},
	{"CVE-2026-7482: tensor beyond the file", one(64, "t", uint32(1), uint64(1), uint32(0), uint64(64)), "its 4 bytes end at 68, the file has 64"},
	{"no tensor data at all", one(0, "t", uint32(1), uint64(1), uint32(0), uint64(0))[:24+9+12+12], "the file has 0 for tensors"},
	{"offset that wraps", one(64, "t", uint32(1), uint64(1), uint32(0), huge-31), "its offset 18446744073709551584 overflows"},
	{"offset that is not aligned", one(64, "t", uint32(1), uint64(1), uint32(0), uint64(4)), "is no multiple of 32"},
	{"CVE-2025-53630: sum of padded lengths overflows", append(head(2, 0), raw("a", uint32(1), uint64(1)<<61, uint32(24), uint64(0), "b", uint32(1), uint64(1)<<61, uint32(24), uint64(1)<<61, make([]byte, 64))...), "overflows"},
	{"CVE-2026-27940: sum overflows behind the check of each", append(head(2, 0), raw("a", uint32(1), uint64(1)<<60, uint32(24), uint64(0), "b", uint32(1), uint64(1)<<60, uint32(24), uint64(1)<<60, make([]byte, 64))...), "the file has"},
	{"overlap", append(head(2, 0), raw("a", uint32(1), uint64(16), uint32(0), uint64(0), "b", uint32(1), uint64(16), uint32(0), uint64(32), make([]byte, 256))...), `tensor "b": begins at 32, inside the one before, which ends at 64`},
	{"same place", append(head(2, 0), raw("b", uint32(1), uint64(1), uint32(0), uint64(0), "a", uint32(1), uint64(1), uint32(0), uint64(0), make([]byte, 256))...), "inside the one before"},
	{"tensor twice", append(head(2, 0), raw("a", uint32(1), uint64(1), uint32(0), uint64(0), "a", uint32(1), uint64(1), uint32(0), uint64(32), make([]byte, 256))...), `tensor "a" appears twice`},
	{"empty name", one(64, "", uint32(1), uint64(1), uint32(0), uint64(0)), "its name is empty"},
	{"name of 2,000 bytes", one(64, strings.Repeat("n", 2000), uint32(1), uint64(1), uint32(0), uint64(0)), "2000 bytes of a tensor's name, want at most 1024"},
}

// TestAttacks opens every attack: one line says what is wrong, and little is allocated.
func TestAttacks(t *testing.T) {
	const allocated = 256 << 10 // the reader's buffer and the test's own
	dir := t.TempDir()
	for _, a := range attacks {
		path := filepath.Join(dir, "x.gguf")
		if err := os.WriteFile(path, a.file, 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f, err := Open(path)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > allocated {
			t.Errorf("%s: %d bytes are allocated", a.name, n)
		}
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), a.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q and the path", a.name, err, a.want)
		}
		if _, err := ReadHeader(bytes.NewReader(a.file), -1); err == nil && !strings.Contains(a.want, "the file has") {
			t.Errorf("%s: accepted when the file's length is not known", a.name)
		}
	}
}

// TestLargeHeaderIsReadInPart shows that a header which promises much is not believed: the file is mostly a hole.
func TestLargeHeaderIsReadInPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gguf")
	p := append(head(0, 1), raw("k", uint32(kindArray), uint32(kindString), uint64(10<<20), uint64(1)<<40)...)
	if err := os.WriteFile(path, p, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8<<30); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Open(path)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "bytes of a string, want at most") {
		t.Errorf("got %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<10 {
		t.Errorf("%d bytes are allocated", n)
	}
}

// FuzzGGUF checks that any file either is refused or has tensors that lie in it apart from each other, and that its header can be
// written again and read the same.
func FuzzGGUF(f *testing.F) {
	for _, name := range []string{"little", "big"} {
		p, err := os.ReadFile("testdata/" + name + ".gguf")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	p, err := os.ReadFile("../weights/testdata/llama_linear.gguf") // a whole model with its vocabulary
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	for _, a := range attacks {
		f.Add(a.file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		var h *Header
		var err error
		bounded.Run(t, len(file), 256<<10, 64, func() { h, err = ReadHeader(bytes.NewReader(file), int64(len(file))) })
		if err != nil {
			return
		}
		for _, i := range h.Tensors {
			if want, err := i.size(); err != nil || want != i.Bytes {
				t.Fatalf("%+v: its shape has %d bytes (%v)", i, want, err)
			}
			if i.Offset%h.Alignment != 0 || i.Offset < h.DataAt || i.Offset > int64(len(file)) && i.Bytes > 0 || i.Bytes > max(0, int64(len(file))-i.Offset) {
				t.Fatalf("%+v lies outside the file of %d bytes", i, len(file))
			}
			if len(i.Name) > maxWrittenName {
				return
			}
		}
		meta := h.Meta.Without(splitNoKey, splitCountKey, splitTensorsKey)
		w := &Writer{infos: append([]Info(nil), h.Tensors...), alignment: h.Alignment}
		if _, err := w.split(0); err != nil {
			t.Fatal(err)
		}
		p, err := w.header(0, meta)
		if err != nil {
			t.Fatalf("cannot be written again: %v", err)
		}
		again, err := ReadHeader(bytes.NewReader(p), -1)
		if err != nil {
			t.Fatalf("what is written is refused: %v", err)
		}
		same := cmp.Options{cmpopts.EquateNaNs(), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Info{}, "Offset")}
		if d := cmp.Diff(meta, again.Meta, same); d != "" {
			t.Fatalf("metadata (-want +got):\n%s", d)
		}
		if d := cmp.Diff(h.Tensors, again.Tensors, same); d != "" {
			t.Fatalf("tensors (-want +got):\n%s", d)
		}
	})
}
