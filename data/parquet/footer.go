package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Sizes that a file may have. What is larger is refused before anything is allocated for it.
const (
	maxFooter = 64 << 20 // bytes of a footer; it is read piece by piece
	maxChunks = 1 << 16  // row groups, of which the places of their pages are kept
	maxNames  = 20       // names of other columns that an error lists
)

// Physical types and repetitions of a column.
const (
	typeByteArray = 6

	repetitionRequired = 0
	repetitionOptional = 1
	repetitionRepeated = 2
)

// chunk is the wanted column in one row group.
type chunk struct {
	from, to int64 // where its pages lie in the file
	rows     int64 // values, those that are null included
	codec    int64
}

// ColumnError says that a file has no column of strings with a name.
type ColumnError struct {
	Name string
	Have []string // columns of strings that it has, the first of them
	Why  string   // what is wrong with the column, if it is there
}

// Error returns one line.
func (e *ColumnError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("column %q %s", e.Name, e.Why)
	}
	have := "it has none of strings"
	if len(e.Have) > 0 {
		have = "its columns of strings are " + strings.Join(e.Have, ", ")
	}
	return fmt.Sprintf("there is no column %q: %s", e.Name, have)
}

// footer is what is kept of a file's description.
type footer struct {
	column   string
	leaf     int // the column's place among those with values
	maxDef   int // definition level of a value that is there
	rows     int64
	chunks   []chunk
	fileSize int64
}

// readFooter finds the column and its pages. The layout, all little-endian:
//
//	┌────────┬───────────────┬─────────────────────────┬──────────────────┬────────┐
//	│ "PAR1" │ pages of each │ footer: FileMetaData in │ 4: bytes of the  │ "PAR1" │
//	│        │ row group     │ Thrift's compact form   │ footer           │        │
//	└────────┴───────────────┴─────────────────────────┴──────────────────┴────────┘
func readFooter(r io.ReaderAt, size int64, column string) (*footer, error) {
	var head [4]byte
	var tail [8]byte
	if size < 12 {
		return nil, errNotParquet
	}
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, cut(err)
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, cut(err)
	}
	if string(head[:]) != magic {
		return nil, errNotParquet
	}
	if end := string(tail[4:]); end == "PARE" {
		return nil, errors.New("it is encrypted")
	} else if end != magic {
		return nil, errors.New("its end is missing")
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-12 || n > maxFooter {
		return nil, fmt.Errorf("its description has %d bytes, the file %d", n, size)
	}
	f := &footer{column: column, leaf: -1, fileSize: size - 8 - n}
	t := &thrift{r: bufio.NewReaderSize(io.NewSectionReader(r, size-8-n, n), 16<<10)}
	if err := f.read(t); err != nil {
		return nil, err
	}
	return f, nil
}

// read reads FileMetaData.
func (f *footer) read(t *thrift) error {
	var err error // of what the numbers mean
	total := int64(0)
	t.structure(func(id int, kind byte) bool {
		switch {
		case id == 2 && kind == thriftList:
			if e := f.schema(t); err == nil {
				err = e
			}
		case id == 3 && kind == thriftI64:
			f.rows = t.int()
		case id == 4 && kind == thriftList:
			t.list(thriftStruct, func(int) {
				c, e := f.rowGroup(t)
				if err == nil {
					err = e
				}
				if len(f.chunks) == maxChunks && err == nil {
					err = fmt.Errorf("it has more than %d row groups", maxChunks)
				}
				if err == nil && t.ok() {
					f.chunks = append(f.chunks, c)
					total += c.rows
				}
				if err != nil {
					t.fail(err) // nothing more is of use
				}
			})
		default:
			return false
		}
		if err != nil {
			t.fail(err)
		}
		return true
	})
	switch {
	case err != nil:
		return err
	case t.err != nil:
		return t.err
	case f.leaf < 0:
		return &ColumnError{Name: f.column}
	case f.rows != total:
		return fmt.Errorf("it says %d rows, its row groups have %d", f.rows, total)
	}
	return nil
}

// schemaElement is a node of the schema's tree, which is listed from the top down.
type schemaElement struct {
	name             string
	kind, repetition int64
	children         int64
}

// schema finds the column in the schema.
func (f *footer) schema(t *thrift) error {
	type level struct {
		path     string
		left     int64 // children to come
		def, rep int
	}
	var stack []level
	var have []string
	leaf := 0
	var found *ColumnError
	deep := false
	t.list(thriftStruct, func(i int) {
		e := schemaElement{kind: -1}
		t.structure(func(id int, kind byte) bool {
			switch {
			case id == 1 && kind == thriftI32:
				e.kind = t.int()
			case id == 3 && kind == thriftI32:
				e.repetition = t.int()
			case id == 4 && kind == thriftBinary:
				e.name = t.text()
			case id == 5 && kind == thriftI32:
				e.children = t.int()
			default:
				return false
			}
			return true
		})
		if !t.ok() {
			return
		}
		l := level{path: e.name, left: e.children}
		if i == 0 {
			stack = append(stack, level{left: e.children}) // the root has no part in names
			return
		}
		for len(stack) > 0 && stack[len(stack)-1].left == 0 {
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 {
			t.fail(errThrift)
			return
		}
		up := &stack[len(stack)-1]
		up.left--
		l.def, l.rep = up.def, up.rep
		if up.path != "" {
			l.path = up.path + "." + e.name
		}
		switch e.repetition {
		case repetitionRequired:
		case repetitionOptional:
			l.def++
		case repetitionRepeated:
			l.def++
			l.rep++
		default:
			t.fail(errThrift)
			return
		}
		if e.kind < 0 { // a group
			if len(stack) >= maxDepth {
				deep = true
				t.fail(errThrift)
				return
			}
			stack = append(stack, l)
			return
		}
		if l.rep == 0 && e.kind == typeByteArray && len(have) < maxNames {
			have = append(have, l.path)
		}
		if l.path == f.column && f.leaf < 0 && found == nil {
			switch {
			case e.kind != typeByteArray:
				found = &ColumnError{Name: f.column, Why: "holds no strings"}
			case l.rep > 0:
				found = &ColumnError{Name: f.column, Why: "holds lists"}
			default:
				f.leaf, f.maxDef = leaf, l.def
			}
		}
		leaf++
	})
	switch {
	case deep:
		return fmt.Errorf("its columns nest deeper than %d", maxDepth)
	case !t.ok():
		return t.err
	case found != nil:
		found.Have = have
		return found
	case f.leaf < 0:
		return &ColumnError{Name: f.column, Have: slices.Clip(have)}
	}
	return nil
}

// rowGroup reads one RowGroup and returns the column's chunk.
func (f *footer) rowGroup(t *thrift) (c chunk, err error) {
	if f.leaf < 0 {
		return c, errThrift // the schema comes first
	}
	rows, found := int64(-1), false
	t.structure(func(id int, kind byte) bool {
		switch {
		case id == 1 && kind == thriftList:
			t.list(thriftStruct, func(i int) {
				if i != f.leaf {
					t.skip(thriftStruct, 0)
					return
				}
				c, err = f.columnChunk(t)
				found = true
			})
		case id == 3 && kind == thriftI64:
			rows = t.int()
		default:
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return c, err
	case !t.ok():
		return c, t.err
	case !found:
		return c, errThrift
	case c.rows != rows:
		return c, fmt.Errorf("a row group of %d rows has %d values in column %q", rows, c.rows, f.column)
	}
	return c, nil
}

// columnChunk reads one ColumnChunk.
func (f *footer) columnChunk(t *thrift) (chunk, error) {
	elsewhere := false
	c := chunk{rows: -1, codec: -1}
	bytes, data, dictionary, kind := int64(-1), int64(-1), int64(-1), int64(-1)
	t.structure(func(id int, k byte) bool {
		if id == 1 && k == thriftBinary {
			elsewhere = t.text() != ""
			return true
		}
		if id != 3 || k != thriftStruct {
			return false
		}
		t.structure(func(id int, k byte) bool {
			if k != thriftI32 && k != thriftI64 {
				return false
			}
			switch id {
			case 1:
				kind = t.int()
			case 4:
				c.codec = t.int()
			case 5:
				c.rows = t.int()
			case 7:
				bytes = t.int()
			case 9:
				data = t.int()
			case 11:
				dictionary = t.int()
			default:
				return false
			}
			return true
		})
		return true
	})
	if !t.ok() {
		return c, t.err
	}
	c.from = data
	if dictionary > 0 && dictionary < data {
		c.from = dictionary
	}
	switch {
	case elsewhere:
		return c, errors.New("its columns are in other files")
	case kind != typeByteArray || c.rows < 0 || bytes < 0 || c.from < int64(len(magic)) && c.rows > 0 || c.from > f.fileSize || bytes > f.fileSize-c.from:
		return c, fmt.Errorf("column %q has %d bytes from %d on, which is not inside the file", f.column, bytes, c.from)
	}
	c.to = c.from + bytes
	return c, nil
}
