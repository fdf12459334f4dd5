package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"loadline/data/jsonl"
	"loadline/data/parquet"
	"loadline/internal/regular"
	"loadline/model/tokenizer"
)

// DefaultField is the field or column that holds a document where none is named.
const DefaultField = "text"

// Format is how a file holds documents.
type Format int

// The formats.
const (
	Text    Format = iota // one document, in which the text of tokenizer.EndOfText separates what the writer wants separate
	JSONL                 // an object a line, one field of which is a document
	Parquet               // a row a document, in one column
)

// String names a format.
func (f Format) String() string { return [...]string{"text", "JSON lines", "Parquet"}[f] }

// FileError says what is wrong with a file of documents, and what to do.
type FileError struct {
	Path  string
	Where string // the line or row, if it is about one
	Err   error
	Do    string // advice, one line
}

// Error returns one line.
func (e *FileError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("data: %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("data: %s: %s: %v", e.Path, e.Where, e.Err)
}

// Unwrap returns what is wrong.
func (e *FileError) Unwrap() error { return e.Err }

// Advice returns one line: what to do.
func (e *FileError) Advice() string { return e.Do }

// Documents are the texts of a file, one after another. Its methods are for one goroutine.
type Documents struct {
	path   string
	format Format
	field  string
	f      *os.File
	bytes  int64      // of f, when it was opened
	src    *stoppable // reads f
	lines  *jsonl.Reader
	rows   *parquet.Reader
	whole  io.Reader // of Text, until it has been handed out
	text   document
}

// foreign are the first bytes of files that people name by mistake, what those are, and what to do.
var foreign = []struct{ magic, what, do string }{
	{"\x1f\x8b", "compressed with gzip", "decompress it: gunzip FILE"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd", "decompress it: unzstd FILE"},
	{"\xfd7zXZ\x00", "compressed with xz", "decompress it: unxz FILE"},
	{"BZh", "compressed with bzip2", "decompress it: bunzip2 FILE"},
	{"PK\x03\x04", "a zip archive", "unpack it, and name what is inside"},
	{"ARROW1\x00\x00", "an Arrow file", "write it as Parquet"},
	{"GGUF", "a model in GGUF", "name a text; --model takes models"},
	{fileMagic, "a token file", "name the text that it was made from"},
}

// OpenDocuments opens a file and finds out what it is: Parquet by its first bytes, JSON lines by its name (.jsonl, .ndjson, .json), and
// text otherwise. field is the field or column; empty is DefaultField, and with a name, a text is refused. Reading fails
// once ctx is done. The caller closes it.
func OpenDocuments(ctx context.Context, path, field string) (*Documents, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	d := &Documents{path: path, f: f, src: &stoppable{ctx: ctx, f: f}, field: field}
	if d.field == "" {
		d.field = DefaultField
	}
	if err := d.open(field != ""); err != nil {
		f.Close() // read only; err says what is wrong
		return nil, err
	}
	return d, nil
}

func (d *Documents) open(named bool) error {
	st, err := d.f.Stat()
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	d.bytes = st.Size()
	var head [16]byte
	n, err := d.f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("data: %w", err)
	}
	begins := head[:n]
	wrong := func(do, format string, args ...any) error {
		return &FileError{Path: d.path, Err: fmt.Errorf(format, args...), Do: do}
	}
	if n == 0 {
		return wrong("name a file with text", "it is empty")
	}
	for _, x := range foreign {
		if bytes.HasPrefix(begins, []byte(x.magic)) {
			return wrong(x.do, "it is %s", x.what)
		}
	}
	ext := strings.ToLower(filepath.Ext(d.path))
	switch {
	case parquet.Magic(begins):
		d.format = Parquet
		if d.rows, err = parquet.Open(d.src, d.bytes, d.field); err != nil {
			return d.wrong(err)
		}
	case ext == ".parquet":
		return wrong("name a Parquet file; a text may have any other name", "it is not a Parquet file")
	case ext == ".jsonl" || ext == ".ndjson" || ext == ".json":
		d.format = JSONL
		if first := bytes.TrimLeft(begins, "\ufeff \t\r\n"); len(first) > 0 && first[0] == '[' {
			return wrong("write a line for each element: jq -c '.[]' FILE > FILE.jsonl", "it is one array, want an object a line")
		}
		d.lines = jsonl.New(d.src, d.field)
	case named:
		return wrong("leave --data-field out, or name a file of JSON lines or Parquet", "it is plain text, which has no field %q", d.field)
	default:
		d.whole = d.src
	}
	return nil
}

// stoppable reads a file until ctx is done.
type stoppable struct {
	ctx  context.Context
	f    *os.File
	done atomic.Int64 // bytes that were read
}

// Read implements io.Reader.
func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.f.Read(p)
	s.done.Add(int64(n))
	return n, err
}

// ReadAt implements io.ReaderAt.
func (s *stoppable) ReadAt(p []byte, at int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.f.ReadAt(p, at)
	s.done.Add(int64(n))
	return n, err
}

// Done is how many bytes of the file have been read, of how many. It may be called from any goroutine.
func (d *Documents) Done() (done, all int64) { return min(d.src.done.Load(), d.bytes), d.bytes }

// Format is how the file holds documents.
func (d *Documents) Format() Format { return d.format }

// Field is the field or column that is read; it is empty for a text.
func (d *Documents) Field() string {
	if d.format == Text {
		return ""
	}
	return d.field
}

// Next goes to the next document and returns its text, to be read until the next call. After the last it returns io.EOF. Texts of lines
// and rows are UTF-8: reading another fails. A text file may hold any bytes.
func (d *Documents) Next() (io.Reader, error) {
	var r io.Reader
	var err error
	switch d.format {
	case Text:
		if r = d.whole; r == nil {
			return nil, io.EOF
		}
		d.whole = nil
		return r, nil
	case JSONL:
		r, err = d.lines.Next()
	case Parquet:
		r, err = d.rows.Next()
	}
	if err == io.EOF {
		return nil, io.EOF
	}
	if err != nil {
		return nil, d.wrong(err)
	}
	d.text = document{d: d, r: r}
	return &d.text, nil
}

// Close closes the file.
func (d *Documents) Close() error {
	if d.rows != nil {
		d.rows.Close()
	}
	if err := d.f.Close(); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

var errNotUTF8 = errors.New("it is not UTF-8")

// wrong says where in the file err is.
func (d *Documents) wrong(err error) error {
	e := &FileError{Path: d.path, Err: err, Do: "mend the file, or leave the line out"}
	if d.format == JSONL {
		e.Where = fmt.Sprintf("line %d", d.lines.Line())
	} else if d.rows != nil && d.rows.Row() > 0 {
		e.Where = fmt.Sprintf("row %d", d.rows.Row())
	}
	if d.format == Parquet {
		e.Do = "write it with pyarrow, compressed with snappy or zstd"
	}
	var field *jsonl.FieldError
	var column *parquet.ColumnError
	switch {
	case errors.As(err, &field) && field.Why == "" && len(field.Have) > 0, errors.As(err, &column) && len(column.Have) > 0:
		e.Do = "--data-field NAME, with the field that holds the text"
	case errors.Is(err, errNotUTF8):
		e.Do = "write it in UTF-8"
	}
	var path *os.PathError
	if errors.As(err, &path) {
		e.Do = "check the disk"
	}
	return e
}

// document is a text of which errors are told with its place, and what is not UTF-8 is one.
type document struct {
	d    *Documents
	r    io.Reader
	part [utf8.UTFMax]byte // the beginning of a character that the last Read ended in
	n    int
}

// Read implements io.Reader.
func (x *document) Read(p []byte) (int, error) {
	n, err := x.r.Read(p)
	valid := x.check(p[:n])
	if err == io.EOF && x.n > 0 {
		valid = false
	}
	if !valid {
		return 0, x.d.wrong(errNotUTF8)
	}
	if err != nil && err != io.EOF {
		return n, x.d.wrong(err)
	}
	return n, err
}

// check tells whether what has been read can be UTF-8.
func (x *document) check(p []byte) bool {
	for x.n > 0 && len(p) > 0 {
		x.part[x.n] = p[0]
		x.n++
		p = p[1:]
		if utf8.FullRune(x.part[:x.n]) {
			if !utf8.Valid(x.part[:x.n]) {
				return false
			}
			x.n = 0
		}
	}
	end := len(p)
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if utf8.RuneStart(p[len(p)-i]) {
			if !utf8.FullRune(p[len(p)-i:]) {
				end = len(p) - i
			}
			break
		}
	}
	x.n += copy(x.part[x.n:], p[end:])
	return utf8.Valid(p[:end])
}

// Joined is the text of all documents, with the text of tokenizer.EndOfText behind each, as one reader: what a tokenizer is trained on.
// A text file is as it is.
func (d *Documents) Joined() io.Reader {
	if d.format == Text {
		return d.src
	}
	return &joined{d: d}
}

// joined reads documents one after another.
type joined struct {
	d   *Documents
	r   io.Reader
	end string // of the separator
}

// Read implements io.Reader.
func (j *joined) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if j.end != "" {
			n := copy(p, j.end)
			j.end = j.end[n:]
			return n, nil
		}
		if j.r == nil {
			r, err := j.d.Next()
			if err != nil {
				return 0, err
			}
			j.r = r
		}
		n, err := j.r.Read(p)
		if err == io.EOF {
			j.r, j.end, err = nil, tokenizer.EndOfText, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}
