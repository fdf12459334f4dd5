package tokenizer

import "unicode/utf8"

// Decode returns the bytes that tokens stand for. An id outside the vocabulary stands for nothing: a model may have more
// rows than its tokenizer has tokens.
func (t *Tokenizer) Decode(ids []int32) []byte {
	var out []byte
	for _, id := range ids {
		out = append(out, t.vocab.token(id)...)
	}
	return out
}

// Decoder decodes tokens as they come and never hands out part of a UTF-8 character. What it hands out, joined, is what
// Decode returns for all the tokens. The zero value is not usable; NewDecoder makes one.
type Decoder struct {
	t    *Tokenizer
	held []byte // the beginning of a character whose end has not come; at most three bytes
}

// NewDecoder returns a Decoder at the beginning of a text.
func (t *Tokenizer) NewDecoder() *Decoder {
	return &Decoder{t: t, held: make([]byte, 0, utf8.UTFMax)}
}

// Append appends to dst the text that has become whole with the token id. Bytes that cannot become a character are
// handed out as they are.
func (d *Decoder) Append(dst []byte, id int32) []byte {
	from := len(dst)
	dst = append(dst, d.held...)
	dst = append(dst, d.t.vocab.token(id)...)
	cut := from + wholeCharacters(dst[from:])
	d.held = append(d.held[:0], dst[cut:]...)
	return dst[:cut]
}

// Flush appends to dst the bytes still held, which the text ended in the middle of, and returns to the beginning.
func (d *Decoder) Flush(dst []byte) []byte {
	dst = append(dst, d.held...)
	d.held = d.held[:0]
	return dst
}

// wholeCharacters returns the length of s without the character that its end cuts off, if it does.
func wholeCharacters(s []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(s); back++ {
		if at := len(s) - back; utf8.RuneStart(s[at]) {
			if !utf8.FullRune(s[at:]) {
				return at
			}
			break
		}
	}
	return len(s)
}
