package parquet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// rows are those that generate.py writes; absent ones are left out, as by Next.
func rows() (texts []string, numbers []int64) {
	for i := range 500 {
		var s string
		switch {
		case i == 250:
			s = strings.Repeat("long ", 4000)
		case i%7 == 3:
			continue
		case i%5 == 1:
		default:
			s = strings.Repeat(fmt.Sprintf("Zeile %d: größer, 汉字 ", i%40), 1+i%4)
		}
		texts, numbers = append(texts, s), append(numbers, int64(i+1))
	}
	return texts, numbers
}

func load(t testing.TB, name string) []byte {
	t.Helper()
	p, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// read returns all values of a column and the rows that they are in.
func read(file []byte, column string) (texts []string, numbers []int64, err error) {
	r, err := Open(bytes.NewReader(file), int64(len(file)), column)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	for {
		v, err := r.Next()
		if errors.Is(err, io.EOF) {
			return texts, numbers, nil
		}
		if err != nil {
			return texts, numbers, err
		}
		p, err := io.ReadAll(v)
		if err != nil {
			return texts, numbers, err
		}
		texts, numbers = append(texts, string(p)), append(numbers, r.Row())
	}
}

func TestReadsWhatPyarrowWrites(t *testing.T) {
	want, numbers := rows()
	for _, name := range []string{"snappy", "zstd", "gzip", "plain", "v2", "delta"} {
		file := load(t, name)
		got, at, err := read(file, "text")
		if err != nil {
			t.Errorf("%s: after %d values: %v", name, len(got), err)
			continue
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %d values, want %d", name, len(got), len(want))
			continue
		}
		for i := range want {
			if got[i] != want[i] || at[i] != numbers[i] {
				t.Errorf("%s: value %d: got %.40q in row %d, want %.40q in row %d", name, i, got[i], at[i], want[i], numbers[i])
				break
			}
		}
		titles, at, err := read(file, "meta.title")
		if err != nil || len(titles) != 333 || titles[0] != "t1" || at[0] != 2 {
			t.Errorf("%s: meta.title: got %d values (%v), want 333 from t1 in row 2 on", name, len(titles), err)
		}
	}
	got, _, err := read(load(t, "required"), "text")
	if err != nil || strings.Join(got, "") != "0123456789" {
		t.Errorf("required: got %q (%v)", got, err)
	}
	if got, _, err := read(load(t, "empty"), "text"); err != nil || len(got) != 0 {
		t.Errorf("empty: got %q (%v)", got, err)
	}
}

// Values that the caller leaves, or reads in part, change nothing about those that follow.
func TestNextPassesOver(t *testing.T) {
	want, _ := rows()
	for _, name := range []string{"snappy", "zstd", "plain", "v2", "delta"} {
		file := load(t, name)
		r, err := Open(bytes.NewReader(file), int64(len(file)), "text")
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			v, err := r.Next()
			if err != nil {
				t.Fatalf("%s: value %d: %v", name, i, err)
			}
			p := make([]byte, min(i%3*100, len(w)))
			if _, err := io.ReadFull(v, p); err != nil || string(p) != w[:len(p)] {
				t.Fatalf("%s: value %d: got %.40q (%v), want %.40q", name, i, p, err, w)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%s: after the last: got %v, want io.EOF", name, err)
		}
		r.Close()
	}
}

func TestRefuses(t *testing.T) {
	plain := load(t, "plain")
	with := func(p []byte, edit func(p []byte)) []byte {
		p = bytes.Clone(p)
		edit(p)
		return p
	}
	for _, c := range []struct {
		name, column string
		file         []byte
		want         string
	}{
		{"missing column", "content", plain, `there is no column "content": its columns of strings are text, meta.title`},
		{"numbers", "id", plain, `column "id" holds no strings`},
		{"lists", "tags.list.element", plain, `column "tags.list.element" holds lists`},
		{"a group", "meta", plain, `there is no column "meta"`},
		{"brotli", "text", load(t, "brotli"), "it is compressed with brotli, which loadline does not read"},
		{"prefixes", "text", load(t, "prefixes"), "its encoding is DELTA_BYTE_ARRAY, which loadline does not read"},
		{"nothing", "text", nil, "not a Parquet file"},
		{"short", "text", []byte("PAR1PAR1"), "not a Parquet file"},
		{"text", "text", []byte("To be, or not to be"), "not a Parquet file"},
		{"half", "text", plain[:len(plain)/2], "its end is missing"},
		{"encrypted", "text", with(plain, func(p []byte) { copy(p[len(p)-4:], "PARE") }), "it is encrypted"},
		{"footer beyond the file", "text", with(plain, func(p []byte) { binary.LittleEndian.PutUint32(p[len(p)-8:], 1<<31) }), "its description has 2147483648 bytes"},
		{"footer of zeros", "text", append(append([]byte("PAR1"), make([]byte, 100)...), "\x10\x00\x00\x00PAR1"...), `there is no column "text"`},
		// A list of 2^60 schema elements in a footer of a few bytes.
		{"endless list", "text", []byte("PAR1\x29\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x0f\x0b\x00\x00\x00PAR1"), "unexpected EOF"},
	} {
		_, _, err := read(c.file, c.column)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

// limited fails if f allocates more than a file of this kind may make it hold.
func limited(t *testing.T, name string, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 48<<20 {
		t.Errorf("%s: allocated %d MiB, want 48 at most", name, got>>20)
	}
}

// drain reads all values without keeping any, up to a number of bytes.
func drain(file []byte, column string) error {
	r, err := Open(bytes.NewReader(file), int64(len(file)), column)
	if err != nil {
		return err
	}
	defer r.Close()
	for left := int64(1 << 22); left > 0; {
		v, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}
		n, err := io.Copy(io.Discard, io.LimitReader(v, left))
		if err != nil {
			return err
		}
		left -= n + 1
	}
	return nil
}

// A file cut anywhere is refused, and never panics or takes much memory.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"snappy", "v2", "latin"} {
		file := load(t, name)
		for n := 0; n < len(file); n += 1 + n/60 {
			limited(t, name, func() {
				if err := drain(file[:n], "text"); err == nil {
					t.Errorf("%s: %d of %d bytes are read without an error", name, n, len(file))
				}
			})
		}
	}
}

// Bytes changed at random give values or an error, without a panic or much memory.
func TestDamaged(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	refused := 0
	for _, name := range []string{"snappy", "zstd", "gzip", "plain", "v2", "delta", "latin"} {
		file := load(t, name)
		for range 300 {
			p := bytes.Clone(file)
			for range 1 + random.IntN(3) {
				at := random.IntN(len(p))
				if random.IntN(2) == 0 { // the description and the headers of pages are what can do harm
					at = max(len(p)-1-random.IntN(600), 0)
				}
				p[at] = byte(random.Uint32())
			}
			limited(t, name, func() {
				if drain(p, "text") != nil {
					refused++
				}
			})
		}
	}
	if refused == 0 {
		t.Error("no damaged file is refused")
	}
}

// Parts of a page that promise what is not there.
func TestHostilePages(t *testing.T) {
	levels := func(p ...byte) *hybrid {
		h := &hybrid{}
		h.reset(bytes.NewReader(p), 1)
		return h
	}
	for _, c := range []struct {
		name string
		err  error
	}{
		{"no levels", second(levels().next())},
		{"a run without a value", second(levels(8).next())},
		{"an endless length", second(levels(255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1).next())},
		{"a huge run", second(levels(254, 255, 255, 255, 255, 127, 1).next())},
		{"lengths in blocks of none", delta(bytes.NewReader([]byte{0, 1, 1, 0}), 1, nil)},
		{"lengths in uneven miniblocks", delta(bytes.NewReader([]byte{128, 1, 3, 1, 0}), 1, nil)},
		{"fewer lengths than values", delta(bytes.NewReader([]byte{128, 1, 4, 1, 0}), 2, nil)},
		{"lengths of 64 bits", delta(bytes.NewReader([]byte{8, 1, 9, 0, 0, 64, 0, 0, 0, 0}), 9, func(int64) error { return nil })},
	} {
		if c.err == nil {
			t.Errorf("%s: got no error", c.name)
		}
	}
	for _, p := range []string{
		"",                                  // no length
		"\xff\xff\xff\xff\xff\xff",          // a length without an end
		"\x05",                              // nothing follows
		"\x05\x10a",                         // a literal without its end
		"\x05\x14abcdef",                    // a literal that is longer than the whole
		"\x05\x05\x01",                      // a copy of what was not there
		"\x06\x00a\x05\x00",                 // a copy from no distance
		"\x05\xfc\xff\xff\xff\xff",          // a literal of 4 GiB
		"\x80\x80\x80\x80\x04\x00a\x05\x01", // 1 GiB is promised
	} {
		var s snappy
		err := s.reset(newBuffered(p))
		if err == nil {
			_, err = io.Copy(io.Discard, &s)
		}
		if err == nil {
			t.Errorf("snappy %q: got no error", p)
		}
	}
}

func second(_ uint32, err error) error { return err }

func newBuffered(p string) *bufio.Reader { return bufio.NewReader(strings.NewReader(p)) }

func FuzzParquet(f *testing.F) {
	for _, name := range []string{"snappy", "zstd", "gzip", "v2", "delta", "latin", "required", "empty"} {
		f.Add(load(f, name), "text")
	}
	f.Fuzz(func(t *testing.T, file []byte, column string) {
		_ = drain(file, column) // any error will do
	})
}

func BenchmarkRead(b *testing.B) {
	file := load(b, "snappy")
	want, _ := rows()
	b.SetBytes(int64(len(strings.Join(want, ""))))
	for b.Loop() {
		if err := drain(file, "text"); err != nil {
			b.Fatal(err)
		}
	}
}
