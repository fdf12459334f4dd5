// Package corpus is the text that loadline trains on when it is given none: ten plays and the sonnets of William
// Shakespeare, 1.4 MB of ASCII in the public domain, compressed in the program. README.md says where it comes from.
//
// The text is streamed, and is never whole in memory.
package corpus

import (
	"compress/gzip"
	_ "embed" // for the text
	"io"
	"strings"
)

// Bytes is the length of the text.
const Bytes = 1358175

// packed is the text as written by generate.py.
//
//go:embed shakespeare.txt.gz
var packed string

// Text returns a reader of the text, from its beginning. Each holds about 45 KiB of heap.
func Text() io.Reader {
	r, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		panic("corpus: the embedded text is damaged: " + err.Error())
	}
	return r
}
