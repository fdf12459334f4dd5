package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadline/internal/edits"
	"loadline/mem"
)

func TestCutter(t *testing.T) {
	for _, x := range []struct {
		stops, pieces []string
		want          string
		stopped       bool
	}{
		{nil, []string{"a", "b"}, "ab", false},
		{[]string{"END"}, []string{"the E", "N", "D and"}, "the ", true},
		{[]string{"END"}, []string{"the E", "N", "N", "E"}, "the ENNE", false},
		{[]string{"END", "e"}, []string{"th", "e END"}, "th", true},
		{[]string{"aab"}, []string{"a", "a", "a", "b", "c"}, "a", true},
		{[]string{"\n\n"}, []string{"x\n", "\n", "y"}, "x", true},
	} {
		c := &cutter{stops: x.stops}
		var got []byte
		for i, p := range x.pieces {
			text, _ := c.add([]byte(p))
			got = append(got, text...)
			if n := len(got); x.want != "" && !strings.HasPrefix(x.want, string(got[:min(n, len(x.want))])) {
				t.Errorf("%q by %q: shows %q after piece %d", x.pieces, x.stops, got, i)
			}
		}
		if !c.stopped {
			got = append(got, c.rest()...)
		}
		if string(got) != x.want || c.stopped != x.stopped {
			t.Errorf("%q by %q: got %q, stopped %v, want %q, %v", x.pieces, x.stops, got, c.stopped, x.want, x.stopped)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"recompute", "resume", "ranks", "steps", "llama-tiny"}
	for name, want := range map[string]string{
		"recompue": "recompute", "rank": "ranks", "STEPS": "steps", "resum": "resume", "llamatiny": "llama-tiny", "tiny": "llama-tiny", "xyzzyxyzzy": "", "q": "",
	} {
		if got := nearest(name, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", name, got, want)
		}
	}
	if got := edits.Distance("kitten", "sitting"); got != 3 {
		t.Errorf("edits: got %d, want 3", got)
	}
}

func TestSmallest(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	max, large, small := file("max", "max\n"), file("large", "9223372036854771712\n"), file("small", "1048576\n")
	for _, x := range []struct {
		files []string
		want  mem.Bytes
	}{
		{nil, 5 * mem.MiB}, {[]string{max, large, filepath.Join(dir, "none")}, 5 * mem.MiB}, {[]string{max, small, large}, mem.MiB},
	} {
		if got, _ := smallest(5*mem.MiB, x.files); got != x.want {
			t.Errorf("smallest of %v: got %v, want %v", x.files, got, x.want)
		}
	}
	got, from, err := memoryLimit(0, 1)
	two, _, _ := memoryLimit(0, 2)
	if err != nil || got <= 0 || from == "" || two > got*6/10 {
		t.Errorf("the default limit is %v (%s), %v; with two ranks %v", got, from, err, two)
	}
}

func TestReadIDs(t *testing.T) {
	for text, want := range map[string][]int32{
		"1 2\n3": {1, 2, 3}, "[4, 5]": {4, 5}, `{"ids":[6,7]}`: {6, 7}, "": nil, "[]": nil,
		` {"text":[{"ids":[1]},"x"],"IDs":[6 , -7],"more":null}` + "\n": {6, -7}, `{"ids":null}`: nil, "[1,2,]": {1, 2},
	} {
		var got []int32
		err := readIDs(strings.NewReader(text), func(id int32) error {
			got = append(got, id)
			return nil
		})
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: got %v, want %v", text, got, want)
			}
		}
	}
	for text, says := range map[string]string{
		"1 x": `"x" is not`, "{}": "it has no ids", `{"ids":[1.5]}`: "1.5", `{"ids":[1],`: "EOF", `{"ids":7}`: "no list", `{"ids":[]} x`: "behind", "00000000000000000001": "is not a token id",
		strings.Repeat("\x00", idsApart): "no token id in 1048576 bytes", `{"x":"` + strings.Repeat("x", 2*idsApart): "no token id in 1048576 bytes",
	} {
		err := readIDs(strings.NewReader(text), func(int32) error { return nil })
		if err == nil || !strings.Contains(err.Error(), says) || advice(err) == "" {
			t.Errorf("%.40q: got %v, want an error with %q and advice", text, err, says)
		}
	}
	n := 0
	if err := readIDs(strings.NewReader(strings.Repeat("1 ", 2*idsApart)), func(int32) error { n++; return nil }); err != nil || n != 2*idsApart {
		t.Errorf("a long list: got %d, %v", n, err)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}

// TestLines checks what progress is where there is no terminal.
func TestLines(t *testing.T) {
	var b bytes.Buffer
	a := &app{err: &b}
	p := a.newProgress("step", 10, 0)
	p.set(1, time.Second, "loss 2", "memory 1 MiB") // too soon to say
	p.say("saved")
	p.set(10, time.Second, "loss 1", "memory 1 MiB")
	p.close()
	if got, want := b.String(), "saved\nstep 10/10  loss 1  ETA 0s  memory 1 MiB\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	a.quiet = true
	p = a.newProgress("step", 1, 0)
	p.set(1, time.Second, "", "")
	p.say("saved")
	p.close()
	if b.Len() > 0 {
		t.Errorf("with --quiet: got %q", b.String())
	}
}

// TestBar draws a bar into a file, as into a wide and a narrow terminal.
func TestBar(t *testing.T) {
	for width, want := range map[int]string{120: "  loss 1  2 tokens/s  ETA 0s  m", 80: " loss 1 2 tok/s ETA 0s 1 MiB/2 "} {
		f, err := os.Create(filepath.Join(t.TempDir(), "screen"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := newBar(f, width, "step", 3, 1)
		b.say("saved")
		b.set(2, time.Second, "loss 2", "memory 1 MiB")
		b.set(3, time.Second, "loss 1  2 tokens/s", "memory 1 MiB / 2 MiB")
		b.close()
		text, err := os.ReadFile(f.Name())
		if err != nil || !strings.Contains(string(text), "saved\n") || !strings.Contains(string(text), "step 3/3") || !strings.Contains(string(text), want) {
			t.Errorf("width %d: got %q, %v, want %q in it", width, text, err, want)
		}
	}
}

// TestTable aligns what is wider in bytes than on the screen.
func TestTable(t *testing.T) {
	var b bytes.Buffer
	table(&b, [][]string{{"a", "shape", "n"}, {"long", "2×3", "10"}, {"×", "", ""}})
	if got, want := b.String(), "a     shape   n\nlong    2×3  10\n×\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOneLine(t *testing.T) {
	err := errors.Join(errors.New("train: --lr: 0: want more than 0"), errors.New("b"))
	if got, want := oneLine(words(err)), "--lr: 0: want more than 0; b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDemoTime keeps the demo near a minute on a quiet machine, and below 90 s on one where the rows take long.
func TestDemoTime(t *testing.T) {
	for rows, want := range map[time.Duration]time.Duration{
		20 * time.Second: 42 * time.Second, 40 * time.Second: 32 * time.Second, 50 * time.Second: 28 * time.Second, time.Hour: 16 * time.Second,
	} {
		if got := demoTime(rows); got != want {
			t.Errorf("rows of %v leave %v, want %v", rows, got, want)
		}
	}
}

// TestDemoRows plans the rows of demo, and runs the parts of it on less data than it takes.
func TestDemoRows(t *testing.T) {
	t.Setenv(beLoadline, "1")
	var out, errs bytes.Buffer
	a := &app{out: &out, err: &errs, began: time.Now(), seed: 1, quiet: true}
	settings, err := a.demoSettings()
	if err != nil || len(settings) != 7 {
		t.Fatalf("got %d settings, %v, want 7", len(settings), err)
	}
	for _, s := range settings[1:] {
		if s.limit >= settings[0].limit {
			t.Errorf("setting %s takes %v, recompute none %v", s.name, s.limit, settings[0].limit)
		}
	}
	if full, below := settings[1], settings[4]; below.limit >= full.limit {
		t.Errorf("setting %s takes %v, %s %v", below.name, below.limit, full.name, full.limit)
	}
	var rows []demoRow
	for _, i := range []int{0, 5, 6} {
		s := settings[i]
		s.args = append(s.args, "--seq", "32", "--batch", "2")
		if i == 6 {
			s.args[len(s.args)-1] = "1"
		}
		row, err := a.demoRow(context.Background(), s, filepath.Join(t.TempDir(), "row"))
		if err != nil {
			t.Fatalf("setting %s: %v", s.name, err)
		}
		rows = append(rows, row)
	}
	if err := demoCheck(rows); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(r *demoRow){
		"predicted": func(r *demoRow) { r.Predicted++ },
		"limit":     func(r *demoRow) { r.RSS = r.Limit + 1 },
		"loss":      func(r *demoRow) { r.Loss = math.Nextafter32(r.Loss, 9) },
	} {
		bad := append([]demoRow{}, rows...)
		if spoil(&bad[1]); demoCheck(bad) == nil {
			t.Errorf("a broken %s is not noticed", name)
		}
	}
	d := &demoDocument{Rows: []demoRow{{Limit: settings[0].limit, Ranks: 1}, {Limit: settings[4].limit, Ranks: 1}}}
	if err := a.demoText(context.Background(), d, t.TempDir(), 4); err != nil {
		t.Fatal(err)
	}
	if d.Steps != 5 || d.Limit != settings[4].limit || d.Loss == 0 || len(d.Text) <= len(demoPrompt) {
		t.Errorf("got %+v", d)
	}
	if err := a.child(context.Background(), nil, d, "train", "--json", "--preset", "nope"); err == nil || advice(err) == "" || !strings.Contains(err.Error(), "no preset") {
		t.Errorf("a child that fails: got %v", err)
	}
	text, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(text), `"rows":[{"setting"`) {
		t.Errorf("document %s, %v", text, err)
	}
}
