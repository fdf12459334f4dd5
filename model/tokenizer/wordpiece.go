package tokenizer

import "unicode/utf8"

// wordPiece takes, from the beginning of a word on, the longest token that matches; inside a word tokens are spelled with a
// prefix. A word that cannot be cut so is one unknown token. (Schuster and Nakajima 2012; BERT's tokenization.py.)
type wordPiece struct {
	index    *index
	inner    string // ## in most files
	unknown  int32  // -1 to leave it out
	maxChars int    // of a word; a longer one is unknown
	phantom  bool   // llama.cpp's spelling: tokens that begin a word have a ▁, the others nothing
}

func (w *wordPiece) heapBytes() int64 { return w.index.heapBytes() }

func (w *wordPiece) appendWord(dst []int32, word []byte) []int32 {
	start := len(dst)
	if w.maxChars > 0 && utf8.RuneCount(word) > w.maxChars {
		return w.appendUnknown(dst)
	}
	var room [256]byte
	key := room[:0]
	if w.phantom {
		word = append(append(key, spaceSign...), word...)
	}
	for at := 0; at < len(word); {
		head := ""
		if at > 0 && !w.phantom {
			head = w.inner
		}
		id, n := int32(-1), min(len(word)-at, w.index.longest-len(head))
		for ; n > 0; n-- {
			if at+n < len(word) && !utf8.RuneStart(word[at+n]) {
				continue
			}
			piece := word[at : at+n]
			if head != "" {
				key = append(append(key[:0], head...), piece...)
				piece = key
			}
			if id = w.index.find(piece); id >= 0 {
				break
			}
		}
		if id < 0 {
			return w.appendUnknown(dst[:start])
		}
		dst = append(dst, id)
		at += n
	}
	return dst
}

func (w *wordPiece) appendUnknown(dst []int32) []int32 {
	if w.unknown < 0 {
		return dst
	}
	return append(dst, w.unknown)
}

// wordLevel knows whole words alone.
type wordLevel struct {
	index   *index
	unknown int32 // -1 to leave it out
}

func (w *wordLevel) heapBytes() int64 { return w.index.heapBytes() }

func (w *wordLevel) appendWord(dst []int32, word []byte) []int32 {
	id := w.index.find(word)
	if id < 0 {
		id = w.unknown
	}
	if id < 0 {
		return dst
	}
	return append(dst, id)
}
