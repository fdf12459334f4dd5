// Package score holds the planner's predictions against measurements: it reads a table of measured memory, predicts
// every row that its rules admit, and returns the errors by family, with the reason for every row left out.
//
// The rules are those of docs/planner-accuracy.md: which systems make a family, in which unit and by which of a
// system's counters a value was measured, and what a row's flags mean. A row's measurement never enters its own
// prediction.
//
// Reading is bounded, and any column but value and system may be absent. The package does not open files.
package score

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Bounds of a table.
const (
	maxTableBytes = 64 << 20
	maxRows       = 200_000
	maxColumns    = 200
)

// Row is one measurement, its cells as written.
type Row struct {
	ID, Tier, Kind, System, Model string
	Arch                          map[string]string // the framework's own flags
	GPU, Ranks                    string
	DType                         string
	MicroBatch, GlobalBatch, Seq  string
	Parallel                      map[string]string // TP=2;PP=4;SP=true
	Metric, Value, Unit           string
	ValueGiB                      string
	StepSeconds, Throughput       string
	Extras                        map[string]string // key=value parts; a part without = is a key
	Notes                         string            // extras as written
	Layout                        string            // parallel as written
	ArchText                      string            // arch as written
	Source                        string
	// Before is the rows above that a cumulative row builds on, oldest first.
	Before []*Row
}

// Read reads a table with a header line. Columns may come in any order.
func Read(r io.Reader) ([]*Row, error) {
	limited := &io.LimitedReader{R: r, N: maxTableBytes + 1}
	in := csv.NewReader(bufio.NewReader(limited))
	in.FieldsPerRecord = -1
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("score: want a header line, got an empty table")
	}
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	if len(header) > maxColumns {
		return nil, fmt.Errorf("score: got %d columns, want at most %d", len(header), maxColumns)
	}
	column := map[string]int{}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		if _, twice := column[name]; twice && name != "" {
			return nil, fmt.Errorf("score: the header has the column %.40q twice", name)
		}
		column[name] = i
	}
	for _, need := range []string{"system", "value"} {
		if _, ok := column[need]; !ok {
			return nil, fmt.Errorf("score: no column %q in the header", need)
		}
	}
	var rows []*Row
	for n := 1; ; n++ {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("score: %w", err)
		}
		if n > maxRows || limited.N <= 0 {
			return nil, fmt.Errorf("score: want at most %d rows of %d bytes together", maxRows, maxTableBytes)
		}
		rows = append(rows, makeRow(n, func(name string) string {
			if i, ok := column[name]; ok && i < len(cells) {
				return strings.Clone(strings.TrimSpace(cells[i]))
			}
			return ""
		}))
	}
	linkCumulative(rows)
	return rows, nil
}

func makeRow(n int, cell func(string) string) *Row {
	r := &Row{
		ID: cell("id"), Tier: cell("tier"), Kind: cell("kind"), System: cell("system"), Model: cell("model"),
		GPU: cell("gpu"), Ranks: cell("n_gpus"), DType: cell("dtype"),
		MicroBatch: cell("mbs"), GlobalBatch: cell("gbs"), Seq: cell("seq"),
		Metric: cell("metric"), Value: cell("value"), Unit: cell("unit"), ValueGiB: cell("value_gib"),
		StepSeconds: cell("step_s"), Throughput: cell("tput"),
		Notes: cell("extras"), Layout: cell("parallel"), ArchText: cell("arch"), Source: cell("source"),
	}
	if r.ID == "" {
		r.ID = strconv.Itoa(n)
	}
	r.Arch, r.Parallel, r.Extras = parts(r.ArchText, ";"), parts(r.Layout, ";"), parts(r.Notes, ";")
	return r
}

// parts splits a=b;c into its keys, lower case.
func parts(text, seps string) map[string]string {
	m := map[string]string{}
	for _, p := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(seps, c) }) {
		k, v, _ := strings.Cut(p, "=")
		if k = strings.ToLower(strings.TrimSpace(k)); k != "" {
			m[k] = strings.TrimSpace(v)
		}
	}
	return m
}

// linkCumulative gives every row whose extras begin "cumulative:" the rows that it adds to: those above it, of the
// same system and model, back to the last baseline.
func linkCumulative(rows []*Row) {
	var run []*Row
	for _, r := range rows {
		if !strings.HasPrefix(strings.ToLower(r.Notes), "cumulative:") {
			continue
		}
		if strings.Contains(r.Notes, "baseline") || len(run) > 0 && (run[0].System != r.System || run[0].Model != r.Model) {
			run = nil
		}
		r.Before = run[:len(run):len(run)]
		run = append(run, r)
	}
}

// num reads the first number of a cell.
var number = regexp.MustCompile(`[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?`)

func num(cell string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
	return f, err == nil && f == f && f < 1e300 && f > -1e300
}

// firstNum reads the first number in a text.
func firstNum(text string) (float64, bool) { return num(number.FindString(text)) }

// count reads a whole number, 0 where there is none.
func count(cell string) int {
	f, ok := num(cell)
	if !ok || f < 0 || f > 1<<40 {
		return 0
	}
	return int(f)
}

// arch returns a whole number from the row's flags, or def.
func (r *Row) arch(key string, def int) int {
	if v, ok := r.Arch[key]; ok {
		if n := count(v); n > 0 {
			return n
		}
	}
	return def
}

func (r *Row) par(key string) int { return count(r.Parallel[strings.ToLower(key)]) }

func truth(v string) bool { return strings.EqualFold(v, "true") || v == "1" }

// notes tells whether the extras hold a word, whatever its case.
func (r *Row) notes(word string) bool {
	return strings.Contains(strings.ToLower(r.Notes), strings.ToLower(word))
}

// has tells whether a text holds a word, whatever its case.
func has(text, word string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(word))
}
