package tokenizer

import (
	"errors"
	"fmt"
	"io"
)

// streamBytes is the text that readWords holds at once unless it is asked to hold more, and so the longest word of a stream.
const streamBytes = 16 << 10

// words calls yield with each word of text, in order, and with each added token and its id; a word has the id -1. It
// returns how many bytes it has gone through: all if the text is final, else those that are cut the same whatever
// follows. An error of yield ends it.
func words(text []byte, a *added, final bool, yield func(word []byte, id int32) error) (int, error) {
	at := 0
	for {
		from, to, id, ok := a.find(text[at:])
		// One that begins this late might be the beginning of a longer one.
		if !ok || !final && at+from > len(text)-a.longest {
			break
		}
		if _, err := plainWords(text[at:at+from], from, yield); err != nil {
			return 0, err
		}
		if err := yield(text[at+from:at+to], id); err != nil {
			return 0, err
		}
		at += to
	}
	limit := len(text) - at
	if !final {
		limit -= a.longest + lookAhead
	}
	n, err := plainWords(text[at:], limit, yield)
	return at + n, err
}

// plainWords calls yield with each word that ends at or before limit. It looks at the text past the limit only to find
// where a word ends.
func plainWords(text []byte, limit int, yield func(word []byte, id int32) error) (int, error) {
	at := 0
	for at < limit {
		n := nextWord(text[at:])
		if at+n > limit {
			break
		}
		if err := yield(text[at:at+n], -1); err != nil {
			return at, err
		}
		at += n
	}
	return at, nil
}

// readWords is words for all that r holds, with a buffer of that many bytes. A word that is longer is cut.
func readWords(r io.Reader, a *added, bytes int, yield func(word []byte, id int32) error) error {
	buf := make([]byte, 0, max(bytes, 2*(a.longest+lookAhead))) //mem:ok the caller says how much
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
		done, err := words(buf, a, final, yield)
		if err != nil {
			return err
		}
		if final {
			return nil
		}
		if done == 0 {
			done = len(buf) - a.longest - lookAhead
			if err := yield(buf[:done], -1); err != nil {
				return err
			}
		}
		buf = buf[:copy(buf, buf[done:])]
	}
}
