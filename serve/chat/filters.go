package chat

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// chain applies filters to a value.
func (e *evaluator) chain(x any, filters []filterCall) (any, error) {
	for i := range filters {
		f := &filters[i]
		args, named, err := e.arguments(f.args, f.names, f.named)
		if err != nil {
			return nil, err
		}
		e.line = f.line
		if x, err = e.filter(f.name, x, args, named); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// given returns argument i or a named one.
func given(args []any, i int, named *dict, name string) (any, bool) {
	if i < len(args) {
		return args[i], true
	}
	v, ok := named.values[name]
	return v, ok
}

// filter applies one filter.
func (e *evaluator) filter(name string, x any, args []any, named *dict) (any, error) {
	e.spend(1)
	switch name {
	case "tojson":
		return e.toJSON(x, args, named)
	case "trim":
		return stripped(e, e.display(x), "strip", args)
	case "upper", "lower", "title", "capitalize":
		return textMethod(e.display(x), name).call(e, nil, nil)
	case "replace":
		return replaceText(e, e.display(x), args, named)
	case "string", "safe", "escape", "e", "forceescape":
		if _, done := x.(markup); done && name != "forceescape" {
			return x, nil
		}
		s := e.display(x)
		switch name {
		case "string":
			return s, nil
		case "safe":
			return markup(s), nil
		}
		e.grow(6 * len(s))
		return markup(escaped(s)), nil
	case "length", "count":
		n, ok := length(x)
		if !ok {
			return nil, e.fail("a %s has no length", typeName(x))
		}
		return int64(n), nil
	case "default", "d":
		v, ok := given(args, 0, named, "default_value")
		if !ok {
			v = ""
		}
		loose, _ := given(args, 1, named, "boolean")
		if _, missing := x.(undefined); missing || truth(loose) && !truth(x) {
			return v, nil
		}
		return x, nil
	case "int", "float", "abs", "round":
		return e.numeric(name, x, args, named)
	case "indent":
		return e.indent(e.display(x), args, named)
	case "format":
		return e.format(e.display(x), &list{items: args, tuple: true})
	case "items":
		switch d := x.(type) {
		case *dict:
			return e.items(d), nil
		case undefined:
			return &list{}, nil
		}
		return nil, e.fail("items of a %s", typeName(x))
	case "dictsort":
		d, ok := x.(*dict)
		if !ok {
			return nil, e.fail("dictsort of a %s", typeName(x))
		}
		l, ordered := e.items(d), true
		e.spend(16 * len(l.items))
		slices.SortStableFunc(l.items, func(a, b any) int {
			c, ok := e.compare(fold(a.(*list).items[0]), fold(b.(*list).items[0]))
			ordered = ordered && ok
			return c
		})
		if !ordered {
			return nil, e.fail("dictsort of keys without an order")
		}
		return l, nil
	case "reverse":
		if s, ok := plain(x).(string); ok {
			r := e.runes(s)
			slices.Reverse(r)
			return string(r), nil
		}
	case "attr":
		s, err := textArg(e, args, 0)
		if err != nil {
			return nil, err
		}
		return e.member(x, s)
	case "wordcount":
		return int64(len(strings.Fields(e.display(x)))), nil
	}
	return e.listFilter(name, x, args, named)
}

// listFilter applies a filter of lists.
func (e *evaluator) listFilter(name string, x any, args []any, named *dict) (any, error) {
	known := []string{"list", "first", "last", "join", "reverse", "sort", "unique", "sum", "min", "max", "map", "select", "reject", "selectattr", "rejectattr", "batch"}
	if !slices.Contains(known, name) {
		return nil, e.fail("the filter %q is not supported", name)
	}
	switch name {
	case "map", "select", "reject", "selectattr", "rejectattr":
		if !truth(x) {
			return &list{}, nil
		}
	}
	items, err := e.iterate(x)
	if err != nil {
		return nil, err
	}
	e.grow(16 * len(items))
	by, _ := given(args, len(args), named, "attribute")
	switch name {
	case "list":
		return &list{items: slices.Clone(items)}, nil
	case "first", "last":
		if len(items) == 0 {
			return undefined{"an element of an empty list"}, nil
		}
		if name == "first" {
			return items[0], nil
		}
		return items[len(items)-1], nil
	case "join":
		sep, _ := given(args, 0, named, "d")
		if by, ok := given(args, 1, named, "attribute"); ok {
			if items, err = e.pluck(items, by, nil); err != nil {
				return nil, err
			}
		}
		if sep == nil {
			sep = ""
		}
		return e.join(items, e.display(sep)), nil
	case "reverse":
		l := &list{items: slices.Clone(items)}
		slices.Reverse(l.items)
		return l, nil
	case "unique":
		l := &list{}
		for _, v := range items {
			e.spend(len(l.items))
			if !slices.ContainsFunc(l.items, func(o any) bool { return e.equal(fold(o), fold(v)) }) {
				l.items = append(l.items, v)
			}
		}
		return l, nil
	case "sort", "min", "max":
		return e.sorted(name, items, args, named, by)
	case "sum":
		if by != nil {
			if items, err = e.pluck(items, by, nil); err != nil {
				return nil, err
			}
		}
		var total any = int64(0)
		for _, v := range items {
			if total, err = e.arithmetic("+", total, v); err != nil {
				return nil, err
			}
		}
		return total, nil
	case "batch":
		n, err := intArg(e, args, 0, named, "linecount", 0)
		if err != nil || n < 1 {
			return nil, e.fail("batch wants a number")
		}
		l := &list{}
		for part := range slices.Chunk(items, n) {
			l.items = append(l.items, &list{items: part})
		}
		return l, nil
	case "map":
		if by != nil {
			usual := named.values["default"]
			if items, err = e.pluck(items, by, usual); err != nil {
				return nil, err
			}
			return &list{items: items}, nil
		}
		f, err := textArg(e, args, 0)
		if err != nil {
			return nil, err
		}
		l := &list{}
		for _, v := range items {
			if v, err = e.filter(f, v, args[1:], named); err != nil {
				return nil, err
			}
			l.items = append(l.items, v)
		}
		return l, nil
	}
	return e.choose(name, items, args)
}

// choose is select, reject, selectattr and rejectattr.
func (e *evaluator) choose(name string, items, args []any) (any, error) {
	keep := strings.HasPrefix(name, "select")
	attribute := ""
	if strings.HasSuffix(name, "attr") {
		s, err := textArg(e, args, 0)
		if err != nil {
			return nil, err
		}
		attribute, args = s, args[1:]
	}
	l := &list{}
	for _, v := range items {
		x, err := v, error(nil)
		if attribute != "" {
			if x, err = e.path(v, attribute); err != nil {
				return nil, err
			}
		}
		ok := truth(x)
		if len(args) > 0 {
			test, err := textArg(e, args, 0)
			if err != nil {
				return nil, err
			}
			if ok, err = e.test(test, x, args[1:]); err != nil {
				return nil, err
			}
		}
		if ok == keep {
			l.items = append(l.items, v)
		}
	}
	return l, nil
}

// path is a member, or a member of a member: a.b.
func (e *evaluator) path(x any, path string) (any, error) {
	for part := range strings.SplitSeq(path, ".") {
		e.spend(1)
		if n, err := strconv.Atoi(part); err == nil {
			l, ok := x.(*list)
			if !ok || n < 0 || n >= len(l.items) {
				return undefined{part}, nil
			}
			x = l.items[n]
			continue
		}
		if d, ok := x.(*dict); ok {
			if v, ok := d.values[part]; ok {
				x = v
				continue
			}
		}
		var err error
		if x, err = e.member(x, part); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// pluck takes a member of each item.
func (e *evaluator) pluck(items []any, by, usual any) ([]any, error) {
	out := make([]any, len(items))
	for i, v := range items {
		x, err := e.path(v, e.display(by))
		if err != nil {
			return nil, err
		}
		if _, missing := x.(undefined); missing && usual != nil {
			x = usual
		}
		out[i] = x
	}
	return out, nil
}

// fold is a value without regard to case.
func fold(v any) any {
	if s, ok := v.(string); ok {
		return strings.ToLower(s)
	}
	return v
}

func (e *evaluator) sorted(name string, items, args []any, named *dict, by any) (any, error) {
	keys := slices.Clone(items)
	if by != nil {
		var err error
		if keys, err = e.pluck(items, by, nil); err != nil {
			return nil, err
		}
	}
	exact, _ := given(args, 1, named, "case_sensitive")
	if name != "sort" {
		exact, _ = given(args, 0, named, "case_sensitive")
	}
	if !truth(exact) {
		for i, k := range keys {
			if s, ok := k.(string); ok {
				e.grow(len(s))
			}
			keys[i] = fold(k)
		}
	}
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	backwards, _ := given(args, 0, named, "reverse")
	ordered := true
	slices.SortStableFunc(order, func(i, j int) int {
		c, ok := e.compare(keys[i], keys[j])
		ordered = ordered && ok
		if name == "sort" && truth(backwards) || name == "max" {
			return -c
		}
		return c
	})
	if !ordered {
		return nil, e.fail("%s of values without an order", name)
	}
	if name != "sort" {
		if len(items) == 0 {
			return undefined{"an element of an empty list"}, nil
		}
		return items[order[0]], nil
	}
	l := &list{items: make([]any, len(items))}
	for i, at := range order {
		l.items[i] = items[at]
	}
	return l, nil
}

func (e *evaluator) numeric(name string, x any, args []any, named *dict) (any, error) {
	f, i, isInt, ok := number(x)
	switch name {
	case "int":
		switch {
		case isInt:
			return i, nil
		case ok && math.Abs(f) < 1<<62:
			return int64(f), nil
		}
		if s, isText := x.(string); isText {
			if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64); err == nil {
				return n, nil
			}
			if f, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil && math.Abs(f) < 1<<62 {
				return int64(f), nil
			}
		}
		if v, ok := given(args, 0, named, "default"); ok {
			return v, nil
		}
		return int64(0), nil
	case "float":
		if ok {
			return f, nil
		}
		if s, isText := x.(string); isText {
			if f, err := strconv.ParseFloat(strings.TrimSpace(s), 64); err == nil {
				return f, nil
			}
		}
		if v, ok := given(args, 0, named, "default"); ok {
			return v, nil
		}
		return 0.0, nil
	}
	if !ok {
		return nil, e.fail("%s of a %s", name, typeName(x))
	}
	if name == "abs" {
		if isInt {
			return max(i, -i), nil
		}
		return math.Abs(f), nil
	}
	digits, err := intArg(e, args, 0, named, "precision", 0)
	if err != nil {
		return nil, err
	}
	how, _ := given(args, 1, named, "method")
	scale := math.Pow(10, float64(min(max(digits, -300), 300)))
	switch how {
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	if r := math.RoundToEven(f*scale) / scale; !math.IsInf(r, 0) && !math.IsNaN(r) {
		return r, nil
	}
	return f, nil
}

func (e *evaluator) indent(s string, args []any, named *dict) (any, error) {
	by := "    "
	if v, ok := given(args, 0, named, "width"); ok {
		if t, ok := v.(string); ok {
			by = t
		} else {
			n, err := intArg(e, []any{v}, 0, named, "width", 4)
			if err != nil {
				return nil, err
			}
			e.grow(max(n, 0))
			by = strings.Repeat(" ", max(n, 0))
		}
	}
	first, _ := given(args, 1, named, "first")
	blank, _ := given(args, 2, named, "blank")
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if (i > 0 || truth(first)) && (l != "" || truth(blank)) {
			e.grow(len(by) + len(l))
			lines[i] = by + l
		}
	}
	return e.text(strings.Join(lines, "\n")), nil
}

// test tells whether a value passes a test.
func (e *evaluator) test(name string, x any, args []any) (bool, error) {
	_, missing := x.(undefined)
	_, whole, isInt, isNumber := number(x)
	_, isBool := x.(bool)
	switch name {
	case "defined":
		return !missing, nil
	case "undefined":
		return missing, nil
	case "none":
		return x == nil, nil
	case "string":
		_, ok := plain(x).(string)
		return ok, nil
	case "mapping":
		_, ok := x.(*dict)
		return ok, nil
	case "boolean":
		return isBool, nil
	case "true":
		return x == true, nil
	case "false":
		return x == false, nil
	case "number":
		return isNumber, nil
	case "integer":
		return isInt && !isBool, nil
	case "float":
		return isNumber && !isInt, nil
	case "iterable", "sequence":
		switch x.(type) {
		case string, markup, *list, *dict, undefined:
			return true, nil
		}
		return false, nil
	case "callable":
		switch x.(type) {
		case *function, *macro:
			return true, nil
		}
		return false, nil
	case "odd":
		return isInt && whole%2 != 0, nil
	case "even":
		return isInt && whole%2 == 0, nil
	case "upper", "lower":
		s := e.display(x)
		return textMethod(s, "is"+name) != nil && (name == "upper" && s == strings.ToUpper(s) || name == "lower" && s == strings.ToLower(s)), nil
	}
	if len(args) == 0 {
		return false, e.fail("the test %q is not supported", name)
	}
	y := args[0]
	switch name {
	case "divisibleby":
		_, by, ok, _ := number(y)
		return ok && isInt && by != 0 && whole%by == 0, nil
	case "equalto", "eq", "==":
		return e.equal(x, y), nil
	case "ne", "!=":
		return !e.equal(x, y), nil
	case "sameas":
		_, alsoInt, otherInt, _ := number(y)
		_, otherBool := y.(bool)
		return e.equal(x, y) && isBool == otherBool && isInt == otherInt && whole == alsoInt, nil
	case "in":
		return e.contains(y, x)
	case "lt", "lessthan", "<", "gt", "greaterthan", ">", "le", "<=", "ge", ">=":
		c, ok := e.compare(x, y)
		if !ok {
			return false, e.fail("a %s and a %s have no order", typeName(x), typeName(y))
		}
		switch name {
		case "lt", "lessthan", "<":
			return c < 0, nil
		case "gt", "greaterthan", ">":
			return c > 0, nil
		case "le", "<=":
			return c <= 0, nil
		}
		return c >= 0, nil
	}
	return false, e.fail("the test %q is not supported", name)
}
