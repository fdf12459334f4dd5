package chat

import (
	"math"
	"strings"
)

// eval evaluates an expression.
func (e *evaluator) eval(n node) (any, error) {
	e.spend(1)
	if e.depth++; e.depth > 4*maxDepth {
		return nil, e.fail("an expression is nested too deep")
	}
	defer func() { e.depth-- }()
	switch n := n.(type) {
	case *constant:
		return n.v, nil
	case *name:
		if v, ok := e.scope.get(n.name); ok {
			return v, nil
		}
		return undefined{n.name}, nil
	case *listNode:
		l := &list{items: make([]any, len(n.items)), tuple: n.tuple}
		e.grow(16 * len(n.items))
		for i, x := range n.items {
			v, err := e.eval(x)
			if err != nil {
				return nil, err
			}
			l.items[i] = v
		}
		return l, nil
	case *dictNode:
		return e.dictionary(n)
	case *getNode:
		x, err := e.eval(n.x)
		if err != nil {
			return nil, err
		}
		e.line = n.line
		return e.member(x, n.name)
	case *indexNode:
		return e.index(n)
	case *sliceNode:
		return e.slice(n)
	case *callExpr:
		return e.call(n, nil)
	case *unaryNode:
		return e.unary(n)
	case *binaryNode:
		return e.binary(n)
	case *compareNode:
		return e.comparison(n)
	case *choiceNode:
		test, err := e.eval(n.test)
		if err != nil {
			return nil, err
		}
		switch {
		case truth(test):
			return e.eval(n.yes)
		case n.no == nil:
			return undefined{}, nil
		}
		return e.eval(n.no)
	case *filterExpr:
		x, err := e.eval(n.x)
		if err != nil {
			return nil, err
		}
		return e.chain(x, []filterCall{n.filterCall})
	case *testNode:
		x, err := e.eval(n.x)
		if err != nil {
			return nil, err
		}
		e.line = n.line
		args, _, err := e.arguments(n.args, n.names, n.named)
		if err != nil {
			return nil, err
		}
		ok, err := e.test(n.name, x, args)
		return ok != n.not, err
	}
	return nil, e.fail("an expression that is none")
}

func (e *evaluator) dictionary(n *dictNode) (any, error) {
	d := newDict()
	e.grow(48 * len(n.keys))
	for i, k := range n.keys {
		key, err := e.eval(k)
		if err != nil {
			return nil, err
		}
		v, err := e.eval(n.values[i])
		if err != nil {
			return nil, err
		}
		switch key.(type) {
		case *list, *dict:
			return nil, e.fail("a %s is no key", typeName(key))
		}
		d.put(key, v)
	}
	return d, nil
}

// member is x.name: a method if there is one, else an element.
func (e *evaluator) member(x any, name string) (any, error) {
	switch x := plain(x).(type) {
	case undefined:
		return nil, e.fail("%s is undefined, and so has no %s", x.name, name)
	case *loopState:
		if v, ok := x.get(name); ok {
			return v, nil
		}
	case *dict:
		if !x.namespace {
			if f := dictMethod(x, name); f != nil {
				return f, nil
			}
		}
		if v, ok := x.values[name]; ok {
			return v, nil
		}
	case string:
		if f := textMethod(x, name); f != nil {
			return f, nil
		}
	case *list:
		if f := listMethod(x, name); f != nil {
			return f, nil
		}
	}
	return undefined{name}, nil
}

func (e *evaluator) index(n *indexNode) (any, error) {
	x, err := e.eval(n.x)
	if err != nil {
		return nil, err
	}
	at, err := e.eval(n.at)
	if err != nil {
		return nil, err
	}
	e.line = n.line
	at = plain(at)
	switch x := plain(x).(type) {
	case undefined:
		return nil, e.fail("%s is undefined, and so has no elements", x.name)
	case *dict:
		if v, ok := x.values[keyOf(at)]; ok {
			return v, nil
		}
		if s, ok := at.(string); ok {
			return e.member(x, s)
		}
		return undefined{"a member"}, nil
	case *list:
		if _, i, isInt, ok := number(at); ok && isInt {
			if i < 0 {
				i += int64(len(x.items))
			}
			if i >= 0 && i < int64(len(x.items)) {
				return x.items[i], nil
			}
			return undefined{"an element out of range"}, nil
		}
	case string:
		if _, i, isInt, ok := number(at); ok && isInt {
			r := e.runes(x)
			if i < 0 {
				i += int64(len(r))
			}
			if i >= 0 && i < int64(len(r)) {
				return string(r[i]), nil
			}
			return undefined{"a character out of range"}, nil
		}
	}
	if s, ok := at.(string); ok {
		return e.member(x, s)
	}
	return undefined{}, nil
}

// runes takes a text apart.
func (e *evaluator) runes(s string) []rune {
	e.grow(4 * len(s))
	return []rune(s)
}

func (e *evaluator) slice(n *sliceNode) (any, error) {
	x, err := e.eval(n.x)
	if err != nil {
		return nil, err
	}
	e.line = n.line
	var bounds [3]*int64
	for i, b := range []node{n.from, n.to, n.step} {
		if b == nil {
			continue
		}
		v, err := e.eval(b)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		_, whole, isInt, ok := number(v)
		if !ok || !isInt {
			return nil, e.fail("a slice wants whole numbers")
		}
		bounds[i] = &whole
	}
	switch x := plain(x).(type) {
	case string:
		r := e.runes(x)
		var b strings.Builder
		err := e.pick(len(r), bounds, func(i int) { b.WriteRune(r[i]) })
		return e.text(b.String()), err
	case *list:
		l := &list{tuple: x.tuple}
		err := e.pick(len(x.items), bounds, func(i int) { l.items = append(l.items, x.items[i]) })
		e.grow(16 * len(l.items))
		return l, err
	case undefined:
		return nil, e.fail("%s is undefined, and so has no slices", x.name)
	}
	return nil, e.fail("a %s has no slices", typeName(x))
}

// pick calls yield with the places that a slice of n elements has.
func (e *evaluator) pick(n int, bounds [3]*int64, yield func(i int)) error {
	step := int64(1)
	if bounds[2] != nil {
		if step = *bounds[2]; step == 0 {
			return e.fail("a slice's step is 0")
		}
	}
	size := int64(n)
	low, high := int64(0), size
	from, to := int64(0), size
	if step < 0 {
		low, high = -1, size-1
		from, to = size-1, -1
	}
	clamp := func(b *int64, usual int64) int64 {
		if b == nil {
			return usual
		}
		i := *b
		if i < 0 {
			i += size
		}
		return min(max(i, low), high)
	}
	from, to = clamp(bounds[0], from), clamp(bounds[1], to)
	step = min(max(step, -size-1), size+1)
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		e.spend(1)
		yield(int(i))
	}
	return nil
}

func (e *evaluator) unary(n *unaryNode) (any, error) {
	x, err := e.eval(n.x)
	if err != nil {
		return nil, err
	}
	if n.op == "not" {
		return !truth(x), nil
	}
	e.line = n.line
	f, i, isInt, ok := number(x)
	switch {
	case !ok:
		return nil, e.fail("%s of a %s", n.op, typeName(x))
	case n.op == "-" && isInt:
		return -i, nil
	case n.op == "-":
		return -f, nil
	case isInt:
		return i, nil
	}
	return f, nil
}

func (e *evaluator) binary(n *binaryNode) (any, error) {
	x, err := e.eval(n.x)
	if err != nil {
		return nil, err
	}
	switch {
	case n.op == "and" && !truth(x), n.op == "or" && truth(x):
		return x, nil
	}
	y, err := e.eval(n.y)
	if err != nil || n.op == "and" || n.op == "or" {
		return y, err
	}
	e.line = n.line
	_, safe := x.(markup)
	_, alsoSafe := y.(markup)
	_, isText := plain(x).(string)
	_, alsoText := plain(y).(string)
	if n.op == "+" && isText && alsoText && (safe || alsoSafe) {
		a, b := e.display(x), e.display(y)
		e.grow(6 * (len(a) + len(b)))
		if !safe {
			a = escaped(a)
		}
		if !alsoSafe {
			b = escaped(b)
		}
		return markup(a + b), nil
	}
	if n.op == "~" {
		a, b := e.display(x), e.display(y)
		e.grow(len(a) + len(b))
		return a + b, nil
	}
	x, y = plain(x), plain(y)
	return e.arithmetic(n.op, x, y)
}

func (e *evaluator) arithmetic(op string, x, y any) (any, error) {
	switch a := x.(type) {
	case string:
		if b, ok := y.(string); ok && op == "+" {
			e.grow(len(a) + len(b))
			return a + b, nil
		}
		if op == "*" {
			return e.repeat(a, y)
		}
		if op == "%" {
			return e.format(a, y)
		}
	case *list:
		if b, ok := y.(*list); ok && op == "+" && a.tuple == b.tuple {
			e.grow(16 * (len(a.items) + len(b.items)))
			return &list{append(append(make([]any, 0, len(a.items)+len(b.items)), a.items...), b.items...), a.tuple}, nil
		}
	}
	if s, ok := y.(string); ok && op == "*" {
		return e.repeat(s, x)
	}
	f, i, isInt, ok := number(x)
	g, j, alsoInt, also := number(y)
	if !ok || !also {
		if u, ok := x.(undefined); ok {
			return nil, e.fail("%s is undefined", u.name)
		}
		return nil, e.fail("%s of a %s and a %s", op, typeName(x), typeName(y))
	}
	if isInt && alsoInt {
		return e.whole(op, i, j)
	}
	switch op {
	case "+":
		return f + g, nil
	case "-":
		return f - g, nil
	case "*":
		return f * g, nil
	case "**":
		return math.Pow(f, g), nil
	}
	if g == 0 {
		return nil, e.fail("division by zero")
	}
	switch op {
	case "/":
		return f / g, nil
	case "//":
		return math.Floor(f / g), nil
	}
	return f - g*math.Floor(f/g), nil
}

// whole is arithmetic of whole numbers, which here have 64 bits.
func (e *evaluator) whole(op string, i, j int64) (any, error) {
	switch op {
	case "+":
		return i + j, nil
	case "-":
		return i - j, nil
	case "*":
		if i != 0 && (i*j/i != j || i == -1 && j == math.MinInt64) {
			return nil, e.fail("a number is too large")
		}
		return i * j, nil
	case "**":
		if j < 0 {
			return math.Pow(float64(i), float64(j)), nil
		}
		p := math.Pow(float64(i), float64(j))
		if math.Abs(p) >= 1<<53 {
			return nil, e.fail("a number is too large")
		}
		return int64(p), nil
	}
	if j == 0 {
		return nil, e.fail("division by zero")
	}
	if op == "/" {
		return float64(i) / float64(j), nil
	}
	if j == -1 {
		if op == "%" {
			return int64(0), nil
		}
		return -i, nil
	}
	q, r := i/j, i%j
	if r != 0 && (r < 0) != (j < 0) {
		q, r = q-1, r+j
	}
	if op == "%" {
		return r, nil
	}
	return q, nil
}

func (e *evaluator) repeat(s string, count any) (any, error) {
	_, n, isInt, ok := number(count)
	if !ok || !isInt {
		return nil, e.fail("* of a text and a %s", typeName(count))
	}
	if n <= 0 || s == "" {
		return "", nil
	}
	if n > maxBytes || n*int64(len(s)) > maxBytes {
		e.grow(maxBytes + 1)
	}
	e.grow(int(n) * len(s))
	return strings.Repeat(s, int(n)), nil
}

func (e *evaluator) comparison(n *compareNode) (any, error) {
	x, err := e.eval(n.x)
	if err != nil {
		return nil, err
	}
	for i, op := range n.ops {
		y, err := e.eval(n.ys[i])
		if err != nil {
			return nil, err
		}
		e.line = n.line
		holds := false
		switch op {
		case "==":
			holds = e.equal(x, y)
		case "!=":
			holds = !e.equal(x, y)
		case "in", "not in":
			in, err := e.contains(y, x)
			if err != nil {
				return nil, err
			}
			holds = in == (op == "in")
		default:
			c, ok := e.compare(x, y)
			if !ok {
				return nil, e.fail("a %s and a %s have no order", typeName(x), typeName(y))
			}
			holds = op == "<" && c < 0 || op == ">" && c > 0 || op == "<=" && c <= 0 || op == ">=" && c >= 0
		}
		if !holds {
			return false, nil
		}
		x = y
	}
	return true, nil
}

// arguments evaluates the arguments of a call.
func (e *evaluator) arguments(args []node, names []string, named []node) ([]any, *dict, error) {
	values := make([]any, len(args))
	for i, a := range args {
		v, err := e.eval(a)
		if err != nil {
			return nil, nil, err
		}
		values[i] = v
	}
	d := newDict()
	for i, a := range named {
		v, err := e.eval(a)
		if err != nil {
			return nil, nil, err
		}
		d.set(names[i], v)
	}
	return values, d, nil
}

// call calls a function or macro; caller is what a call block hands over, or nil.
func (e *evaluator) call(n *callExpr, caller *macro) (any, error) {
	f, err := e.eval(n.f)
	if err != nil {
		return nil, err
	}
	args, named, err := e.arguments(n.args, n.names, n.named)
	if err != nil {
		return nil, err
	}
	e.line = n.line
	switch f := f.(type) {
	case *function:
		return f.call(e, args, named)
	case *macro:
		return e.expand(f, args, named, caller)
	case undefined:
		return nil, e.fail("%s is undefined, and cannot be called", f.name)
	}
	return nil, e.fail("a %s cannot be called", typeName(f))
}

// expand calls a macro.
func (e *evaluator) expand(m *macro, args []any, named *dict, caller *macro) (any, error) {
	inner := &scope{parent: m.scope}
	if len(args) > len(m.params) {
		return nil, e.fail("macro %s takes %d arguments, got %d", m.name, len(m.params), len(args))
	}
	outer := e.scope
	defer func() { e.scope = outer }()
	e.scope = inner
	for i, p := range m.params {
		v, ok := named.values[p]
		switch d := i - (len(m.params) - len(m.defaults)); {
		case i < len(args):
			v = args[i]
		case ok:
		case d >= 0:
			var err error
			if v, err = e.eval(m.defaults[d]); err != nil {
				return nil, err
			}
		default:
			v = undefined{p}
		}
		inner.set(p, v)
	}
	if caller != nil {
		inner.set("caller", caller)
	}
	return e.capture(func() error { _, err := e.run(m.body); return err })
}
