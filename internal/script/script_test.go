package script

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRun(t *testing.T) {
	Run(t, "testdata/*.txt", func(t *testing.T) func(Case) string {
		n := 0
		return func(c Case) string {
			n++
			var b strings.Builder
			for _, line := range strings.Split(c.Input, "\n") {
				switch line {
				case "blank":
					fmt.Fprintf(&b, "%d BLANK\n\nend\n", n)
				case "silent":
				default:
					fmt.Fprintf(&b, "%d %s\n", n, strings.ToUpper(line))
				}
			}
			return b.String()
		}
	})
}

func TestParseLines(t *testing.T) {
	text, err := os.ReadFile("testdata/upper.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases, rest, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, c := range cases {
		lines = append(lines, c.Line)
	}
	if diff := cmp.Diff([]int{3, 7, 14, 23}, lines); diff != "" {
		t.Errorf("lines of the cases (-want +got):\n%s", diff)
	}
	if got, want := rest, "# kept at the end\n"; got != want {
		t.Errorf("rest: got %q, want %q", got, want)
	}
	if got := format(cases, rest); got != string(text) {
		t.Errorf("format(parse(x)): got\n%s\nwant\n%s", got, text)
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"a\nb\n", "1: input without"},
		{"# c\n\na\n----\n----\nx\n", "3: expected output without"},
		{"a\n----\n----\nx\n----\n", "1: expected output without"},
	} {
		if _, _, err := parse(tc.text); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("parse(%q): got error %v, want %q…", tc.text, err, tc.want)
		}
	}
}

// TestFormatParse holds the invariant on generated files: whatever the outputs are, they are read back unchanged.
func TestFormatParse(t *testing.T) {
	output := rapid.StringMatching(`((a|b|#|----| x)?\n){0,5}`).Filter(func(s string) bool {
		return !strings.Contains(s, rule+"\n"+rule+"\n") && !strings.HasSuffix(s, rule+"\n")
	})
	rapid.Check(t, func(t *rapid.T) {
		var cases []Case
		for range rapid.IntRange(0, 4).Draw(t, "cases") {
			cases = append(cases, Case{
				Input:  rapid.StringMatching(`[a-z]{1,3}(\n[a-z ]{1,3}){0,2}`).Draw(t, "input"),
				Want:   output.Draw(t, "want"),
				before: rapid.StringMatching(`(# [a-z]{0,3}\n|\n){0,2}`).Draw(t, "before"),
			})
		}
		rest := rapid.StringMatching(`(# [a-z]{0,3}\n){0,2}`).Draw(t, "rest")
		text := format(cases, rest)
		got, gotRest, err := parse(text)
		if err != nil {
			t.Fatalf("parse of\n%s: %v", text, err)
		}
		for i := range got {
			got[i].Line = 0
		}
		if diff := cmp.Diff(cases, got, cmp.AllowUnexported(Case{})); diff != "" || strings.TrimSpace(gotRest) != strings.TrimSpace(rest) {
			t.Fatalf("format then parse (-want +got), rest %q:\n%s\nfrom\n%s", gotRest, diff, text)
		}
	})
}

func TestCommands(t *testing.T) {
	got := Case{Input: "add a b max=3\n\nstop ids=1,-2"}.Commands()
	want := []Command{
		{Name: "add", Args: []string{"a", "b"}, Options: map[string]string{"max": "3"}},
		{Name: "stop", Options: map[string]string{"ids": "1,-2"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if got := want[0].Int(t, "max", 7) + want[0].Int(t, "min", 7); got != 10 {
		t.Errorf("options 3 and absent (7): got sum %d, want 10", got)
	}
	if diff := cmp.Diff([]int32{1, -2}, want[1].Ints(t, "ids")); diff != "" {
		t.Errorf("ints (-want +got):\n%s", diff)
	}
}
