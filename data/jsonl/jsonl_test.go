package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// read returns all values and the lines that they are in.
func read(r io.Reader, field string) (texts []string, lines []int64, err error) {
	j := New(r, field)
	for {
		v, err := j.Next()
		if err == io.EOF {
			return texts, lines, nil
		}
		if err != nil {
			return texts, lines, err
		}
		p, err := io.ReadAll(v)
		if err != nil {
			return texts, lines, err
		}
		texts, lines = append(texts, string(p)), append(lines, j.Line())
	}
}

func TestRead(t *testing.T) {
	const file = "\ufeff" + `{"text": "one"}
{"id": 7, "text": "", "more": [1, -2.5e+3, {"text": "inside"}, true, false, null, [], {}]}

   {"meta":{"a":[[{"b":"\\\"]}"}]],"text":"no"},"text":"tab\t \u00e9\u4E2d \ud83d\ude00 \ud83d \ude00\ud83d\u0041 \/"}  ` + "\r" + `
{"text":null}
{"\u0074ext":"named by escapes","text2":0}
{"text":"last"}`
	want := []string{"one", "", "tab\t é中 😀 \ufffd \ufffd\ufffdA /", "named by escapes", "last"}
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(file), "bytes": iotest.OneByteReader(strings.NewReader(file)), "end with data": iotest.DataErrReader(strings.NewReader(file)),
	} {
		got, lines, err := read(r, "text")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q (%v), want %q", name, got, err, want)
		}
		if !slices.Equal(lines, []int64{1, 2, 4, 6, 7}) {
			t.Errorf("%s: got lines %v", name, lines)
		}
	}
}

// Values that the caller leaves, or reads in part, change nothing about those that follow.
func TestNextPassesOver(t *testing.T) {
	j := New(strings.NewReader(`{"text":"a\u4e2d bcdef","x":1}`+"\n"+`{"x":"2","text":"next"}`+"\n"), "text")
	v, err := j.Next()
	if err != nil {
		t.Fatal(err)
	}
	var p [3]byte
	for i, want := range []string{"a", "\xe4", "\xb8", "\xad"} {
		if n, err := v.Read(p[:1]); n != 1 || err != nil || string(p[:1]) != want {
			t.Fatalf("byte %d: got %q (%v), want %q", i, p[:n], err, want)
		}
	}
	if v, err = j.Next(); err != nil {
		t.Fatal(err)
	}
	if p, err := io.ReadAll(v); err != nil || string(p) != "next" {
		t.Errorf("got %q (%v), want the next line's", p, err)
	}
	if _, err := j.Next(); err != io.EOF {
		t.Errorf("after the last: got %v, want io.EOF", err)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"content":"x","id":2}`, `there is no field "text": its fields are "content", "id"`},
		{`{}`, `there is no field "text": it has none`},
		{`{"text":5}`, `field "text" is a number, want a string`},
		{`{"text":["x"]}`, `field "text" is an array, want a string`},
		{`{"text":{"x":1}}`, `field "text" is an object, want a string`},
		{`{"text":true}`, `field "text" is a truth value, want a string`},
		{`{"text":"a","text":"b"}`, `field "text" is there twice`},
		{`["text"]`, `want an object, got '['`},
		{`To be`, `want an object, got 'T'`},
		{`{"text":"a"} x`, `'x' follows the object`},
		{`{"text":"a`, `the line ends inside an object`},
		{`{"text":"a"`, `the line ends inside an object`},
		{"{\"text\":\"a\nb\"}", `the line ends inside an object`},
		{"{\"text\":\"a\x01b\"}", `a string holds the control character '\x01'`},
		{`{"text":"\x"}`, `a string holds the escape \x`},
		{`{"text":"\u12g4"}`, `want four hexadecimal digits`},
		{`{"a":01,"text":""}`, `want a comma between fields, got '1'`},
		{`{"a":1.,"text":""}`, `want a digit in a number, got ','`},
		{`{"a":-,"text":""}`, `want a value, got ','`},
		{`{"a":1e,"text":""}`, `want a digit in a number, got ','`},
		{`{"a":tru,"text":""}`, `want true, false or null, got ','`},
		{`{"a":[1 2],"text":""}`, `want a comma or a closing bracket`},
		{`{"a":[1,],"text":""}`, `want a value, got ']'`},
		{`{"a":{"b"},"text":""}`, `want a colon`},
		{`{"a":{b:1},"text":""}`, `want the name of a field, got 'b'`},
		{`{"a" 1,"text":""}`, `want a colon`},
		{`{"a":1 "text":""}`, `want a comma between fields, got '"'`},
		{`{,"text":""}`, `want the name of a field, got ','`},
		{`{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `,"text":""}`, `nest deeper than 512`},
	} {
		_, _, err := read(strings.NewReader("{\"text\":\"good\"}\n"+c.line+"\n"), "text")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: got %v, want an error with %q", c.line, err, c.want)
		}
		if json.Valid([]byte(c.line)) && !strings.Contains(c.want, "field") && !strings.Contains(c.want, "object") && !strings.Contains(c.want, "deeper") {
			t.Errorf("%s: encoding/json takes it", c.line)
		}
	}
	bad := errors.New("bad disk")
	if _, _, err := read(io.MultiReader(strings.NewReader(`{"text":"a`), iotest.ErrReader(bad)), "text"); !errors.Is(err, bad) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

// repeated is a text without an end in memory.
type repeated struct {
	p    string
	left int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := 0
	for n+len(r.p) <= len(p) && r.left > 0 {
		n += copy(p[n:], r.p)
		r.left--
	}
	return n, nil
}

// Lines, names and lists of 8 MB are read in less than 256 KiB.
func TestHoldsLittle(t *testing.T) {
	const n = 1 << 17
	much := func() io.Reader { return &repeated{strings.Repeat(`0123456\n`, 8), n} }
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	j := New(io.MultiReader(
		strings.NewReader(`{"`), much(), strings.NewReader(`":"`), much(), strings.NewReader(`","list":[0`), &repeated{",1", 8 * n}, strings.NewReader(`],"text":"`), much(), strings.NewReader("\"}\n")), "text")
	v, err := j.Next()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.Copy(io.Discard, v)
	runtime.ReadMemStats(&after)
	if want := int64(n) * 8 * 8; err != nil || got != want {
		t.Errorf("got %d bytes (%v), want %d", got, err, want)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 256<<10 {
		t.Errorf("allocated %d bytes, want 256 KiB at most", used)
	}
}

// reference is what encoding/json says of one line: its field's string, or that it has none that counts.
func reference(line []byte, field string) (text string, ok bool) {
	if !json.Valid(line) {
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return "", false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return "", false
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return "", false
		}
		if name != field {
			continue
		}
		if ok || json.Unmarshal(v, &text) != nil || v[0] != '"' {
			return "", false
		}
		ok = true
	}
	return text, ok
}

// agree fails unless a line reads as encoding/json reads it.
func agree(t *testing.T, line []byte) {
	t.Helper()
	if bytes.ContainsRune(line, '\n') || !utf8.Valid(line) || len(bytes.Trim(line, " \t\r")) == 0 || bytes.HasPrefix(line, []byte("\ufeff")) {
		return
	}
	want, ok := reference(line, "text")
	got, _, err := read(bytes.NewReader(line), "text")
	if err != nil && strings.Contains(err.Error(), "deeper") {
		return
	}
	if err == nil && len(got) == 0 && !ok && json.Valid(line) {
		return // null
	}
	if ok != (err == nil) || ok && (len(got) != 1 || got[0] != want) {
		t.Errorf("%q: got %q (%v), encoding/json has %q (%v)", line, got, err, want, ok)
	}
}

var seeds = []string{
	`{"text":"a"}`, `{"text":"\ud83d\ude00\ud83dx\\\"\u0000"}`, `{"a":[1,-0,0.5e-7,{"b":{}}],"text":"é","c":null}`, `{"text":null}`, `{"text":"a","text":"b"}`,
	`{"te\u0078t":"x"} `, ` {"a":1e5 , "text" : "x" , "b" : [ ] } `,
}

// Lines made from parts of others read as encoding/json reads them.
func TestAgreesWithEncodingJSON(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	const bytesOfJSON = `{}[]",:\ u0de8"tfn1-+.eE`
	for range 10000 {
		p := []byte(seeds[random.IntN(len(seeds))])
		for range random.IntN(3) {
			switch at := random.IntN(len(p)); random.IntN(3) {
			case 0:
				p[at] = bytesOfJSON[random.IntN(len(bytesOfJSON))]
			case 1:
				p = slices.Delete(p, at, at+1)
			default:
				p = slices.Insert(p, at, bytesOfJSON[random.IntN(len(bytesOfJSON))])
			}
		}
		agree(t, p)
	}
}

func FuzzJSONL(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		agree(t, line)
		_, _, _ = read(bytes.NewReader(line), "text") // whatever it is, it ends
	})
}

func BenchmarkRead(b *testing.B) {
	line := `{"id":17,"meta":{"source":"book","tags":["a","b"]},"text":"` + strings.Repeat(`It was the best of times,\nit was the worst of times. `, 40) + "\"}\n"
	b.SetBytes(int64(len(line)))
	j := New(&repeated{line, 1 << 40}, "text")
	for b.Loop() {
		v, err := j.Next()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, v); err != nil {
			b.Fatal(err)
		}
	}
}
