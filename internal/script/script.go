// Package script runs tests written as text that a reviewer can read: what goes in, a rule, what came out.
//
// A script file is a list of cases. A case is one or more lines of input, the line "----", and the expected
// output up to the next blank line. Where the output itself holds blank lines it stands between doubled rules:
//
//	# a comment
//	add a prompt=10
//	----
//	ok
//
//	print
//	----
//	----
//	one
//
//	two
//	----
//	----
//
// Blank lines and lines that begin with # between cases are kept. `go test -update` rewrites the expected text
// with what the code now answers; the diff is then reviewed like any other.
//
// Invariant: writing a parsed file again without a change of output gives the same bytes, up to the spacing
// between cases. The package does not run shells, and knows nothing of what it tests. The format is a subset of
// github.com/cockroachdb/datadriven.
package script

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rule separates input from expected output.
const rule = "----"

// update is the -update flag. Another package of the same test binary may have defined it first; the two then share it.
var update = updateFlag()

func updateFlag() flag.Value {
	if flag.Lookup("update") == nil {
		flag.Bool("update", false, "rewrite expected outputs")
	}
	return flag.Lookup("update").Value
}

// Update reports whether the test binary was started with -update.
func Update() bool { return update.String() == "true" }

// Case is one input of a script with the output that is expected of it.
type Case struct {
	Input string // without the final newline
	Want  string // every line ends in a newline; empty if nothing is expected
	Line  int    // of the first line of Input, from 1

	before string // comments and blank lines ahead of the case
}

// Run runs every script that matches the glob pattern as a subtest. For each file it calls start, whose result
// answers the file's cases in order, so that state lives from case to case and never from file to file.
// A pattern without a match fails the test.
func Run(t *testing.T, pattern string, start func(t *testing.T) func(c Case) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("script: no file matches %q", pattern)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			cases, rest, err := parse(string(text))
			if err != nil {
				t.Fatalf("%s:%v", name, err)
			}
			answer := start(t)
			for i := range cases {
				got := answer(cases[i])
				if got != "" && !strings.HasSuffix(got, "\n") {
					got += "\n"
				}
				switch {
				case got == cases[i].Want:
				case Update():
					cases[i].Want = got
				default:
					t.Errorf("%s:%d: %s\ngot:\n%swant:\n%s", name, cases[i].Line, cases[i].Input, got, cases[i].Want)
				}
			}
			if Update() {
				if err := os.WriteFile(name, []byte(format(cases, rest)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// parse splits a script into cases; rest is what follows the last of them.
func parse(text string) (cases []Case, rest string, err error) {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	at := func(i int) string { // the line without its newline; a rule never matches past the end
		if i >= len(lines) {
			return ""
		}
		return strings.TrimSuffix(lines[i], "\n")
	}
	var before strings.Builder
	for i := 0; i < len(lines); {
		if l := at(i); strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#") {
			before.WriteString(l + "\n")
			i++
			continue
		}
		c := Case{Line: i + 1, before: before.String()}
		before.Reset()
		var input []string
		for ; i < len(lines) && at(i) != rule; i++ {
			input = append(input, at(i))
		}
		if i == len(lines) {
			return nil, "", fmt.Errorf("%d: input without a line %q", c.Line, rule)
		}
		i++
		c.Input = strings.Join(input, "\n")
		var want strings.Builder
		if at(i) == rule {
			for i++; at(i) != rule || at(i+1) != rule; i++ {
				if i >= len(lines) {
					return nil, "", fmt.Errorf("%d: expected output without its closing rules", c.Line)
				}
				want.WriteString(at(i) + "\n")
			}
			i += 2
		} else {
			for ; i < len(lines) && at(i) != ""; i++ {
				want.WriteString(at(i) + "\n")
			}
		}
		if i < len(lines) && at(i) == "" { // the blank line that ends a case
			i++
		}
		c.Want = want.String()
		cases = append(cases, c)
	}
	return cases, before.String(), nil
}

// format is the inverse of parse.
func format(cases []Case, rest string) string {
	var b strings.Builder
	for i, c := range cases {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(c.before)
		b.WriteString(c.Input + "\n" + rule + "\n")
		if needsFence(c.Want) {
			b.WriteString(rule + "\n" + c.Want + rule + "\n" + rule + "\n")
		} else {
			b.WriteString(c.Want)
		}
	}
	if rest != "" {
		b.WriteString("\n" + rest)
	}
	return b.String()
}

// needsFence reports whether output would be cut short, or taken for a fence, when written plainly.
func needsFence(want string) bool {
	return strings.HasPrefix(want, "\n") || strings.Contains(want, "\n\n") || strings.HasPrefix(want, rule+"\n")
}
