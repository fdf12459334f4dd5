package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// document prints the verb's one document.
func (a *app) document(v any) error {
	a.printing.Lock()
	defer a.printing.Unlock()
	return a.documentHeld(v)
}

// documentHeld is document for who holds a.printing.
func (a *app) documentHeld(v any) error {
	a.printed = true
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("document: %w", err)
	}
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
}

// openEvents opens the log for appending; an empty path gives none.
func openEvents(path string) (*eventLog, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, advise(fmt.Errorf("--events: %w", err), "name a file that can be written")
	}
	return &eventLog{f: f}, nil
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

// table prints rows with aligned columns, numbers to the right. The first row is the heading.
func table(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t")+"\t")
	}
	t.Flush() // the writer below reports its own errors, and text for people has no other place to go
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
