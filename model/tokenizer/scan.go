package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// The functions here walk a text that json.Valid has accepted, without copying it: a tokenizer.json is mostly one object of
// some hundred thousand members, for which encoding/json would take ten times the file.

// skipSpace returns where the next token of JSON at or after i begins.
func skipSpace(p []byte, i int) int {
	for i < len(p) && (p[i] == ' ' || p[i] == '\n' || p[i] == '\t' || p[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns where the value that begins at i ends.
func skipValue(p []byte, i int) int {
	switch p[i] {
	case '"':
		return skipString(p, i)
	case '{', '[':
		depth := 0
		for ; i < len(p); i++ {
			switch p[i] {
			case '"':
				i = skipString(p, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return i
	}
	for i < len(p) && !bytes.ContainsRune([]byte(",]} \n\t\r"), rune(p[i])) {
		i++
	}
	return i
}

// skipString returns where the string that begins at i ends.
func skipString(p []byte, i int) int {
	for i++; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return i
}

// members calls yield with each member of an object: the key as it is written, quoted, and the value.
func members(p []byte, yield func(key, value []byte) error) error {
	i := skipSpace(p, 0)
	if i >= len(p) || p[i] != '{' {
		return fmt.Errorf("tokenizer: not a tokenizer.json: %.20q stands where an object belongs", p)
	}
	for i++; ; i++ {
		i = skipSpace(p, i)
		if i >= len(p) || p[i] == '}' {
			return nil
		}
		end := skipString(p, i)
		key := p[i:end]
		i = skipSpace(p, skipSpace(p, end)+1) // past the colon
		end = skipValue(p, i)
		if err := yield(key, p[i:end]); err != nil {
			return err
		}
		if i = skipSpace(p, end); i >= len(p) || p[i] != ',' {
			return nil
		}
	}
}

// elements calls yield with each element of a list.
func elements(p []byte, yield func(value []byte) error) error {
	i := skipSpace(p, 0)
	if i >= len(p) || p[i] != '[' {
		return fmt.Errorf("tokenizer: not a tokenizer.json: %.20q stands where a list belongs", p)
	}
	for i++; ; i++ {
		i = skipSpace(p, i)
		if i >= len(p) || p[i] == ']' {
			return nil
		}
		end := skipValue(p, i)
		if err := yield(p[i:end]); err != nil {
			return err
		}
		if i = skipSpace(p, end); i >= len(p) || p[i] != ',' {
			return nil
		}
	}
}

// unquote appends the text of a JSON string to dst, in which there is room for short ones.
func unquote(dst, quoted []byte) ([]byte, error) {
	if len(quoted) < 2 || quoted[0] != '"' {
		return nil, fmt.Errorf("tokenizer: not a tokenizer.json: %.20q stands where a text belongs", quoted)
	}
	body := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return append(dst, body...), nil
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, fmt.Errorf("tokenizer: not a tokenizer.json: %w", err)
	}
	return append(dst, s...), nil
}

// wholeNumber reads an id.
func wholeNumber(p []byte) (int64, error) {
	n, err := strconv.ParseInt(string(p), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("tokenizer: not a tokenizer.json: %.20q stands where an id belongs", p)
	}
	return n, nil
}
