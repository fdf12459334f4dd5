package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// idsApart bounds what stands between two ids, so that neither a device that never ends nor a document of something else fills memory.
const idsApart = 1 << 20

// longestID is the length of the least number.
const longestID = len("-2147483648")

// errNoIDs says that what was read is no list of ids.
var errNoIDs = errors.New("there is no token id")

// gapReader reads at most so many bytes between two ids.
type gapReader struct {
	r    io.Reader
	left int
}

// Read implements io.Reader.
func (b *gapReader) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("%w in %d bytes", errNoIDs, idsApart)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// readIDs reads numbers with anything of a list's punctuation between them, or a document with ids, and calls emit with each.
func readIDs(in io.Reader, emit func(id int32) error) error {
	b := &gapReader{in, idsApart}
	r := bufio.NewReader(b)
	found := func(id int32) error {
		b.left = idsApart
		return emit(id)
	}
	for {
		c, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return idsError(err)
		}
		if c <= ' ' {
			continue
		}
		if err := r.UnreadByte(); err != nil {
			return idsError(err)
		}
		if c == '{' {
			return idsError(documentIDs(json.NewDecoder(r), found))
		}
		return idsError(plainIDs(r, found))
	}
}

// idsError adds what to do.
func idsError(err error) error {
	var has interface{ Advice() string }
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil, errors.As(err, &has):
		return err
	case errors.Is(err, errNoIDs), errors.As(err, &syntax), errors.As(err, &kind), errors.Is(err, io.ErrUnexpectedEOF):
		return advise(fmt.Errorf("tokenize: %w", err), "give whole numbers, separated by spaces, a JSON list of them, or the document of tokenize --json")
	}
	return fmt.Errorf("tokenize: %w", err)
}

// plainIDs reads numbers.
func plainIDs(r *bufio.Reader, emit func(id int32) error) error {
	var word []byte
	for {
		c, err := r.ReadByte()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		inside := err == nil && c > ' ' && c != '[' && c != ']' && c != ','
		if inside {
			word = append(word, c)
		}
		if inside && len(word) <= longestID {
			continue
		}
		if len(word) > 0 {
			n, err := strconv.ParseInt(string(word), 10, 32)
			if err != nil || len(word) > longestID {
				return advise(fmt.Errorf("%q is not a token id", word), "give whole numbers, separated by spaces")
			}
			if err := emit(int32(n)); err != nil {
				return err
			}
			word = word[:0]
		}
		if err != nil {
			return nil
		}
	}
}

// documentIDs reads the list that a document has.
func documentIDs(d *json.Decoder, emit func(id int32) error) error {
	if _, err := d.Token(); err != nil { // the brace
		return err
	}
	listed := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if name, _ := key.(string); !strings.EqualFold(name, "ids") {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return err
			}
			continue
		}
		listed = true
		open, err := d.Token()
		if err != nil {
			return err
		}
		if open == nil { // null
			continue
		}
		if open != json.Delim('[') {
			return fmt.Errorf("%w in the document: ids is no list", errNoIDs)
		}
		for d.More() {
			var id int32
			if err := d.Decode(&id); err != nil {
				return err
			}
			if err := emit(id); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the other brace
		return err
	}
	if !listed {
		return fmt.Errorf("%w in the document: it has no ids", errNoIDs)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w behind the document", errNoIDs)
	}
	return nil
}
