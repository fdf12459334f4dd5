package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// checked is a writer that keeps its first error: text for people is printed in many places, and a verb whose text got lost has failed.
type checked struct {
	w      io.Writer
	failed error
}

// Write implements io.Writer.
func (c *checked) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil && c.failed == nil {
		c.failed = err
	}
	return n, err
}

// document prints the verb's one document.
func (a *app) document(v any) error {
	a.printing.Lock()
	defer a.printing.Unlock()
	return a.documentHeld(v)
}

// documentHeld is document for who holds a.printing.
func (a *app) documentHeld(v any) error {
	text, err := json.Marshal(v)
	if err != nil { // it is not out: the one about this error follows
		return fmt.Errorf("document: %w", err)
	}
	a.printed = true
	if _, err := fmt.Fprintf(a.out, "%s\n", text); err != nil {
		return fmt.Errorf("document: %w", err)
	}
	return nil
}

// eventLog is the file that --events names. A nil log writes nothing, and neither does one that has failed.
type eventLog struct {
	mu     sync.Mutex
	f      *os.File
	failed bool
	wrote  bool
}

// openEvents opens the log for appending, and writes that a verb has begun, so that a file that cannot take it is found out before the work. An
// empty path gives none.
func openEvents(path, verb string) (*eventLog, error) {
	if path == "" {
		return nil, nil
	}
	f, err := openStream(path, os.O_APPEND)
	if err != nil {
		return nil, unopened("--events", err)
	}
	l := &eventLog{f: f}
	if err := l.write("begin", map[string]any{"verb": verb, "version": version}); err != nil {
		return nil, errors.Join(unopened("--events", errors.Unwrap(err)), f.Close())
	}
	l.wrote = false
	return l, nil
}

// write appends an event. The line goes to the file in one call, so that it is whole whatever happens to the process.
func (l *eventLog) write(event string, fields map[string]any) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		return nil
	}
	line := map[string]any{"event": event, "time": time.Now().UTC().Format(time.RFC3339Nano)}
	for k, v := range fields {
		line[k] = v
	}
	l.wrote = true
	text, err := json.Marshal(line)
	if err == nil {
		_, err = l.f.Write(append(text, '\n'))
	}
	if err != nil {
		l.failed = true
		return fmt.Errorf("--events: %w", err)
	}
	return nil
}

// end writes that a verb which logs nothing else is done.
func (l *eventLog) end(seconds float64) error {
	if l == nil || l.wrote {
		return nil
	}
	return l.write("end", map[string]any{"seconds": seconds})
}

// Close closes the file.
func (l *eventLog) Close() error {
	if l == nil {
		return nil
	}
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("--events: %w", err)
	}
	return nil
}

// table prints rows in columns, the first to the left, the others, which mostly are numbers, to the right. The first row is the heading.
func table(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// grouped writes n with commas between thousands.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count writes n of something, in the plural unless n is 1.
func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// nonNil makes an empty list of no list, so that JSON says [].
func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
