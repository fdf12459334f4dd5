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
	ids := make([]int32, 0, streamBytes) // a word has at most one token a byte
	err := readWords(r, &t.added, func(word []byte, id int32) error {
		if len(ids)+len(word) > cap(ids) {
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
