// Package parquet reads one column of strings of an Apache Parquet file, row by row, in memory that does not depend on the file.
//
//	footer ──▶ place of the column's pages in each row group
//	page header ──▶ decompress ──▶ definition levels ──▶ values, as readers
//
// A page is never held: it is decompressed as it is read, and a value is a reader of its bytes. What is held is a dictionary of at most
// 16 MiB, definition levels and lengths of one page (1 MiB and 8 MiB at most), a window of zstd (8 MiB at most), and 40 bytes for each row
// group. Whatever a file says about lengths is compared with what holds it before anything is allocated or read.
//
// It reads columns that are no lists: required or optional, plain, dictionary or delta-length encoded, in pages of both versions,
// uncompressed or in snappy, gzip or zstd; that is what pyarrow, pandas, polars, DuckDB and Spark write unless told otherwise. What else the
// format knows is refused by name. Bytes are handed out as they are: whether they are UTF-8 is the caller's to ask. Checksums of pages
// are not compared.
//
// github.com/parquet-go/parquet-go was tried and left out: linking it raises the resident memory of every process by 5.4 MiB, which is
// more than the Runtime line of a plan has to spare, and it decodes whole pages, of sizes that the file names, with unsafe code.
//
// Sources: github.com/apache/parquet-format (README, Encodings.md, parquet.thrift); Thrift's compact protocol specification; snappy's
// format_description.txt.
package parquet

import (
	"errors"
	"fmt"
	"io"
)

// magic begins and ends a file.
const magic = "PAR1"

var errNotParquet = errors.New("it is not a Parquet file")

// Magic tells whether a file that begins with head calls itself Parquet.
func Magic(head []byte) bool { return len(head) >= len(magic) && string(head[:len(magic)]) == magic }

// Reader is a column of a file. Its methods are for one goroutine.
type Reader struct {
	r      io.ReaderAt
	footer *footer

	next  int   // chunk to be read after the present one
	left  int64 // rows of the present chunk that have not been read
	row   int64 // rows that have been read
	pages pages
}

// Open reads a file's description and finds the column. A path such as "a.b" names a column inside a group.
func Open(r io.ReaderAt, size int64, column string) (*Reader, error) {
	f, err := readFooter(r, size, column)
	if err != nil {
		return nil, err
	}
	return &Reader{r: r, footer: f}, nil
}

// Rows is the number of rows of the file, those without a value included.
func (r *Reader) Rows() int64 { return r.footer.rows }

// Row is the number of the row that Next has returned last; the first is 1.
func (r *Reader) Row() int64 { return r.row }

// Next goes to the next row that has a value and returns that, to be read until the next call. After the last it returns io.EOF.
func (r *Reader) Next() (io.Reader, error) {
	for {
		for r.left == 0 {
			if r.next == len(r.footer.chunks) {
				return nil, io.EOF
			}
			c := r.footer.chunks[r.next]
			r.next++
			r.left = c.rows
			r.pages.begin(r.r, c, r.footer.maxDef)
		}
		r.row++
		r.left--
		v, err := r.pages.value()
		if err != nil {
			return nil, cut(err)
		}
		if v != nil {
			return v, nil
		}
	}
}

// Close gives back what decompression holds.
func (r *Reader) Close() { r.pages.close() }

// unsupported says that the format allows something that this package does not read.
func unsupported(what string) error {
	return fmt.Errorf("%s, which loadline does not read", what)
}
