package script

import (
	"strconv"
	"strings"
	"testing"
)

// Command is one line of input in the usual form: a name, plain arguments, and key=value options in any order.
type Command struct {
	Name    string
	Args    []string
	Options map[string]string
}

// Commands parses the input line by line, leaving out blank lines.
func (c Case) Commands() []Command {
	var out []Command
	for line := range strings.Lines(c.Input) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		cmd := Command{Name: fields[0], Options: map[string]string{}}
		for _, f := range fields[1:] {
			if key, value, ok := strings.Cut(f, "="); ok {
				cmd.Options[key] = value
			} else {
				cmd.Args = append(cmd.Args, f)
			}
		}
		out = append(out, cmd)
	}
	return out
}

// Arg returns plain argument i; one that is missing fails the test.
func (c Command) Arg(t testing.TB, i int) string {
	t.Helper()
	if i >= len(c.Args) {
		t.Fatalf("script: %s: want at least %d arguments, got %d", c.Name, i+1, len(c.Args))
	}
	return c.Args[i]
}

// Int returns the option key as an integer, or otherwise if it is absent; one that is not a number fails the test.
func (c Command) Int(t testing.TB, key string, otherwise int) int {
	t.Helper()
	text, ok := c.Options[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("script: %s: %s: want a number, got %q", c.Name, key, text)
	}
	return n
}

// Ints returns the option key as comma-separated int32s; absent or empty is nil, and one that is not a number fails the test.
func (c Command) Ints(t testing.TB, key string) []int32 {
	t.Helper()
	text := c.Options[key]
	if text == "" {
		return nil
	}
	var out []int32
	for f := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(f, 10, 32)
		if err != nil {
			t.Fatalf("script: %s: %s: want numbers, got %q", c.Name, key, text)
		}
		out = append(out, int32(n))
	}
	return out
}
