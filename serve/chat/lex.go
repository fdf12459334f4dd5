package chat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind is the kind of a token.
type kind uint8

const (
	textToken  kind = iota // text outside tags
	outBegin               // {{
	outEnd                 // }}
	blockBegin             // {%
	blockEnd               // %}
	nameToken
	stringToken
	intToken
	floatToken
	operator
	endToken
)

// token is one token of a template.
type token struct {
	kind kind
	text string
	line int
}

// errorAt is an error of a template, with its line.
func errorAt(line int, format string, args ...any) error {
	return fmt.Errorf("chat: template line %d: %s", line, fmt.Sprintf(format, args...))
}

// lexer cuts a template into tokens, with the settings of transformers: a line feed after a block tag goes, and so do the spaces
// before one on its line.
type lexer struct {
	src  string
	pos  int
	line int
	out  []token
}

// lex returns the tokens of a template, the last of which is endToken.
func lex(src string) ([]token, error) {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	src = strings.TrimSuffix(src, "\n") // keep_trailing_newline is off
	l := &lexer{src: src, line: 1}
	trim := false // the tag before ended in a minus
	after := false
	for l.pos < len(src) {
		text, tag := src[l.pos:], -1
		for at := 0; ; {
			i := strings.IndexByte(text[at:], '{')
			if i < 0 || at+i+1 >= len(text) {
				break
			}
			if at += i; strings.IndexByte("{%#", text[at+1]) >= 0 {
				tag = at
				break
			}
			at++
		}
		if tag >= 0 {
			text = text[:tag]
		}
		start := l.pos
		l.pos += len(text)
		raw := text
		if after && strings.HasPrefix(text, "\n") && !trim {
			text = text[1:]
		}
		if trim {
			text = strings.TrimLeft(text, " \t\n\v\f\r")
		}
		sign, isBlock := byte(0), false
		if tag >= 0 {
			isBlock = src[l.pos+1] != '{'
			if l.pos+2 < len(src) {
				sign = src[l.pos+2]
			}
		}
		switch {
		case sign == '-':
			text = strings.TrimRight(text, " \t\n\v\f\r")
		case isBlock && sign != '+':
			cut := strings.TrimRight(text, " \t\v\f")
			if cut == "" && (start == 0 || strings.HasSuffix(src[:start], "\n") || strings.HasPrefix(raw, "\n") && after) || strings.HasSuffix(cut, "\n") {
				text = cut
			}
		}
		if text != "" {
			l.out = append(l.out, token{textToken, text, l.line})
		}
		l.line += strings.Count(raw, "\n")
		if tag < 0 {
			break
		}
		var err error
		if trim, after, err = l.tag(); err != nil {
			return nil, err
		}
	}
	l.out = append(l.out, token{endToken, "", l.line})
	return l.out, nil
}

// tag reads a tag or comment. It returns whether white space after it goes, and whether it may be followed by a line feed that goes.
func (l *lexer) tag() (trim, after bool, err error) {
	open := l.src[l.pos : l.pos+2]
	from := l.line
	l.pos += 2
	if open == "{#" {
		end := strings.Index(l.src[l.pos:], "#}")
		if end < 0 {
			return false, false, errorAt(from, "a comment does not end")
		}
		body := l.src[l.pos : l.pos+end]
		l.line += strings.Count(body, "\n")
		l.pos += end + 2
		return strings.HasSuffix(body, "-"), !strings.HasSuffix(body, "+"), nil
	}
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
		l.pos++
	}
	begin, end, closing := outBegin, outEnd, "}}"
	if open == "{%" {
		begin, end, closing = blockBegin, blockEnd, "%}"
	}
	if open == "{%" {
		if done, err := l.raw(); done || err != nil {
			return l.src[l.pos-3] == '-', true, err
		}
	}
	l.out = append(l.out, token{begin, open, l.line})
	depth := 0
	for {
		for l.pos < len(l.src) && strings.IndexByte(" \t\n\v\f\r", l.src[l.pos]) >= 0 {
			if l.src[l.pos] == '\n' {
				l.line++
			}
			l.pos++
		}
		rest := l.src[l.pos:]
		if rest == "" {
			return false, false, errorAt(from, "a tag does not end")
		}
		if depth == 0 {
			if (rest[0] == '-' || rest[0] == '+') && strings.HasPrefix(rest[1:], closing) {
				l.pos += 3
				l.out = append(l.out, token{end, closing, l.line})
				return rest[0] == '-', open == "{%" && rest[0] != '+', nil
			}
			if strings.HasPrefix(rest, closing) {
				l.pos += 2
				l.out = append(l.out, token{end, closing, l.line})
				return false, open == "{%", nil
			}
		}
		t, err := l.token(rest)
		if err != nil {
			return false, false, err
		}
		switch t.text {
		case "(", "[", "{":
			if t.kind == operator {
				depth++
			}
		case ")", "]", "}":
			if t.kind == operator {
				depth--
			}
		}
		l.out = append(l.out, t)
	}
}

// raw reads a raw block, if one begins here.
func (l *lexer) raw() (bool, error) {
	rest := l.src[l.pos:]
	body := strings.TrimLeft(rest, " \t\n")
	if !strings.HasPrefix(body, "raw") {
		return false, nil
	}
	body = strings.TrimLeft(body[3:], " \t\n")
	trim := strings.HasPrefix(body, "-")
	body = strings.TrimPrefix(body, "-")
	if !strings.HasPrefix(body, "%}") {
		return false, nil
	}
	body = body[2:]
	if trim {
		body = strings.TrimLeft(body, " \t\n\v\f\r")
	} else {
		body = strings.TrimPrefix(body, "\n")
	}
	for at := 0; ; {
		i := strings.Index(body[at:], "{%")
		if i < 0 {
			return false, errorAt(l.line, "a raw block does not end")
		}
		at += i
		tag := strings.TrimLeft(strings.TrimLeft(body[at+2:], "-+"), " \t\n")
		if !strings.HasPrefix(tag, "endraw") {
			at += 2
			continue
		}
		tag = strings.TrimLeft(strings.TrimLeft(tag[6:], " \t\n"), "-+")
		if !strings.HasPrefix(tag, "%}") {
			at += 2
			continue
		}
		text := body[:at]
		if strings.HasPrefix(body[at+2:], "-") {
			text = strings.TrimRight(text, " \t\n\v\f\r")
		} else if cut := strings.TrimRight(text, " \t\v\f"); strings.HasSuffix(cut, "\n") {
			text = cut
		}
		l.out = append(l.out, token{textToken, text, l.line})
		end := len(l.src) - len(tag) + 2
		l.line += strings.Count(l.src[l.pos:end], "\n")
		l.pos = end
		return true, nil
	}
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= utf8.RuneSelf
}

// token reads a token inside a tag.
func (l *lexer) token(rest string) (token, error) {
	c := rest[0]
	switch {
	case c == '\'' || c == '"':
		return l.quoted(rest)
	case c >= '0' && c <= '9':
		n := 1
		k := intToken
		for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '_') {
			n++
		}
		if n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
			k = floatToken
			for n++; n < len(rest) && rest[n] >= '0' && rest[n] <= '9'; n++ {
			}
		}
		if n+1 < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
			m := n + 1
			if rest[m] == '+' || rest[m] == '-' {
				m++
			}
			if m < len(rest) && rest[m] >= '0' && rest[m] <= '9' {
				k = floatToken
				for n = m; n < len(rest) && rest[n] >= '0' && rest[n] <= '9'; n++ {
				}
			}
		}
		l.pos += n
		return token{k, strings.ReplaceAll(rest[:n], "_", ""), l.line}, nil
	case isNameByte(c):
		n := 1
		for n < len(rest) && isNameByte(rest[n]) {
			n++
		}
		l.pos += n
		return token{nameToken, rest[:n], l.line}, nil
	}
	for _, op := range []string{"**", "//", "==", "!=", "<=", ">="} {
		if strings.HasPrefix(rest, op) {
			l.pos += 2
			return token{operator, op, l.line}, nil
		}
	}
	if strings.IndexByte("+-*/%~<>=()[]{}.,:|", c) < 0 {
		return token{}, errorAt(l.line, "unexpected %q", c)
	}
	l.pos++
	return token{operator, rest[:1], l.line}, nil
}

// quoted reads a string, with the escapes of Python.
func (l *lexer) quoted(rest string) (token, error) {
	var b strings.Builder
	line := l.line
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == rest[0]:
			l.pos += i + 1
			return token{stringToken, b.String(), line}, nil
		case c == '\\' && i+1 < len(rest):
			i++
			digits := 0
			switch rest[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case 'b':
				b.WriteByte('\b')
			case 'f':
				b.WriteByte('\f')
			case 'v':
				b.WriteByte('\v')
			case 'a':
				b.WriteByte('\a')
			case '0':
				b.WriteByte(0)
			case '\\', '\'', '"':
				b.WriteByte(rest[i])
			case '\n':
				l.line++
			case 'x':
				digits = 2
			case 'u':
				digits = 4
			case 'U':
				digits = 8
			default:
				b.WriteByte('\\')
				b.WriteByte(rest[i])
			}
			if digits > 0 {
				if i+digits >= len(rest) {
					return token{}, errorAt(line, "a string does not end")
				}
				r, err := strconv.ParseUint(rest[i+1:i+1+digits], 16, 32)
				if err != nil || r > utf8.MaxRune {
					return token{}, errorAt(line, "\\%c needs %d hexadecimal digits", rest[i], digits)
				}
				b.WriteRune(rune(r))
				i += digits
			}
		default:
			if c == '\n' {
				l.line++
			}
			b.WriteByte(c)
		}
	}
	return token{}, errorAt(line, "a string does not end")
}
