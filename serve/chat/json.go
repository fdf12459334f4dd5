package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// toJSON is transformers' tojson: Python's json.dumps with ensure_ascii, indent, separators and sort_keys as the template asks.
func (e *evaluator) toJSON(x any, args []any, named *dict) (any, error) {
	w := jsonWriter{e: e, comma: ", ", colon: ": "}
	ascii, _ := given(args, 0, named, "ensure_ascii")
	w.ascii = truth(ascii)
	switch v, _ := given(args, 1, named, "indent"); v := v.(type) {
	case string:
		w.indent, w.lines = v, true
	case int64:
		e.grow(int(min(max(v, 0), maxBytes)))
		w.indent, w.lines = strings.Repeat(" ", int(max(v, 0))), true
	}
	if w.lines {
		w.comma = ","
	}
	if v, _ := given(args, 2, named, "separators"); v != nil {
		l, ok := v.(*list)
		if !ok || len(l.items) != 2 {
			return nil, e.fail("separators are not two texts")
		}
		w.comma, w.colon = e.display(l.items[0]), e.display(l.items[1])
	}
	sorted, _ := given(args, 3, named, "sort_keys")
	w.sorted = truth(sorted)
	if err := w.write(x, 0); err != nil {
		return nil, err
	}
	return w.b.String(), nil
}

// jsonWriter writes a value as JSON.
type jsonWriter struct {
	e            *evaluator
	b            strings.Builder
	comma, colon string
	indent       string
	lines, ascii bool
	sorted       bool
}

func (w *jsonWriter) put(s string) {
	w.e.grow(len(s))
	w.b.WriteString(s)
}

func (w *jsonWriter) line(depth int) {
	if w.lines {
		w.put("\n")
		for range depth {
			w.put(w.indent)
		}
	}
}

func (w *jsonWriter) write(x any, depth int) error {
	if depth > maxDepth {
		return w.e.fail("a value is nested deeper than %d", maxDepth)
	}
	w.e.spend(1)
	switch x := plain(x).(type) {
	case nil:
		w.put("null")
	case bool:
		w.put(strconv.FormatBool(x))
	case int64:
		w.put(strconv.FormatInt(x, 10))
	case float64:
		s := pythonFloat(x)
		switch s {
		case "nan":
			s = "NaN"
		case "inf":
			s = "Infinity"
		case "-inf":
			s = "-Infinity"
		}
		w.put(s)
	case string:
		w.text(x)
	case *list:
		if len(x.items) == 0 {
			w.put("[]")
			return nil
		}
		w.put("[")
		for i, v := range x.items {
			if i > 0 {
				w.put(w.comma)
			}
			w.line(depth + 1)
			if err := w.write(v, depth+1); err != nil {
				return err
			}
		}
		w.line(depth)
		w.put("]")
	case *dict:
		if len(x.keys) == 0 {
			w.put("{}")
			return nil
		}
		keys := x.keys
		if w.sorted {
			keys = slices.Sorted(slices.Values(keys))
		}
		w.put("{")
		for i, k := range keys {
			if i > 0 {
				w.put(w.comma)
			}
			w.line(depth + 1)
			key, ok := x.key(k).(string)
			if !ok {
				key = strings.ToLower(w.e.display(x.key(k)))
			}
			w.text(key)
			w.put(w.colon)
			if err := w.write(x.values[k], depth+1); err != nil {
				return err
			}
		}
		w.line(depth)
		w.put("}")
	default:
		return w.e.fail("a %s has no JSON", typeName(x))
	}
	return nil
}

func (w *jsonWriter) text(s string) {
	w.e.grow(len(s) + 2)
	w.b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.b.WriteByte('\\')
			w.b.WriteRune(r)
		case r == '\n':
			w.b.WriteString(`\n`)
		case r == '\r':
			w.b.WriteString(`\r`)
		case r == '\t':
			w.b.WriteString(`\t`)
		case r == '\b':
			w.b.WriteString(`\b`)
		case r == '\f':
			w.b.WriteString(`\f`)
		case r < ' ' || w.ascii && r >= 0x7f && r < 0x10000 && r != 0x7f:
			w.b.WriteString(`\u` + hex(r, 4))
		case w.ascii && r >= 0x10000:
			r -= 0x10000
			w.b.WriteString(`\u` + hex(0xd800+r>>10, 4) + `\u` + hex(0xdc00+r&0x3ff, 4))
		default:
			w.b.WriteRune(r)
		}
	}
	w.b.WriteByte('"')
}

// parseJSON reads a value with the order of its members kept.
func parseJSON(p []byte) (any, error) {
	if !utf8.Valid(p) {
		return nil, fmt.Errorf("chat: the value is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	v, err := decodeJSON(d, 0)
	if err != nil {
		return nil, fmt.Errorf("chat: reading JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("chat: reading JSON: more follows the value")
	}
	return v, nil
}

func decodeJSON(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("a value is nested deeper than %d", maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(t), 10, 64); err == nil {
			return n, nil
		}
		f, err := t.Float64()
		return f, err
	case json.Delim:
		if t == '[' {
			l := &list{}
			for d.More() {
				v, err := decodeJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				l.items = append(l.items, v)
			}
			_, err := d.Token()
			return l, err
		}
		o := newDict()
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.set(k.(string), v)
		}
		_, err := d.Token()
		return o, err
	}
	return t, nil // nil, bool, string
}
