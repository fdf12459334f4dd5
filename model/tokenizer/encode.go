package tokenizer

import "io"

// Encode returns the tokens of text. Where it holds the text of an added token, such as EndOfText, that token stands
// for it, as in Hugging Face's tokenizers.
func (t *Tokenizer) Encode(text string) []int32 {
	return t.AppendEncode(nil, []byte(text))
}

// AppendEncode appends the tokens of text to dst, like Encode.
func (t *Tokenizer) AppendEncode(dst []int32, text []byte) []int32 {
	return t.appendTokens(dst, text, &t.added)
}

// AppendEncodePlain appends the tokens of text to dst and treats the text of added tokens as any other text, so that
// nobody can smuggle in a special token by spelling it.
func (t *Tokenizer) AppendEncodePlain(dst []int32, text []byte) []int32 {
	return t.appendTokens(dst, text, &added{})
}

func (t *Tokenizer) appendTokens(dst []int32, text []byte, a *added) []int32 {
	words(text, a, true, func(word []byte, id int32) error { // never fails
		dst = t.appendWord(dst, word, id)
		return nil
	})
	return dst
}

func (t *Tokenizer) appendWord(dst []int32, word []byte, id int32) []int32 {
	if id >= 0 {
		return append(dst, id)
	}
	return t.bpe.appendWord(dst, word)
}

// EncodeReader encodes all that r holds and calls emit with the tokens, piece by piece; emit must not keep the slice.
// The tokens are those of AppendEncode for the whole text, except that words of more than 16 KiB are cut. It holds 80
// KiB, and for a long word up to 0.6 MiB more, whatever the length of the text.
func (t *Tokenizer) EncodeReader(r io.Reader, emit func(ids []int32) error) error {
	return t.EncodeStream(r, StreamOptions{}, emit)
}

// StreamOptions steer EncodeStream. The zero value is EncodeReader's.
type StreamOptions struct {
	Plain    bool // treats the text of added tokens as any other text, like AppendEncodePlain
	LongWord int  // bytes from which a word is cut, which a stream holds five times, and 36 times while it merges one; 0 means 16 KiB
}

// EncodeStream is EncodeReader with options.
func (t *Tokenizer) EncodeStream(r io.Reader, o StreamOptions, emit func(ids []int32) error) error {
	if o.LongWord <= 0 {
		o.LongWord = streamBytes
	}
	special := &t.added
	if o.Plain {
		special = &added{}
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
