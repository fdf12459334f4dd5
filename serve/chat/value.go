package chat

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A value of a template is one of nil (Python's None), undefined, bool, int64, float64, string, markup, *list, *dict, *function, *macro.

// markup is a text that the filters safe and escape have made: another text that is joined to it is escaped, as in Jinja's markupsafe.
type markup string

// escaped is a text for HTML.
func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}

// plain is a value without its markup.
func plain(v any) any {
	if m, ok := v.(markup); ok {
		return string(m)
	}
	return v
}

// undefined is what a name or member that is not there evaluates to.
type undefined struct{ name string }

// list is a list or a tuple.
type list struct {
	items []any
	tuple bool
}

// dict is an object in the order of its keys, a namespace, or a loop.
type dict struct {
	keys      []string
	values    map[string]any
	others    map[string]any // keys that are no texts, by what stands for them in keys
	namespace bool           // its members can be set
}

// keyOf is what stands for a key: a text for itself.
func keyOf(k any) string {
	if s, ok := plain(k).(string); ok {
		return s
	}
	if f, n, isInt, ok := number(k); ok { // 1, 1.0 and true are one key
		if !isInt && f == math.Trunc(f) && math.Abs(f) < 1<<62 {
			n, isInt = int64(f), true
		}
		if isInt {
			return "\x00" + strconv.FormatInt(n, 10)
		}
	}
	var b strings.Builder
	b.WriteByte(0)
	represent(&b, k, 0)
	return b.String()
}

// key is the key that a text in keys stands for.
func (d *dict) key(s string) any {
	if k, ok := d.others[s]; ok {
		return k
	}
	return s
}

// put is set for a key of any type.
func (d *dict) put(key, v any) {
	s := keyOf(key)
	if _, ok := key.(string); !ok {
		if d.others == nil {
			d.others = map[string]any{}
		}
		if _, ok := d.others[s]; !ok {
			d.others[s] = key
		}
	}
	d.set(s, v)
}

func newDict() *dict { return &dict{values: map[string]any{}} }

func (d *dict) set(key string, v any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = v
}

// function is a built-in function.
type function struct {
	name string
	call func(e *evaluator, args []any, named *dict) (any, error)
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *list:
		return len(v.items) > 0
	case *dict:
		return v.namespace || len(v.keys) > 0
	}
	return true
}

// display is Python's str.
func display(b *strings.Builder, v any, depth int) {
	if s, ok := plain(v).(string); ok {
		b.WriteString(s)
		return
	}
	if _, ok := v.(undefined); ok {
		return
	}
	represent(b, v, depth)
}

// represent is Python's repr.
func represent(b *strings.Builder, v any, depth int) {
	if depth > maxDepth {
		b.WriteString("...")
		return
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case undefined:
		b.WriteString("Undefined")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(pythonFloat(v))
	case string:
		representText(b, v)
	case markup:
		b.WriteString("Markup(")
		representText(b, string(v))
		b.WriteString(")")
	case *list:
		open, end := "[", "]"
		if v.tuple {
			open, end = "(", ")"
			if len(v.items) == 1 {
				end = ",)"
			}
		}
		b.WriteString(open)
		for i, x := range v.items {
			if i > 0 {
				b.WriteString(", ")
			}
			represent(b, x, depth+1)
		}
		b.WriteString(end)
	case *dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			represent(b, v.key(k), depth+1)
			b.WriteString(": ")
			represent(b, v.values[k], depth+1)
		}
		b.WriteByte('}')
	case *function:
		b.WriteString("<function " + v.name + ">")
	case *macro:
		b.WriteString("<Macro '" + v.name + "'>")
	}
}

func representText(b *strings.Builder, s string) {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteByte(quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			b.WriteString(`\x` + hex(r, 2))
		case r < 0x10000:
			b.WriteString(`\u` + hex(r, 4))
		default:
			b.WriteString(`\U` + hex(r, 8))
		}
	}
	b.WriteByte(quote)
}

func hex(r rune, digits int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, digits-len(s))) + s
}

// pythonFloat is Python's repr of a float.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		s := strconv.FormatFloat(f, 'e', -1, 64)
		return s
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// number returns a value as a float, and whether it is a number; truth values are, as in Python.
func number(v any) (f float64, whole int64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return float64(v), v, true, true
	case float64:
		return v, 0, false, true
	}
	return 0, 0, false, false
}

// equal is Python's ==.
func (e *evaluator) equal(a, b any) bool {
	e.spend(1)
	if e.depth++; e.depth > 4*maxDepth { // a namespace may hold itself
		panic(stop{fmt.Errorf("chat: template line %d: a value is nested deeper than %d", e.line, 4*maxDepth)})
	}
	defer func() { e.depth-- }()
	a, b = plain(a), plain(b)
	if x, xi, isInt, ok := number(a); ok {
		y, yi, alsoInt, ok := number(b)
		if isInt && alsoInt {
			return ok && xi == yi
		}
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case string:
		s, ok := b.(string)
		if ok && len(s) == len(a) {
			e.spend(len(a) / 64)
		}
		return ok && s == a
	case *list:
		l, ok := b.(*list)
		return ok && len(l.items) == len(a.items) && l.tuple == a.tuple && slices.EqualFunc(a.items, l.items, e.equal)
	case *dict:
		d, ok := b.(*dict)
		if !ok || len(d.keys) != len(a.keys) {
			return false
		}
		for _, k := range a.keys {
			if x, ok := d.values[k]; !ok || !e.equal(a.values[k], x) {
				return false
			}
		}
		return true
	}
	return a == b
}

// compare orders two values, or says that they have no order.
func (e *evaluator) compare(a, b any) (int, bool) {
	e.spend(1)
	a, b = plain(a), plain(b)
	if x, xi, isInt, ok := number(a); ok {
		y, yi, alsoInt, ok := number(b)
		switch {
		case !ok:
			return 0, false
		case isInt && alsoInt:
			x, y = 0, 0
			if xi < yi {
				x = -1
			} else if xi > yi {
				x = 1
			}
		}
		switch {
		case x < y:
			return -1, true
		case x > y:
			return 1, true
		}
		return 0, true
	}
	switch a := a.(type) {
	case string:
		if s, ok := b.(string); ok {
			e.spend(min(len(a), len(s)) / 64)
			return strings.Compare(a, s), true
		}
	case *list:
		if l, ok := b.(*list); ok {
			for i := range min(len(a.items), len(l.items)) {
				if c, ok := e.compare(a.items[i], l.items[i]); !ok || c != 0 {
					return c, ok
				}
			}
			return len(a.items) - len(l.items), true
		}
	}
	return 0, false
}

// contains is Python's "in".
func (e *evaluator) contains(box, v any) (bool, error) {
	v = plain(v)
	switch b := plain(box).(type) {
	case string:
		s, ok := v.(string)
		if !ok {
			return false, e.fail("'in' of a text wants a text")
		}
		e.spend(len(b) / 64)
		return strings.Contains(b, s), nil
	case *list:
		e.spend(len(b.items))
		return slices.ContainsFunc(b.items, func(x any) bool { return e.equal(x, v) }), nil
	case *dict:
		_, ok := b.values[keyOf(v)]
		return ok, nil
	case undefined:
		return false, nil
	}
	return false, e.fail("'in' wants a text, a list or a mapping")
}

// iterate returns the elements that a loop over a value has.
func (e *evaluator) iterate(v any) ([]any, error) {
	switch v := plain(v).(type) {
	case *list:
		return v.items, nil
	case *dict:
		items := make([]any, len(v.keys))
		for i, k := range v.keys {
			items[i] = v.key(k)
		}
		e.spend(len(items))
		return items, nil
	case string:
		e.spend(len(v))
		e.grow(16 * len(v))
		var items []any
		for _, r := range v {
			items = append(items, string(r))
		}
		return items, nil
	case undefined:
		return nil, nil
	}
	return nil, e.fail("a %s cannot be gone through", typeName(v))
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "None"
	case undefined:
		return "undefined value"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string, markup:
		return "text"
	case *list:
		return "list"
	case *dict:
		return "mapping"
	}
	return "function"
}

// length is Python's len.
func length(v any) (int, bool) {
	switch v := plain(v).(type) {
	case string:
		return utf8.RuneCountInString(v), true
	case *list:
		return len(v.items), true
	case *dict:
		return len(v.keys), true
	case undefined:
		return 0, true
	}
	return 0, false
}
