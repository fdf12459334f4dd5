package chat

import (
	"fmt"
	"strings"
)

// scope is the names that are set at a place.
type scope struct {
	names  map[string]any
	parent *scope
}

func (s *scope) get(name string) (any, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.names[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (s *scope) set(name string, v any) {
	if s.names == nil {
		s.names = map[string]any{}
	}
	s.names[name] = v
}

// macro is a macro with the scope that it was written in.
type macro struct {
	*macroNode
	scope *scope
}

// evaluator is one rendering. Whoever runs out of steps or bytes ends it by a panic with a stop, which Render recovers.
type evaluator struct {
	out   *strings.Builder
	scope *scope
	line  int
	depth int
	steps int // that may still be taken
	bytes int // that may still be made
}

// stop is the panic of a rendering that passes its bounds.
type stop struct{ err error }

// spend takes steps.
func (e *evaluator) spend(n int) {
	if e.steps -= n; e.steps < 0 {
		panic(stop{fmt.Errorf("chat: template line %d: rendering takes more than %d steps", e.line, maxSteps)})
	}
}

// grow takes bytes.
func (e *evaluator) grow(n int) {
	if e.bytes -= n; e.bytes < 0 || n < 0 {
		panic(stop{fmt.Errorf("chat: template line %d: rendering makes more than %d MiB", e.line, maxBytes>>20)})
	}
	e.spend(1 + n/64)
}

func (e *evaluator) fail(format string, args ...any) error { return errorAt(e.line, format, args...) }

// text makes a string that a template made, which counts.
func (e *evaluator) text(s string) string {
	e.grow(len(s))
	return s
}

// write prints a value.
func (e *evaluator) write(v any) {
	s, ok := v.(string)
	if !ok {
		s = e.display(v)
	}
	e.grow(len(s))
	e.out.WriteString(s)
}

// display is Python's str, within bounds.
func (e *evaluator) display(v any) string {
	switch v := plain(v).(type) {
	case string:
		return v
	case *list, *dict:
		e.grow(e.weigh(v, 0))
	}
	var b strings.Builder
	display(&b, v, 0)
	return b.String()
}

// weigh bounds the length of a value's text, before it is made.
func (e *evaluator) weigh(v any, depth int) int {
	e.spend(1)
	if depth > maxDepth {
		return 8
	}
	n := 32
	switch v := v.(type) {
	case string:
		n += 6 * len(v)
	case *list:
		for _, x := range v.items {
			n += e.weigh(x, depth+1)
		}
	case *dict:
		for _, k := range v.keys {
			n += 6*len(k) + e.weigh(v.values[k], depth+1)
		}
	}
	if n > maxBytes {
		e.grow(n)
	}
	return n
}

// jump is how a body ends early.
type jump uint8

const (
	goOn jump = iota
	breaks
	continues
)

func (e *evaluator) run(nodes []node) (jump, error) {
	if e.depth++; e.depth > maxDepth {
		return goOn, e.fail("it is nested deeper than %d", maxDepth)
	}
	defer func() { e.depth-- }()
	for _, n := range nodes {
		j, err := e.statement(n)
		if err != nil || j != goOn {
			return j, err
		}
	}
	return goOn, nil
}

func (e *evaluator) statement(n node) (jump, error) {
	e.spend(1)
	switch n := n.(type) {
	case *textNode:
		e.write(n.text)
	case *printNode:
		e.line = n.line
		v, err := e.eval(n.x)
		if err != nil {
			return goOn, err
		}
		e.write(v)
	case *ifNode:
		e.line = n.line
		for i, body := range n.body {
			if i < len(n.tests) {
				v, err := e.eval(n.tests[i])
				if err != nil {
					return goOn, err
				}
				if !truth(v) {
					continue
				}
			}
			return e.run(body)
		}
	case *forNode:
		return e.loop(n)
	case *setNode:
		return goOn, e.assign(n)
	case *macroNode:
		e.scope.set(n.name, &macro{n, e.scope})
	case *callNode:
		e.line = n.line
		c := n.call.(*callExpr)
		v, err := e.call(c, &macro{n.body, e.scope})
		if err != nil {
			return goOn, err
		}
		e.write(v)
	case *filterNode:
		s, err := e.capture(func() error { _, err := e.run(n.body); return err })
		if err != nil {
			return goOn, err
		}
		v, err := e.chain(s, n.filters)
		if err != nil {
			return goOn, err
		}
		e.write(v)
	case *scopeNode:
		inner := &scope{parent: e.scope}
		for i, x := range n.values {
			v, err := e.eval(x)
			if err != nil {
				return goOn, err
			}
			inner.set(n.names[i], v)
		}
		if len(n.names) > 0 {
			defer func(s *scope) { e.scope = s }(e.scope)
			e.scope = inner
		}
		return e.run(n.body)
	case *breakNode:
		return breaks, nil
	case *continueNode:
		return continues, nil
	}
	return goOn, nil
}

// capture returns what f prints.
func (e *evaluator) capture(f func() error) (string, error) {
	defer func(b *strings.Builder) { e.out = b }(e.out)
	var b strings.Builder
	e.out = &b
	err := f()
	return b.String(), err
}

func (e *evaluator) assign(n *setNode) error {
	e.line = n.line
	var v any
	var err error
	if n.x != nil {
		v, err = e.eval(n.x)
	} else {
		var s string
		if s, err = e.capture(func() error { _, err := e.run(n.body); return err }); err == nil {
			v, err = e.chain(s, n.filters)
		}
	}
	if err != nil {
		return err
	}
	if n.member != "" {
		ns, _ := e.scope.get(n.targets[0])
		d, ok := ns.(*dict)
		if !ok || !d.namespace {
			return e.fail("%s is no namespace", n.targets[0])
		}
		e.grow(32)
		d.set(n.member, v)
		return nil
	}
	return e.bind(e.scope, n.targets, v)
}

// bind sets a name, or several to the elements of a value.
func (e *evaluator) bind(s *scope, targets []string, v any) error {
	if len(targets) == 1 {
		s.set(targets[0], v)
		return nil
	}
	items, err := e.iterate(v)
	if err != nil {
		return err
	}
	if len(items) != len(targets) {
		return e.fail("%d names for %d values", len(targets), len(items))
	}
	for i, t := range targets {
		s.set(t, items[i])
	}
	return nil
}

// loopState is the variable loop.
type loopState struct {
	items   []any
	at      int
	depth   int
	changed []any
}

func (l *loopState) get(name string) (any, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.at + 1), true
	case "index0":
		return int64(l.at), true
	case "revindex":
		return int64(n - l.at), true
	case "revindex0":
		return int64(n - l.at - 1), true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth), true
	case "depth0":
		return int64(l.depth - 1), true
	case "previtem":
		if l.at > 0 {
			return l.items[l.at-1], true
		}
		return undefined{"previtem"}, true
	case "nextitem":
		if l.at+1 < n {
			return l.items[l.at+1], true
		}
		return undefined{"nextitem"}, true
	case "cycle":
		return &function{"cycle", func(e *evaluator, args []any, _ *dict) (any, error) {
			if len(args) == 0 {
				return nil, e.fail("cycle wants values")
			}
			return args[l.at%len(args)], nil
		}}, true
	case "changed":
		return &function{"changed", func(e *evaluator, args []any, _ *dict) (any, error) {
			same := l.changed != nil && e.equal(&list{items: l.changed}, &list{items: args})
			l.changed = append(make([]any, 0, len(args)+1), args...)
			return !same, nil
		}}, true
	}
	return nil, false
}

func (e *evaluator) loop(n *forNode) (jump, error) {
	e.line = n.line
	v, err := e.eval(n.over)
	if err != nil {
		return goOn, err
	}
	items, err := e.iterate(v)
	if err != nil {
		return goOn, err
	}
	outer := e.scope
	defer func() { e.scope = outer }()
	if n.filter != nil {
		var kept []any
		for _, x := range items {
			e.spend(1)
			e.scope = &scope{parent: outer}
			if err := e.bind(e.scope, n.targets, x); err != nil {
				return goOn, err
			}
			ok, err := e.eval(n.filter)
			if err != nil {
				return goOn, err
			}
			if truth(ok) {
				e.grow(16)
				kept = append(kept, x)
			}
		}
		items = kept
	}
	state := &loopState{items: items, depth: 1}
	if up, ok := outer.get("loop"); ok {
		if l, ok := up.(*loopState); ok {
			state.depth = l.depth + 1
		}
	}
	for i, x := range items {
		e.spend(1)
		state.at = i
		e.scope = &scope{parent: outer}
		e.scope.set("loop", state)
		if err := e.bind(e.scope, n.targets, x); err != nil {
			return goOn, err
		}
		j, err := e.run(n.body)
		if err != nil {
			return goOn, err
		}
		if j == breaks {
			break
		}
	}
	e.scope = outer
	if len(items) == 0 {
		return e.run(n.other)
	}
	return goOn, nil
}
