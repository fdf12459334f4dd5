package chat

import (
	"strings"
	"unicode"
)

// method makes a function of a value.
func method(name string, f func(e *evaluator, args []any, named *dict) (any, error)) *function {
	return &function{name, f}
}

// textArg returns argument i as a text.
func textArg(e *evaluator, args []any, i int) (string, error) {
	if i < len(args) {
		if s, ok := plain(args[i]).(string); ok {
			return s, nil
		}
	}
	return "", e.fail("argument %d is no text", i+1)
}

// intArg returns argument i, or a named one, as a whole number.
func intArg(e *evaluator, args []any, i int, named *dict, name string, usual int) (int, error) {
	var v any
	switch x, ok := named.values[name]; {
	case i < len(args):
		v = args[i]
	case ok:
		v = x
	default:
		return usual, nil
	}
	_, n, isInt, ok := number(v)
	if !ok || !isInt {
		return 0, e.fail("argument %s is no whole number", name)
	}
	if n > maxBytes || n < -maxBytes {
		return 0, e.fail("argument %s is %d, want at most %d", name, n, maxBytes)
	}
	return int(n), nil
}

// texts makes a list of texts.
func (e *evaluator) texts(parts []string) *list {
	l := &list{items: make([]any, len(parts))}
	e.grow(32 * len(parts))
	for i, s := range parts {
		l.items[i] = s
	}
	return l
}

// textMethod returns a method of a text, or nil.
func textMethod(s, name string) *function {
	plain := func(f func(string) any) *function {
		return method(name, func(e *evaluator, _ []any, _ *dict) (any, error) {
			e.grow(2 * len(s))
			return f(s), nil
		})
	}
	every := func(f func(rune) bool) *function {
		return plain(func(s string) any { return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0 })
	}
	switch name {
	case "upper":
		return plain(func(s string) any { return strings.ToUpper(s) })
	case "lower", "casefold":
		return plain(func(s string) any { return strings.ToLower(s) })
	case "title":
		return plain(func(s string) any { return titled(s) })
	case "capitalize":
		return plain(func(s string) any { return capitalized(s) })
	case "isdigit", "isnumeric", "isdecimal":
		return every(unicode.IsDigit)
	case "isalpha":
		return every(unicode.IsLetter)
	case "isalnum":
		return every(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	case "isspace":
		return every(unicode.IsSpace)
	case "isupper":
		return plain(func(s string) any { return s == strings.ToUpper(s) && s != strings.ToLower(s) })
	case "islower":
		return plain(func(s string) any { return s == strings.ToLower(s) && s != strings.ToUpper(s) })
	case "splitlines":
		return method(name, func(e *evaluator, _ []any, _ *dict) (any, error) {
			lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
			if lines[len(lines)-1] == "" {
				lines = lines[:len(lines)-1]
			}
			return e.texts(lines), nil
		})
	case "strip", "lstrip", "rstrip":
		return method(name, func(e *evaluator, args []any, _ *dict) (any, error) {
			e.spend(len(s) / 16)
			return stripped(e, s, name, args)
		})
	case "split", "rsplit":
		return method(name, func(e *evaluator, args []any, named *dict) (any, error) {
			return splitText(e, s, name == "rsplit", args, named)
		})
	case "startswith", "endswith":
		return method(name, func(e *evaluator, args []any, _ *dict) (any, error) {
			has := strings.HasPrefix
			if name == "endswith" {
				has = strings.HasSuffix
			}
			if len(args) > 0 {
				if l, ok := args[0].(*list); ok {
					for i := range l.items {
						p, err := textArg(e, l.items, i)
						if err != nil || has(s, p) {
							return err == nil, err
						}
					}
					return false, nil
				}
			}
			p, err := textArg(e, args, 0)
			return has(s, p), err
		})
	case "removeprefix", "removesuffix":
		return method(name, func(e *evaluator, args []any, _ *dict) (any, error) {
			p, err := textArg(e, args, 0)
			if name == "removeprefix" {
				return strings.TrimPrefix(s, p), err
			}
			return strings.TrimSuffix(s, p), err
		})
	case "replace":
		return method(name, func(e *evaluator, args []any, named *dict) (any, error) { return replaceText(e, s, args, named) })
	case "find", "rfind", "index", "count":
		return method(name, func(e *evaluator, args []any, _ *dict) (any, error) {
			p, err := textArg(e, args, 0)
			if err != nil {
				return nil, err
			}
			e.spend(len(s) / 16)
			at := strings.Index(s, p)
			switch {
			case name == "count":
				return int64(strings.Count(s, p)), nil
			case name == "rfind":
				at = strings.LastIndex(s, p)
			case name == "index" && at < 0:
				return nil, e.fail("a text that is looked for is not there")
			}
			if at < 0 {
				return int64(-1), nil
			}
			return int64(len([]rune(s[:at]))), nil
		})
	case "partition", "rpartition":
		return method(name, func(e *evaluator, args []any, _ *dict) (any, error) {
			sep, err := textArg(e, args, 0)
			if err != nil {
				return nil, err
			}
			e.grow(48 + len(s))
			at, parts := strings.Index(s, sep), []any{s, "", ""}
			if name == "rpartition" {
				at, parts = strings.LastIndex(s, sep), []any{"", "", s}
			}
			if at >= 0 {
				parts = []any{s[:at], sep, s[at+len(sep):]}
			}
			return &list{parts, true}, nil
		})
	case "join":
		return method(name, func(e *evaluator, args []any, _ *dict) (any, error) {
			if len(args) != 1 {
				return nil, e.fail("join wants a list")
			}
			items, err := e.iterate(args[0])
			if err != nil {
				return nil, err
			}
			return e.join(items, s), nil
		})
	case "zfill":
		return method(name, func(e *evaluator, args []any, named *dict) (any, error) {
			n, err := intArg(e, args, 0, named, "width", 0)
			n = max(0, n-len([]rune(s)))
			e.grow(n)
			return strings.Repeat("0", n) + s, err
		})
	case "format":
		return method(name, func(e *evaluator, args []any, named *dict) (any, error) { return e.formatBraces(s, args, named) })
	}
	return nil
}

func titled(s string) string {
	var b strings.Builder
	before := false
	for _, r := range s {
		if before {
			b.WriteRune(unicode.ToLower(r))
		} else {
			b.WriteRune(unicode.ToTitle(r))
		}
		before = unicode.IsLetter(r)
	}
	return b.String()
}

func capitalized(s string) string {
	for i, r := range s {
		if i == 0 {
			return string(unicode.ToTitle(r)) + strings.ToLower(s[len(string(r)):])
		}
	}
	return s
}

// stripped is Python's strip, lstrip and rstrip.
func stripped(e *evaluator, s, name string, args []any) (any, error) {
	in := unicode.IsSpace
	if len(args) > 0 && args[0] != nil {
		set, err := textArg(e, args, 0)
		if err != nil {
			return nil, err
		}
		e.spend(len(set))
		chars := map[rune]bool{}
		for _, r := range set {
			chars[r] = true
		}
		in = func(r rune) bool { return chars[r] }
	}
	if name != "rstrip" {
		s = strings.TrimLeftFunc(s, in)
	}
	if name != "lstrip" {
		s = strings.TrimRightFunc(s, in)
	}
	return s, nil
}

// splitText is Python's split and rsplit.
func splitText(e *evaluator, s string, right bool, args []any, named *dict) (any, error) {
	most, err := intArg(e, args, 1, named, "maxsplit", -1)
	if err != nil {
		return nil, err
	}
	var sep any
	if len(args) > 0 {
		sep = args[0]
	} else if v, ok := named.values["sep"]; ok {
		sep = v
	}
	e.grow(len(s))
	if sep == nil {
		if most < 0 {
			return e.texts(strings.Fields(s)), nil
		}
		var parts []string
		if right {
			for s = strings.TrimRightFunc(s, unicode.IsSpace); s != "" && most > 0; most-- {
				at := strings.LastIndexFunc(s, unicode.IsSpace)
				parts = append(parts, s[at+1:])
				s = strings.TrimRightFunc(s[:max(at, 0)], unicode.IsSpace)
			}
			if s != "" {
				parts = append(parts, s)
			}
			for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
				parts[i], parts[j] = parts[j], parts[i]
			}
			return e.texts(parts), nil
		}
		for s = strings.TrimLeftFunc(s, unicode.IsSpace); s != "" && most > 0; most-- {
			at := strings.IndexFunc(s, unicode.IsSpace)
			if at < 0 {
				break
			}
			parts = append(parts, s[:at])
			s = strings.TrimLeftFunc(s[at:], unicode.IsSpace)
		}
		if s != "" {
			parts = append(parts, s)
		}
		return e.texts(parts), nil
	}
	by, ok := plain(sep).(string)
	if !ok || by == "" {
		return nil, e.fail("split wants a text that is not empty")
	}
	if !right || most < 0 {
		if most < 0 {
			return e.texts(strings.Split(s, by)), nil
		}
		return e.texts(strings.SplitN(s, by, most+1)), nil
	}
	var parts []string
	for ; most > 0; most-- {
		at := strings.LastIndex(s, by)
		if at < 0 {
			break
		}
		parts = append([]string{s[at+len(by):]}, parts...)
		e.spend(len(parts))
		s = s[:at]
	}
	return e.texts(append([]string{s}, parts...)), nil
}

// replaceText is Python's replace.
func replaceText(e *evaluator, s string, args []any, named *dict) (any, error) {
	from, err := textArg(e, args, 0)
	if err != nil {
		return nil, err
	}
	to, err := textArg(e, args, 1)
	if err != nil {
		return nil, err
	}
	n, err := intArg(e, args, 2, named, "count", -1)
	if err != nil {
		return nil, err
	}
	count := strings.Count(s, from)
	if n >= 0 {
		count = min(count, n)
	}
	if int64(count)*int64(len(to)) > maxBytes {
		e.grow(maxBytes + 1)
	}
	e.grow(len(s) + count*len(to))
	return strings.Replace(s, from, to, n), nil
}

// join writes values with a text between.
func (e *evaluator) join(items []any, sep string) string {
	var b strings.Builder
	for i, x := range items {
		if i > 0 {
			e.grow(len(sep))
			b.WriteString(sep)
		}
		s := e.display(x)
		e.grow(len(s))
		b.WriteString(s)
	}
	return b.String()
}

// dictMethod returns a method of a mapping, or nil.
func dictMethod(d *dict, name string) *function {
	switch name {
	case "items":
		return method(name, func(e *evaluator, _ []any, _ *dict) (any, error) { return e.items(d), nil })
	case "keys":
		return method(name, func(e *evaluator, _ []any, _ *dict) (any, error) {
			items, err := e.iterate(d)
			return &list{items: items}, err
		})
	case "values":
		return method(name, func(e *evaluator, _ []any, _ *dict) (any, error) {
			l := &list{}
			e.grow(16 * len(d.keys))
			for _, k := range d.keys {
				l.items = append(l.items, d.values[k])
			}
			return l, nil
		})
	case "get":
		return method(name, func(e *evaluator, args []any, named *dict) (any, error) {
			if len(args) > 0 {
				if v, ok := d.values[keyOf(args[0])]; ok {
					return v, nil
				}
			}
			if len(args) > 1 {
				return args[1], nil
			}
			return named.values["default"], nil
		})
	case "copy":
		return method(name, func(e *evaluator, _ []any, _ *dict) (any, error) { return d, nil })
	case "update", "pop", "setdefault", "clear", "popitem":
		return forbidden(name)
	}
	return nil
}

// forbidden is a method that changes what a template is given, which the sandbox of transformers forbids too.
func forbidden(name string) *function {
	return method(name, func(e *evaluator, _ []any, _ *dict) (any, error) {
		return nil, e.fail("%s would change what the template is given", name)
	})
}

// items is a mapping as pairs.
func (e *evaluator) items(d *dict) *list {
	l := &list{}
	e.grow(64 * len(d.keys))
	for _, k := range d.keys {
		l.items = append(l.items, &list{[]any{d.key(k), d.values[k]}, true})
	}
	return l
}

// listMethod returns a method of a list, or nil.
func listMethod(l *list, name string) *function {
	switch name {
	case "index", "count":
		return method(name, func(e *evaluator, args []any, _ *dict) (any, error) {
			n := int64(0)
			for i, x := range l.items {
				if len(args) > 0 && e.equal(x, args[0]) {
					if name == "index" {
						return int64(i), nil
					}
					n++
				}
			}
			if name == "index" {
				return nil, e.fail("a value that is looked for is not in the list")
			}
			return n, nil
		})
	case "append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear":
		return forbidden(name)
	}
	return nil
}
