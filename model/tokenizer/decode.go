package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// decoding says how tokens become text.
type decoding struct {
	replace []replaced  // in the text of a token
	byteID  *[256]int32 // tokens that are a byte, nil without any
	strip   int         // spaces left out at the beginning of the text
	bare    []byte      // what the first token of a text loses all of, nil for nothing (Metaspace)
	joined  bool        // a space stands between tokens
	inner   string      // with pieces: what a token begins with that goes on a word, which it loses; others take a space before
	pieces  bool        // WordPiece
	cleanup bool        // no space before some signs
	end     string      // what ends a word, and is a space unless it ends the text
}

// appendToken appends the text of a token that is the first of its text, or not.
func (d *decoding) appendToken(dst []byte, v *vocab, id int32, first bool) []byte {
	t := v.token(id)
	if d.byteID != nil && len(t) == len("<0x00>") && t[0] == '<' {
		if b, ok := byteToken(t); ok && d.byteID[b] == id {
			return append(dst, b)
		}
	}
	if d.bare != nil && first {
		t = bytes.ReplaceAll(t, d.bare, nil)
	}
	switch {
	case d.pieces:
		return d.appendPiece(dst, t, first)
	case d.joined && !first:
		dst = append(dst, ' ')
	}
	switch len(d.replace) {
	case 0:
		return append(dst, t...)
	case 1:
		return appendReplaced(dst, t, d.replace[0].from, d.replace[0].to)
	}
	for _, r := range d.replace {
		t = bytes.ReplaceAll(t, r.from, r.to)
	}
	return append(dst, t...)
}

// appendPiece appends a piece of WordPiece.
func (d *decoding) appendPiece(dst, t []byte, first bool) []byte {
	var room [64]byte
	text := room[:0]
	if inner, ok := bytes.CutPrefix(t, []byte(d.inner)); ok && !first && d.inner != "" {
		text = append(text, inner...)
	} else {
		if !first {
			text = append(text, ' ')
		}
		text = append(text, t...)
	}
	if d.cleanup {
		for _, r := range [...][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"}, {" 'm", "'m"},
			{" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}} {
			text = bytes.ReplaceAll(text, []byte(r[0]), []byte(r[1]))
		}
	}
	return append(dst, text...)
}

// byteToken reads a token of the form <0x0A>.
func byteToken(t []byte) (byte, bool) {
	if len(t) != 6 || string(t[:3]) != "<0x" || t[5] != '>' {
		return 0, false
	}
	b := byte(0)
	for _, c := range t[3:5] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		b = b<<4 | c
	}
	return b, true
}

// Decode returns the bytes that tokens stand for, as the whole of a text: a space that the tokenizer puts before every text is
// left out. An id outside the vocabulary stands for nothing: a model may have more rows than its tokenizer has tokens.
func (t *Tokenizer) Decode(ids []int32) []byte {
	d := t.NewDecoder()
	var out []byte
	for _, id := range ids {
		out = d.append(out, id)
	}
	return out
}

// Decoder decodes tokens as they come and never hands out part of a UTF-8 character. What it hands out, joined, is what
// Decode returns for all the tokens. The zero value is not usable; NewDecoder makes one.
type Decoder struct {
	t           *Tokenizer
	held        []byte // the beginning of a character whose end has not come; at most three bytes
	started     bool   // whether a token has come
	strip       int    // spaces still to be left out
	ended       bool   // the last token ended a word, which is a space if another comes
	skipSpecial bool
}

// NewDecoder returns a Decoder at the beginning of a text.
func (t *Tokenizer) NewDecoder() *Decoder {
	return &Decoder{t: t, held: make([]byte, 0, utf8.UTFMax), strip: t.decoding.strip}
}

// NewContinuation returns a Decoder inside a text, such as after a prompt: a space that its first token begins with stays.
func (t *Tokenizer) NewContinuation() *Decoder {
	return &Decoder{t: t, held: make([]byte, 0, utf8.UTFMax), started: true}
}

// SkipSpecial makes the Decoder leave out special tokens, and returns it.
func (d *Decoder) SkipSpecial() *Decoder {
	d.skipSpecial = true
	return d
}

// Append appends to dst the text that has become whole with the token id. Bytes that cannot become a character are
// handed out as they are.
func (d *Decoder) Append(dst []byte, id int32) []byte {
	from := len(dst)
	dst = append(dst, d.held...)
	dst = d.append(dst, id)
	cut := from + wholeCharacters(dst[from:])
	d.held = append(d.held[:0], dst[cut:]...)
	return dst[:cut]
}

// append is Append without regard to characters.
func (d *Decoder) append(dst []byte, id int32) []byte {
	if d.skipSpecial && d.t.IsSpecial(id) {
		return dst
	}
	r := &d.t.decoding
	if d.ended {
		dst = append(dst, ' ')
		d.ended = false
	}
	from := len(dst)
	dst = r.appendToken(dst, &d.t.vocab, id, !d.started)
	d.started = d.started || int(id) < d.t.vocab.size() && id >= 0
	if r.end != "" && bytes.HasSuffix(dst[from:], []byte(r.end)) {
		dst = dst[:len(dst)-len(r.end)]
		d.ended = true
	}
	if d.strip > 0 {
		text := dst[from:]
		for d.strip > 0 && len(text) > 0 && text[0] == ' ' {
			text = text[1:]
			d.strip--
		}
		if len(text) > 0 {
			d.strip = 0
		}
		dst = append(dst[:from], text...)
	}
	return dst
}

// Flush appends to dst the bytes still held, which the text ended in the middle of, and returns to the beginning.
func (d *Decoder) Flush(dst []byte) []byte {
	dst = append(dst, d.held...)
	*d = Decoder{t: d.t, held: d.held[:0], strip: d.t.decoding.strip, skipSpecial: d.skipSpecial}
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
