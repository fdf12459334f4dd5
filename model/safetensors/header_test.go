package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/bounded"
)

// fileOf returns a file with a header and n bytes of tensors.
func fileOf(header string, n int) []byte {
	p := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	p = append(p, header...)
	return append(p, make([]byte, n)...)
}

func TestHeaderRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "file has 0 bytes, too few for a header"},
		{"cut in the size", []byte{1, 2, 3}, "the file is cut short: file has 3 bytes, too few"},
		{"header of 2^63", append(bytes.Repeat([]byte{0xff}, 8), '{', '}'), "header has 18446744073709551615 bytes, want at most 16777216"},
		{"header above the bound", binary.LittleEndian.AppendUint64(nil, maxHeaderBytes+1), "want at most 16777216"},
		{"header beyond the file", fileOf("{}", 0)[:9], "the file is cut short: header has 2 bytes, the file only 1 after its size"},
		{"no header", fileOf("", 0), "does not begin with {"},
		{"space first", fileOf(" {}", 0), "does not begin with {"},
		{"list", fileOf("[]", 0), "does not begin with {"},
		{"cut", fileOf(`{"a":`, 0), "unexpected EOF"},
		{"not closed", fileOf(`{"__metadata__":{}`, 0), "unexpected EOF"},
		{"goes on", fileOf(`{} {}`, 0), "goes on with"},
		{"bad UTF-8", fileOf("{\"\xff\":1}", 0), "not valid UTF-8"},
		{"bad JSON", fileOf(`{a:1}`, 0), "header: invalid character"},
		{"twice", fileOf(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[],"data_offsets":[1,2]}}`, 2), `tensor "a" appears twice`},
		{"metadata number", fileOf(`{"__metadata__":{"k":1}}`, 0), "header: __metadata__:"},
		{"null", fileOf(`{"a":null}`, 0), `tensor "a": lacks dtype, shape or data_offsets`},
		{"no shape", fileOf(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1), "lacks dtype, shape or data_offsets"},
		{"number", fileOf(`{"a":7}`, 0), `tensor "a": json: cannot unmarshal`},
		{"dtype", fileOf(`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, 1), `tensor "a": dtype "F4" is not known`},
		{"fraction", fileOf(`{"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}}`, 1), `tensor "a": json: cannot unmarshal`},
		{"negative shape", fileOf(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1), "negative dimension"},
		{"overflow", fileOf(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "overflows"},
		{"dims", fileOf(`{"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}}`, 1), "17 dimensions"},
		{"three offsets", fileOf(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1,2]}}`, 2), "data_offsets has 3 numbers, want 2"},
		{"backwards", fileOf(`{"a":{"dtype":"U8","shape":[],"data_offsets":[1,0]}}`, 1), "make no sense"},
		{"negative offset", fileOf(`{"a":{"dtype":"U8","shape":[],"data_offsets":[-1,0]}}`, 1), "make no sense"},
		{"huge offset", fileOf(`{"a":{"dtype":"U8","shape":[],"data_offsets":[9223372036854775806,9223372036854775807]}}`, 1), "make no sense"},
		{"larger than an offset", fileOf(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,18446744073709551616]}}`, 1), `tensor "a": json: cannot unmarshal`},
		{"length", fileOf(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), "F32 of shape [2] has 8 bytes, the file has 4"},
		{"beyond the file", fileOf(`{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, 8), "the file is cut short: tensors have 9 bytes, the file has 8"},
		{"file goes on", fileOf(`{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, 10), "safetensors: tensors have 9 bytes, the file has 10"},
		{"gap in front", fileOf(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), `tensor "a": begins at 1, want 0`},
		{"gap", fileOf(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3), `tensor "b": begins at 2, want 1`},
		{"overlap", fileOf(`{"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 3), `tensor "b": begins at 1, inside the one before, which ends at 2`},
		{"same place", fileOf(`{"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2), `tensor "b": begins at 0, inside the one before`},
	} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q and the path", c.name, err, c.want)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: got %v", err)
	}
}

func TestHeaderAccepts(t *testing.T) {
	for name, file := range map[string][]byte{
		"nothing":              fileOf("{}", 0),
		"padding":              fileOf("{}      ", 0),
		"empty tensors inside": fileOf(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"f":{"dtype":"U8","shape":[3,0],"data_offsets":[1,1]}}`, 1),
	} {
		if _, _, err := readHeader(bytes.NewReader(file), int64(len(file))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzSafetensors checks that any file either is refused or has tensors that lie in it one after another, and that such
// tensors can be written again, if they are aligned.
func FuzzSafetensors(f *testing.F) {
	golden, err := os.ReadFile("testdata/golden.safetensors")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Fuzz(func(t *testing.T, file []byte) {
		var infos []Info
		var meta map[string]string
		var err error
		bounded.Run(t, len(file), 256<<10, 128, func() { infos, meta, err = readHeader(bytes.NewReader(file), int64(len(file))) })
		if err != nil {
			return
		}
		var total int64
		for _, i := range infos {
			if want, err := i.size(); err != nil || want != i.Bytes {
				t.Fatalf("%+v: its shape has %d bytes (%v)", i, want, err)
			}
			if i.Offset < 0 || i.Bytes < 0 || i.Offset > int64(len(file)) || i.Bytes > int64(len(file))-i.Offset {
				t.Fatalf("%+v lies outside the file of %d bytes", i, len(file))
			}
			total += i.Bytes
		}
		again := append([]Info(nil), infos...)
		Sort(again)
		header, err := formatHeader(again, meta)
		if err != nil {
			t.Fatalf("cannot be written again: %v", err)
		}
		infos2, meta2, err := readHeader(bytes.NewReader(append(header, make([]byte, total)...)), int64(len(header))+total)
		if err != nil {
			t.Fatalf("what is written is refused: %v", err)
		}
		if !cmp.Equal(len(infos2), len(infos)) || len(meta) > 0 && !cmp.Equal(meta, meta2) {
			t.Fatalf("got %v and %v, want %v and %v", infos2, meta2, infos, meta)
		}
	})
}
