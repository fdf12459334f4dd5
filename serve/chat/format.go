package chat

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// strftime is Python's, for the C locale.
func strftime(t time.Time, format string) string {
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'H': "15", 'I': "03", 'm': "01", 'M': "04", 'p': "PM", 'S': "05",
		'y': "06", 'Y': "2006", 'Z': "MST", 'z': "-0700", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'D': "01/02/06",
		'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'e': "_2", 'h': "Jan", 'f': "000000",
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		c := format[i]
		if c == '-' && i+1 < len(format) { // without zeros before
			i++
			s := strings.TrimLeft(strftime(t, "%"+format[i:i+1]), "0 ")
			if s == "" {
				s = "0"
			}
			b.WriteString(s)
			continue
		}
		switch layout, ok := layouts[c]; {
		case c == 'f':
			fmt.Fprintf(&b, "%06d", t.Nanosecond()/1000)
		case ok:
			b.WriteString(t.Format(layout))
		case c == 'j':
			fmt.Fprintf(&b, "%03d", t.YearDay())
		case c == 'w':
			b.WriteString(strconv.Itoa(int(t.Weekday())))
		case c == 'u':
			b.WriteString(strconv.Itoa((int(t.Weekday())+6)%7 + 1))
		case c == 'n':
			b.WriteByte('\n')
		case c == 't':
			b.WriteByte('\t')
		case c == '%':
			b.WriteByte('%')
		default:
			b.WriteByte('%')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// format is Python's % for texts, with %s, %d, %f, %x, their widths and precisions.
func (e *evaluator) format(s string, v any) (any, error) {
	args := []any{v}
	if l, ok := v.(*list); ok && l.tuple {
		args = l.items
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		end := i + 1
		for end < len(s) && strings.IndexByte("-+ #0123456789.", s[end]) >= 0 {
			end++
		}
		if end == len(s) || end-i > 8 {
			return nil, e.fail("a format is cut short")
		}
		verb, spec := s[end], s[i:end]
		i = end
		if verb == '%' {
			b.WriteByte('%')
			continue
		}
		if len(args) == 0 {
			return nil, e.fail("a format has more places than there are values")
		}
		x := args[0]
		args = args[1:]
		width, point, _ := strings.Cut(strings.TrimLeft(spec, "%-+ #0"), ".")
		for _, part := range []string{width, point} {
			n, _ := strconv.Atoi(part)
			e.grow(n)
		}
		f, n, isInt, ok := number(x)
		switch {
		case verb == 's':
			e.grow(len(e.display(x)))
			fmt.Fprintf(&b, spec+"s", e.display(x))
		case (verb == 'd' || verb == 'i') && ok:
			if !isInt {
				n = int64(f)
			}
			fmt.Fprintf(&b, spec+"d", n)
		case strings.IndexByte("feEgG", verb) >= 0 && ok:
			fmt.Fprintf(&b, spec+string(verb), f)
		case strings.IndexByte("xXo", verb) >= 0 && isInt:
			fmt.Fprintf(&b, spec+string(verb), n)
		default:
			return nil, e.fail("a format %%%c of a %s", verb, typeName(x))
		}
	}
	return e.text(b.String()), nil
}

// formatBraces is Python's format with {}, {0} and {name} alone.
func (e *evaluator) formatBraces(s string, args []any, named *dict) (any, error) {
	var b strings.Builder
	next := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '{' && strings.HasPrefix(s[i+1:], "{"), s[i] == '}' && strings.HasPrefix(s[i+1:], "}"):
			b.WriteByte(s[i])
			i++
		case s[i] == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return nil, e.fail("a format is cut short")
			}
			key := s[i+1 : i+end]
			i += end
			v, ok := named.values[key]
			if key == "" {
				key = strconv.Itoa(next)
				next++
			}
			if n, err := strconv.Atoi(key); err == nil && n >= 0 && n < len(args) {
				v, ok = args[n], true
			}
			if !ok {
				return nil, e.fail("a format's {%s} has no value, or asks for more than is supported", key)
			}
			t := e.display(v)
			e.grow(len(t))
			b.WriteString(t)
		default:
			b.WriteByte(s[i])
		}
	}
	return e.text(b.String()), nil
}
