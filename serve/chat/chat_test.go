package chat

import (
	"errors"
	"strings"
	"testing"

	"loadline/internal/bounded"
)

// hostile are templates that would take forever, or all memory, or the stack.
var hostile = map[string]string{
	"endless loops":    "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}{% endfor %}",
	"a huge range":     "{{ range(10000000000) | length }}{{ range(60000000) | length }}",
	"doubling":         "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
	"doubling a list":  "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
	"repetition":       "{{ 'abcdefgh' * 1000000000 }}",
	"recursion":        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
	"a wide format":    "{{ '%999999d' | format(1) }}{{ '%9999999999d' | format(1) }}",
	"indent":           "{{ 'a\nb' | indent(1000000000) }}",
	"zfill":            "{{ 'a'.zfill(1000000000) }}",
	"replace":          "{% set s = 'a' * 1000000 %}{{ s.replace('a', s) }}",
	"deep parentheses": "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}",
	"deep lists":       "{{ " + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + " }}",
	"deep blocks":      strings.Repeat("{% if true %}", 10000),
	"deep negation":    "{{ " + strings.Repeat("not ", 100000) + "1 }}",
	"minus":            "{{ " + strings.Repeat("-", 100000) + "1 }}",
	"many members":     "{{ a" + strings.Repeat(".b", 100000) + " }}",
	"many sums":        "{{ 1" + strings.Repeat("+1", 100000) + " }}",
	"choices":          "{{ " + strings.Repeat("1 if 1 else ", 100000) + "1 }}",
	"a list in itself": "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}{{ ns | tojson }}{{ ns == ns }}",
	"itself compared":  "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns == ns }}",
	"deep compared":    "{% set ns = namespace() %}{% set ns.a = namespace() %}{% for i in range(100000) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a == ns.a }}",
	"searches":         "{% set s = 'a' * 10000000 %}{% for i in range(1000000) %}{{ 'b' in s }}{% endfor %}",
	"comparisons":      "{% set s = 'a' * 10000000 %}{% for i in range(1000000) %}{{ s == s }}{% endfor %}",
	"unique":           "{{ range(100000) | unique | list }}",
	"cutting":          "{% set s = 'a ' * 1000000 %}{% for i in range(10000) %}{% set x = s.split() %}{% endfor %}",
}

func TestHostileTemplates(t *testing.T) {
	for name, source := range hostile {
		var err error
		bounded.Run(t, len(source), 4*maxBytes+256*maxSteps, 1024, func() {
			var tpl *Template
			if tpl, err = Parse(source); err == nil {
				_, err = tpl.Render(Input{Messages: []byte(`[]`)})
			}
		})
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want an error of one line", name, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for source, want := range map[string]string{
		"{{ 1":                             "a tag does not end",
		"{% for x in y %}":                 `it ends without "endfor"`,
		"{% include 'x' %}":                `the statement "include" is not supported`,
		"a\nb\n{% if %}":                   "line 3",
		"{# no end":                        "a comment does not end",
		"{{ 'no end }}":                    "a string does not end",
		"{{ a b }}":                        `got "b", want "}}"`,
		"{% endif %}":                      `the statement "endif" is not supported`,
		"{{ 99999999999999999999 }}":       "is too large",
		"{{ a[1:2:3:4] }}":                 "a slice has more than three parts",
		strings.Repeat("x", maxTemplate+1): "a template has 1048577 bytes, want at most 1048576",
	} {
		if _, err := Parse(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want an error with %q", source, err, want)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for source, want := range map[string]string{
		"{{ x.y }}":                "x is undefined, and so has no y",
		"{{ x() }}":                "x is undefined, and cannot be called",
		"{{ 1 / 0 }}":              "division by zero",
		"{{ 1 + 'a' }}":            "+ of a int and a text",
		"{{ [1] < ['a'] }}":        "have no order",
		"{{ 1 | nonsense }}":       `the filter "nonsense" is not supported`,
		"{{ 1 is nonsense }}":      `the test "nonsense" is not supported`,
		"{% set messages.x = 1 %}": "messages is no namespace",
		"{{ messages.append(1) }}": "append would change what the template is given",
		"{% for a, b in [(1, 2, 3)] %}{% endfor %}": "2 names for 3 values",
		"{{ 3037000500 * 3037000500 }}":             "a number is too large",
		"{% for i in range(10**9) %}x{% endfor %}":  "argument stop is 1000000000, want at most 67108864",
		"{{ range(1.5) }}":                          "argument stop is no whole number",
	} {
		tpl, err := Parse(source)
		if err != nil {
			t.Errorf("%q: %v", source, err)
			continue
		}
		if _, err := tpl.Render(Input{Messages: []byte(`[]`)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", source, err, want)
		}
	}
	tpl, err := Parse("{{ raise_exception('only two') }}")
	if err != nil {
		t.Fatal(err)
	}
	var raised *RaisedError
	if _, err := tpl.Render(Input{}); !errors.As(err, &raised) || raised.Message != "only two" {
		t.Errorf("got %v, want what the template says", err)
	}
	for _, in := range []Input{{Messages: []byte("[")}, {Tools: []byte("[1] 2")}, {Options: []byte("[]")}, {Messages: []byte("\"\xff\"")}} {
		if _, err := tpl.Render(in); err == nil || errors.As(err, &raised) {
			t.Errorf("%+v: got %v, want an error about the input", in, err)
		}
	}
}

// FuzzTemplate: no template and no input does more than fail.
func FuzzTemplate(f *testing.F) {
	for _, s := range hostile {
		if len(s) < 1000 {
			f.Add(s, `[{"role":"user","content":"x"}]`)
		}
	}
	for _, t := range readGolden(f).Templates {
		if len(t.Template) < 3000 {
			f.Add(t.Template, `[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[]}]`)
		}
	}
	f.Fuzz(func(t *testing.T, source, messages string) {
		var tpl *Template
		var err error
		bounded.Run(t, len(source), 1<<20, 1024, func() { tpl, err = Parse(source) })
		if err != nil {
			return
		}
		var text string
		bounded.Run(t, len(source), 4*maxBytes+256*maxSteps, 1024, func() { // most of it garbage, step by step
			text, err = tpl.Render(Input{Messages: []byte(messages), AddGenerationPrompt: true, Tokens: map[string]string{"bos_token": "<s>"}})
		})
		if len(text) > maxBytes || err != nil && text != "" {
			t.Fatalf("got %d bytes and %v", len(text), err)
		}
	})
}
