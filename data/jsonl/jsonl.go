// Package jsonl reads one field of strings of a file of JSON lines, line by line, in memory that does not depend on the lines.
//
// A line is an object (RFC 8259), and the field's string is handed out as a reader that decodes it as it is read, so a line may be of any
// length: what is held is a buffer of 64 KiB and a byte for each level of nesting, 512 at most.
//
// Lines without anything are passed over, and so are those whose field is null. A line that is no object, that has not the field or has
// it twice, or whose field is no string, is an error; so is anything that encoding/json would not take. Half a surrogate pair reads
// as U+FFFD, as there. What is not UTF-8 is handed out as it is: whether texts are UTF-8 is the caller's to ask.
//
// The package does not hold documents, convert other values to text, or know chats.
package jsonl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	bufferBytes = 64 << 10
	maxDepth    = 512 // of arrays and objects inside each other
	maxName     = 256 // bytes of a field's name that are kept
	maxNames    = 20  // names that an error lists
)

// Reader is the field of each line of a file. Its methods are for one goroutine.
type Reader struct {
	r     *bufio.Reader
	field string
	line  int64

	open  bool // the value has not been read to its end
	rest  bool // the line has not
	name  []byte
	stack []byte
	lead  [utf8.UTFMax]byte // bytes of an escape that have not been handed out
	nlead int
	value value
}

// New returns a reader of a field.
func New(r io.Reader, field string) *Reader {
	j := &Reader{r: bufio.NewReaderSize(r, bufferBytes), field: field}
	j.value.r = j
	return j
}

// Line is the number of the line that Next has looked at last; the first is 1.
func (j *Reader) Line() int64 { return j.line }

// FieldError says that a line has not the field, or not as a string.
type FieldError struct {
	Name string
	Have []string // names that the line has, the first of them
	Why  string   // what is wrong with the field, if it is there
}

// Error returns one line.
func (e *FieldError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("field %q %s", e.Name, e.Why)
	}
	if len(e.Have) == 0 {
		return fmt.Sprintf("there is no field %q: it has none", e.Name)
	}
	return fmt.Sprintf("there is no field %q: its fields are %s", e.Name, strings.Join(e.Have, ", "))
}

// Next goes to the next line whose field is a string and returns that, to be read until the next call. After the last it returns io.EOF.
func (j *Reader) Next() (io.Reader, error) {
	if j.open {
		if _, err := io.Copy(io.Discard, &j.value); err != nil {
			return nil, err
		}
	}
	for {
		if j.rest {
			found, err := j.fields(nil, true)
			if err != nil {
				return nil, err
			}
			if found {
				return nil, &FieldError{Name: j.field, Why: "is there twice"}
			}
			if err := j.end(); err != nil {
				return nil, err
			}
		}
		b, err := j.begin()
		if err != nil {
			return nil, err
		}
		if b != '{' {
			return nil, fmt.Errorf("want an object, got %q", b)
		}
		var have []string
		found, err := j.fields(&have, false)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, &FieldError{Name: j.field, Have: have}
		}
		j.rest = true
		b, err = j.token()
		if err != nil {
			return nil, err
		}
		if b == '"' {
			j.open = true
			return &j.value, nil
		}
		if err := j.skip(b); err != nil {
			return nil, err
		}
		if b != 'n' {
			return nil, &FieldError{Name: j.field, Why: "is " + kind(b) + ", want a string"}
		}
	}
}

// kind names the value that begins with b.
func kind(b byte) string {
	switch b {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a truth value"
	}
	return "a number"
}

var errCut = errors.New("the line ends inside an object")

// begin goes to the first byte of the next line that has any.
func (j *Reader) begin() (byte, error) {
	j.line++
	if j.line == 1 { // Windows writes a mark at the beginning
		if p, err := j.r.Peek(3); err == nil && string(p) == "\ufeff" {
			j.r.Discard(3) // they are there
		}
	}
	for {
		b, err := j.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch b {
		case '\n':
			j.line++
		case ' ', '\t', '\r':
		default:
			return b, nil
		}
	}
}

// end wants the end of a line, or of the file.
func (j *Reader) end() error {
	j.rest = false
	for {
		b, err := j.r.ReadByte()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		switch {
		case err != nil, b == '\n':
			return nil
		case b == ' ', b == '\t', b == '\r':
		default:
			return fmt.Errorf("%q follows the object", b)
		}
	}
}

// byte reads a byte inside an object.
func (j *Reader) byte() (byte, error) {
	b, err := j.r.ReadByte()
	if errors.Is(err, io.EOF) || err == nil && b == '\n' {
		return 0, errCut
	}
	return b, err
}

// token reads the next byte inside an object that is no space.
func (j *Reader) token() (byte, error) {
	for {
		b, err := j.byte()
		if err != nil || b != ' ' && b != '\t' && b != '\r' {
			return b, err
		}
	}
}

// fields goes through the fields of an object, behind its brace or, if after, behind a value of its, until it has read the name of
// the wanted one and its colon, or else the object's end. It lists the names of the others in have, if that is given.
func (j *Reader) fields(have *[]string, after bool) (bool, error) {
	for first := !after; ; first = false {
		b, err := j.token()
		if err != nil {
			return false, err
		}
		if b == '}' {
			return false, nil
		}
		if !first {
			if b != ',' {
				return false, fmt.Errorf("want a comma between fields, got %q", b)
			}
			if b, err = j.token(); err != nil {
				return false, err
			}
		}
		if b != '"' {
			return false, fmt.Errorf("want the name of a field, got %q", b)
		}
		if err := j.fieldName(); err != nil {
			return false, err
		}
		if b, err = j.token(); err != nil {
			return false, err
		}
		if b != ':' {
			return false, fmt.Errorf("want a colon behind the name of a field, got %q", b)
		}
		if string(j.name) == j.field {
			return true, nil
		}
		if have != nil && len(*have) < maxNames {
			*have = append(*have, fmt.Sprintf("%.40q", j.name))
		}
		if b, err = j.token(); err != nil {
			return false, err
		}
		if err := j.skip(b); err != nil {
			return false, err
		}
	}
}

// fieldName reads a name to its end; of a long one, more than what can be wanted.
func (j *Reader) fieldName() error {
	j.name = j.name[:0]
	for {
		p, err := j.text(maxName)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(j.name) <= max(len(j.field), maxName) {
			j.name = append(j.name, p...)
		}
	}
}

// text decodes up to n bytes, four at least, of a string, or returns io.EOF behind its closing quote. What it returns is valid until the
// next read.
func (j *Reader) text(n int) ([]byte, error) {
	if _, err := j.r.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			err = errCut
		}
		return nil, err
	}
	p, _ := j.r.Peek(min(j.r.Buffered(), max(n, 1))) // they are there
	i := 0
	for i < len(p) && p[i] != '"' && p[i] != '\\' && p[i] >= ' ' {
		i++
	}
	if i > 0 {
		j.r.Discard(i) // they are there
		return p[:i], nil
	}
	b, err := j.byte()
	switch {
	case err != nil:
		return nil, err
	case b == '"':
		return nil, io.EOF
	case b < ' ':
		return nil, fmt.Errorf("a string holds the control character %q, which has to be escaped", b)
	}
	c, err := j.escape()
	if err != nil {
		return nil, err
	}
	return utf8.AppendRune(j.lead[:0], c), nil
}

// escape reads what follows a backslash.
func (j *Reader) escape() (rune, error) {
	b, err := j.byte()
	if err != nil {
		return 0, err
	}
	switch b {
	case '"', '\\', '/':
		return rune(b), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
	default:
		return 0, fmt.Errorf("a string holds the escape \\%c, which JSON has not", b)
	}
	c, err := j.hex()
	if err != nil || !utf16.IsSurrogate(c) {
		return c, err
	}
	next, err := j.r.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if len(next) == 6 && next[0] == '\\' && next[1] == 'u' {
		if low, ok := hex4(next[2:]); ok {
			if both := utf16.DecodeRune(c, low); both != utf8.RuneError {
				j.r.Discard(6) // they are there
				return both, nil
			}
		}
	}
	return utf8.RuneError, nil
}

// hex reads the four digits of a \u.
func (j *Reader) hex() (rune, error) {
	var p [4]byte
	for i := range p {
		b, err := j.byte()
		if err != nil {
			return 0, err
		}
		p[i] = b
	}
	c, ok := hex4(p[:])
	if !ok {
		return 0, fmt.Errorf("a string holds \\u%s, want four hexadecimal digits", p)
	}
	return c, nil
}

func hex4(p []byte) (c rune, ok bool) {
	for _, b := range p[:4] {
		switch {
		case '0' <= b && b <= '9':
			b -= '0'
		case 'a' <= b && b <= 'f':
			b -= 'a' - 10
		case 'A' <= b && b <= 'F':
			b -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(b)
	}
	return c, true
}

// value is the wanted string of the present line.
type value struct{ r *Reader }

// Read implements io.Reader.
func (v *value) Read(p []byte) (int, error) {
	j := v.r
	if !j.open {
		return 0, io.EOF
	}
	if j.nlead > 0 {
		n := copy(p, j.lead[:j.nlead])
		j.nlead = copy(j.lead[:], j.lead[n:j.nlead])
		return n, nil
	}
	if len(p) == 0 {
		return 0, nil
	}
	s, err := j.text(len(p))
	if errors.Is(err, io.EOF) {
		j.open = false
		return 0, io.EOF
	}
	if err != nil {
		return 0, err
	}
	n := copy(p, s)
	j.nlead = copy(j.lead[:], s[n:]) // of an escape: the rest is no longer than a character
	return n, nil
}
