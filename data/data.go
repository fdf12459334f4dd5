// Package data turns text into streams of tokens for training and evaluation.
//
// Text, plain or in documents of JSON lines or Parquet, is tokenised once, into a file of tokens beside the run's output, and windows are
// read from that file in the order in which they are needed:
//
//	FILE ──OpenDocuments──▶ TokenizeDocuments ──▶ token file ──Open──▶ File ──NewStream──▶ Stream.Next ──▶ tokens, targets
//	text ──Tokenize───────────────────────────────▲                    └──NewSequence──▶ Sequence.Next ──▶ each window once, in order
//
// Windows of Seq tokens lie back to back over the whole stream; the targets of a window are its tokens moved by one, so
// every token but the first is predicted once an epoch. The order of windows is a permutation computed from the seed and
// the epoch, with no table, so a place in the data is two numbers and a run that is resumed goes on exactly where it was.
//
// What it holds on the Go heap does not depend on the length of the text: about 200 KiB while tokenising text or JSON lines, what package
// parquet says for Parquet, and nothing but a file's handle afterwards; the tokens land in buffers that the caller hands in. On disk a
// token takes two bytes, or four with a vocabulary above 65,536: for English and 1,024 tokens about 0.8 bytes for each byte of text
// (TokenBytes).
//
// The package does not clean, mix or weigh texts, and knows nothing of models.
//
// Sources: the permutation is a Feistel network (Luby and Rackoff 1988) with cycle walking (Black and Rogaway 2002).
package data

import "fmt"

// Source is a sequence of tokens that can be read from any place. It may be read from any number of goroutines.
type Source interface {
	// Len returns the number of tokens.
	Len() int
	// Read fills dst with the tokens from place at on.
	Read(dst []int32, at int) error
}

// Tokens is a Source in memory.
type Tokens []int32

// Len returns the number of tokens.
func (t Tokens) Len() int { return len(t) }

// Read fills dst with the tokens from place at on.
func (t Tokens) Read(dst []int32, at int) error {
	if err := checkRange(len(dst), at, len(t)); err != nil {
		return err
	}
	copy(dst, t[at:])
	return nil
}

// checkRange says whether n tokens from place at on lie in a source of total.
func checkRange(n, at, total int) error {
	if at < 0 || at > total || n > total-at {
		return fmt.Errorf("data: want %d tokens from %d on, there are %d", n, at, total)
	}
	return nil
}

// readWindow fills the inputs and targets of the window that begins at place at. Both have the same length, and the
// window one token more.
func readWindow(src Source, tokens, targets []int32, at int) error {
	if err := src.Read(tokens, at); err != nil {
		return err
	}
	n := copy(targets, tokens[1:])
	return src.Read(targets[n:], at+len(tokens))
}

// windows returns how many windows of seq tokens and their targets there are in a source.
func windows(src Source, seq int) (int64, error) {
	n := (src.Len() - 1) / seq
	if n < 1 {
		return 0, fmt.Errorf("data: the text has %d tokens, a window of %d needs %d", src.Len(), seq, seq+1)
	}
	return int64(n), nil
}
