package tokenizer

import (
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Encode returns the tokens of text. Where it holds the text of an added token, such as EndOfText, that token stands
// for it, as in Hugging Face's tokenizers. What Frame has is not added.
func (t *Tokenizer) Encode(text string) []int32 {
	return t.AppendEncode(nil, []byte(text))
}

// AppendEncode appends the tokens of text to dst, like Encode.
func (t *Tokenizer) AppendEncode(dst []int32, text []byte) []int32 {
	return t.appendText(dst, text, false, edges{first: true})
}

// AppendEncodePlain appends the tokens of text to dst and treats the text of special tokens as any other text, so that
// nobody can smuggle one in by spelling it. Added tokens that are not special are tokens still.
func (t *Tokenizer) AppendEncodePlain(dst []int32, text []byte) []int32 {
	return t.appendText(dst, text, true, edges{first: true})
}

// appendText encodes a text, or a part of one that edges tell about.
func (t *Tokenizer) appendText(dst []int32, text []byte, plain bool, at edges) []int32 {
	if t.bare {
		special := t.added
		if plain {
			special = t.plain
		}
		words(text, special, true, func(word []byte, id int32) error { // never fails
			dst = t.appendWord(dst, word, id)
			return nil
		})
		return dst
	}
	e := &encoder{stages: t.stages, model: t.model, dst: dst}
	if t.valid != nil && !utf8.Valid(text) {
		text = t.valid(make([]byte, 0, len(text)+len(text)/8), text) //mem:ok as large as the text, which is the caller's
	}
	if t.fragments {
		t.appendFragments(e, text, plain, at)
		return e.dst
	}
	early, late := t.added, t.late
	if plain {
		early, late = t.plain, t.latep
	}
	var bufs [2][]byte
	for pos := 0; pos < len(text); {
		from, to, id, ok := early.findAfter(text, pos)
		if !ok {
			from, to = len(text), len(text)
		}
		if from > pos {
			e.at = edges{
				inside: at.inside && pos == 0,
				more:   at.more && from == len(text),
				first:  at.first && pos == 0,
			}
			t.segment(e, &bufs, text[pos:from], late)
		}
		if ok {
			e.dst = append(e.dst, id)
		}
		pos = to
	}
	return e.dst
}

// segment encodes what lies between two added tokens.
func (t *Tokenizer) segment(e *encoder, bufs *[2][]byte, text []byte, late *added) {
	first := e.at.first
	if first && t.leads {
		_, n := utf8.DecodeRune(text)
		first = len(t.norm.apply(bufs, text[:n], edges{})) > 0
	}
	text = t.norm.apply(bufs, text, e.at)
	for pos := 0; pos < len(text); {
		from, to, id, ok := late.findAfter(text, pos)
		if !ok {
			from, to = len(text), len(text)
		}
		if from > pos {
			e.at.first = first && pos == 0
			e.piece(0, text[pos:from])
		}
		if ok {
			e.dst = append(e.dst, id)
		}
		pos = to
	}
}

// appendWord appends a word, or an added token if id is not negative.
func (t *Tokenizer) appendWord(dst []int32, word []byte, id int32) []int32 {
	if id >= 0 {
		return append(dst, id)
	}
	return t.model.appendWord(dst, word)
}

// EncodeReader encodes all that r holds and calls emit with the tokens, piece by piece; emit must not keep the slice.
// The tokens are those of AppendEncode for the whole text, except that words of more than 16 KiB are cut, that a vocabulary whose
// words end in spaces instead of beginning so is cut anywhere, and that SentencePiece's unigram sums begin anew. A tokenizer of
// GPT-2's kind holds 80 KiB, and for a long word up to 0.6 MiB more, whatever the length of the text; others hold 0.6 MiB.
func (t *Tokenizer) EncodeReader(r io.Reader, emit func(ids []int32) error) error {
	return t.EncodeStream(r, StreamOptions{}, emit)
}

// StreamOptions steer EncodeStream. The zero value is EncodeReader's.
type StreamOptions struct {
	Plain    bool // treats the text of special tokens as any other text, like AppendEncodePlain
	Replace  bool // reads what is not UTF-8 as U+FFFD where the tokenizer could encode the bytes
	LongWord int  // bytes from which a word is cut, which a stream holds up to 40 times; 0 means 16 KiB
}

// EncodeStream is EncodeReader with options.
func (t *Tokenizer) EncodeStream(r io.Reader, o StreamOptions, emit func(ids []int32) error) error {
	if o.LongWord <= 0 {
		o.LongWord = streamBytes
	}
	if o.Replace && t.valid == nil {
		u := *t
		u.valid, u.bare = appendValid, false
		t = &u
	}
	if !t.bare {
		return t.encodeChunks(r, o, emit)
	}
	special := t.added
	if o.Plain {
		special = t.plain
	}
	ids := make([]int32, 0, o.LongWord) //mem:ok a word has at most one token a byte; see StreamOptions
	err := readWords(r, special, o.LongWord, func(word []byte, id int32) error {
		if len(ids) > 0 && len(ids)+len(word) > cap(ids) {
			if err := emit(ids); err != nil {
				return err
			}
			ids = ids[:0]
		}
		ids = t.appendWord(ids, word, id)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	return emit(ids)
}

// encodeChunks encodes a stream in chunks that end before a single space, where no pattern, normalizer or vocabulary in use reaches
// across; added tokens might, and are looked at.
func (t *Tokenizer) encodeChunks(r io.Reader, o StreamOptions, emit func(ids []int32) error) error {
	margin := max(t.added.longest, t.late.longest) + 2*utf8.UTFMax
	buf := make([]byte, 0, max(o.LongWord, 4*margin)) //mem:ok the caller says how much
	var ids []int32
	at := edges{first: true}
	for idle := 0; ; {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		final := errors.Is(err, io.EOF)
		if err != nil && !final {
			return fmt.Errorf("tokenizer: reading text: %w", err)
		}
		if !final && len(buf) < cap(buf) {
			if idle++; n > 0 {
				idle = 0
			} else if idle == 100 {
				return fmt.Errorf("tokenizer: reading text: %w", io.ErrNoProgress)
			}
			continue
		}
		cut := len(buf)
		if !final {
			cut = t.safeCut(buf, margin)
		}
		at.more = !final
		ids = t.appendText(ids[:0], buf[:cut], o.Plain, at)
		at = edges{inside: true}
		if len(ids) > 0 {
			if err := emit(ids); err != nil {
				return err
			}
		}
		if final {
			return nil
		}
		buf = buf[:copy(buf, buf[cut:])]
	}
}

// safeCut returns where a full buffer of a text that goes on may be cut: at best before the last single space between two characters
// that are none, else after a whole character.
func (t *Tokenizer) safeCut(buf []byte, margin int) int {
	for i := len(buf) - margin; i > 0; i-- {
		if buf[i] != ' ' {
			continue
		}
		before, _ := utf8.DecodeLastRune(buf[:i])
		after, _ := utf8.DecodeRune(buf[i+1:])
		if !unicode.IsSpace(before) && !unicode.IsSpace(after) && !t.joins(buf[i-1]) && !t.crossed(buf, i) {
			return i
		}
	}
	cut := len(buf) - margin
	return cut - (cut - wholeCharacters(buf[:cut]))
}

// joins tells whether a token of the vocabulary may reach from a character that ends in that byte to a space after it.
func (t *Tokenizer) joins(last byte) bool {
	c, ok := lastStage(t.stages).(*spaceCut)
	return ok && c.crossed[last]
}

// crossed tells whether an added token lies across place i.
func (t *Tokenizer) crossed(buf []byte, i int) bool {
	for _, a := range []*added{t.added, t.late} {
		if !a.spaces {
			continue
		}
		for j := max(0, i-a.longest); j < i; j++ {
			crosses := false
			a.at(buf[j:], func(f *addedToken, _ int32) { crosses = crosses || j+len(f.content) > i })
			if crosses {
				return true
			}
		}
	}
	return false
}
