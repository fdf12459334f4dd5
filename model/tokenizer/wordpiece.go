package tokenizer

import "unicode/utf8"

// wordPiece takes, from the beginning of a word on, the longest token that matches; inside a word tokens are spelled with a
// prefix. A word that cannot be cut so is one unknown token. (Schuster and Nakajima 2012; BERT's tokenization.py.)
type wordPiece struct {
	trie     trie
	inside   int32 // the node after the prefix of tokens inside a word, ## in most files; -1 if no token has it
	unknown  int32 // -1 to leave it out
	maxChars int   // of a word; a longer one is unknown
	phantom  bool  // llama.cpp's spelling: tokens that begin a word have a ▁, the others nothing
}

// newWordPiece makes one of the tokens for which has holds.
func newWordPiece(v *vocab, inner string, has func(id int32) bool) *wordPiece {
	w := &wordPiece{trie: newTrie(v, has), unknown: -1}
	for i := 0; i < len(inner) && w.inside >= 0; i++ {
		w.inside = w.trie.child(w.inside, inner[i])
	}
	return w
}

func (w *wordPiece) heapBytes() int64 { return w.trie.heapBytes() }

func (w *wordPiece) appendWord(dst []int32, word []byte) []int32 {
	start := len(dst)
	if w.maxChars > 0 && utf8.RuneCount(word) > w.maxChars {
		return w.appendUnknown(dst)
	}
	if w.phantom {
		var room [256]byte
		word = append(append(room[:0], spaceSign...), word...)
	}
	for at := 0; at < len(word); {
		node := int32(0)
		if at > 0 {
			node = w.inside
		}
		id, end := int32(-1), at
		for i := at; i < len(word) && node >= 0; i++ {
			if node = w.trie.child(node, word[i]); node >= 0 && w.trie.id(node) >= 0 {
				id, end = w.trie.id(node), i+1
			}
		}
		if id < 0 {
			return w.appendUnknown(dst[:start])
		}
		dst = append(dst, id)
		at = end
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
