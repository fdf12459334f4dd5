// Package chat renders the chat templates of models: it turns messages and tools into the text that a model was trained on.
//
// A template is Jinja, as transformers runs it: trim_blocks and lstrip_blocks, break and continue, the sandbox that forbids changes to
// what a template is given, and the globals raise_exception, strftime_now, namespace, range and dict, with tojson as transformers
// has it. What the language has and this package lacks (import, include, extends, recursive loops, rare filters) is refused by name.
//
// A template comes from a file, and is not trusted. Rendering is an interpreter's, which counts steps, bytes made and depth, so that no
// template hangs, exhausts memory or ends the process; it reaches neither files nor network.
//
// Invariants: a Template does not change, and may be used from any number of goroutines. The order of an object's members is kept.
//
// Source: Jinja 3.1's documentation and parser; transformers' utils/chat_template_utils.py.
package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds on one rendering.
const (
	maxSteps = 4 << 20
	maxBytes = 64 << 20
)

// Template is a chat template that has been read.
type Template struct{ nodes []node }

// Parse reads a template.
func Parse(source string) (*Template, error) {
	if len(source) > maxTemplate {
		return nil, fmt.Errorf("chat: a template has %d bytes, want at most %d", len(source), maxTemplate)
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	nodes, _, err := p.body()
	if err != nil {
		return nil, err
	}
	return &Template{nodes}, nil
}

// Input is what a template is rendered with. The JSON texts keep the order of their members; an empty one is left undefined, except
// that of Tools, which is none.
type Input struct {
	Messages            []byte            // a JSON list of messages
	Tools               []byte            // a JSON list of tools
	Documents           []byte            // a JSON list of documents
	AddGenerationPrompt bool              // ends with the beginning of the model's turn
	Tokens              map[string]string // bos_token, eos_token and others, by name
	Options             []byte            // a JSON object of more variables, such as enable_thinking
	Now                 time.Time         // what strftime_now tells; the zero value is 1970
}

// RaisedError is what a template says with raise_exception: the messages are not what the model takes.
type RaisedError struct{ Message string }

// Error returns the template's words.
func (e *RaisedError) Error() string { return "chat: the template refuses: " + e.Message }

// Render renders the template.
func (t *Template) Render(in Input) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(stop)
			if !ok {
				panic(r)
			}
			text, err = "", s.err
		}
	}()
	e := &evaluator{out: &strings.Builder{}, scope: &scope{parent: &scope{}}, steps: maxSteps, bytes: maxBytes, line: 1}
	if err := e.globals(e.scope.parent, in); err != nil {
		return "", err
	}
	if _, err := e.run(t.nodes); err != nil {
		return "", err
	}
	return e.out.String(), nil
}

// globals sets what every template sees.
func (e *evaluator) globals(s *scope, in Input) error {
	for name, v := range in.Tokens {
		s.set(name, v)
	}
	if len(in.Options) > 0 {
		v, err := parseJSON(in.Options)
		if err != nil {
			return err
		}
		d, ok := v.(*dict)
		if !ok {
			return errors.New("chat: options are not an object")
		}
		for _, k := range d.keys {
			s.set(k, d.values[k])
		}
	}
	for name, p := range map[string][]byte{"messages": in.Messages, "tools": in.Tools, "documents": in.Documents} {
		s.set(name, nil)
		if len(p) == 0 {
			continue
		}
		v, err := parseJSON(p)
		if err != nil {
			return fmt.Errorf("%w (%s)", err, name)
		}
		s.set(name, v)
	}
	s.set("add_generation_prompt", in.AddGenerationPrompt)
	s.set("raise_exception", &function{"raise_exception", func(e *evaluator, args []any, _ *dict) (any, error) {
		message := ""
		if len(args) > 0 {
			message = e.display(args[0])
		}
		return nil, &RaisedError{message}
	}})
	s.set("strftime_now", &function{"strftime_now", func(e *evaluator, args []any, _ *dict) (any, error) {
		f, err := textArg(e, args, 0)
		if err != nil {
			return nil, err
		}
		now := in.Now
		if now.IsZero() {
			now = time.Unix(0, 0).UTC()
		}
		e.grow(32 * len(f))
		return strftime(now, f), nil
	}})
	s.set("namespace", &function{"namespace", func(e *evaluator, args []any, named *dict) (any, error) {
		d := newDict()
		d.namespace = true
		if len(args) > 0 {
			if from, ok := args[0].(*dict); ok {
				for _, k := range from.keys {
					d.set(k, from.values[k])
				}
			}
		}
		for _, k := range named.keys {
			d.set(k, named.values[k])
		}
		return d, nil
	}})
	s.set("dict", &function{"dict", func(e *evaluator, args []any, named *dict) (any, error) {
		d := newDict()
		if len(args) > 0 {
			from, ok := args[0].(*dict)
			if !ok {
				return nil, e.fail("dict wants a mapping")
			}
			e.grow(48 * len(from.keys))
			for _, k := range from.keys {
				d.set(k, from.values[k])
			}
		}
		for _, k := range named.keys {
			d.set(k, named.values[k])
		}
		return d, nil
	}})
	s.set("range", &function{"range", rangeOf})
	return nil
}

// rangeOf is Python's range.
func rangeOf(e *evaluator, args []any, named *dict) (any, error) {
	if len(args) < 1 || len(args) > 3 {
		return nil, e.fail("range wants one to three numbers")
	}
	from, to, step := 0, 0, 1
	var err error
	if len(args) == 1 {
		to, err = intArg(e, args, 0, named, "stop", 0)
	} else {
		if from, err = intArg(e, args, 0, named, "start", 0); err == nil {
			if to, err = intArg(e, args, 1, named, "stop", 0); err == nil {
				step, err = intArg(e, args, 2, named, "step", 1)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if step == 0 {
		return nil, e.fail("range's step is 0")
	}
	n := 0
	if step > 0 && to > from {
		n = (to - from + step - 1) / step
	} else if step < 0 && to < from {
		n = (from - to - step - 1) / -step
	}
	e.spend(n)
	l := &list{items: make([]any, n)}
	for i := range l.items {
		l.items[i] = int64(from + i*step)
	}
	return l, nil
}
