package data

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"loadline/model/tokenizer"
)

// Tokenize writes the tokens of a text to a token file at out, and returns how many there are. The file is written under
// another name beside it and takes its own when it is complete; on an error nothing is left. No token is added: the text of
// tokenizer.EndOfText in it separates documents.
func Tokenize(out string, text io.Reader, t *tokenizer.Tokenizer) (n int64, err error) {
	return writeFile(out, t, func(emit func([]int32) error) error { return t.EncodeReader(text, emit) })
}

// TokenizeDocuments writes the tokens of documents to a token file at out, as Tokenize does, and returns how many there are. Those of a
// line or row are followed by the tokenizer's end of text, or, if it has none, by the tokens of an empty line; a document without text
// leaves nothing. As in a text file, the text of an added token in a document stands for that token.
func TokenizeDocuments(out string, docs *Documents, t *tokenizer.Tokenizer) (n int64, err error) {
	if docs.format == Text {
		text, err := docs.Next()
		if err != nil {
			return 0, err
		}
		return Tokenize(out, text, t)
	}
	end := t.AppendEncode(nil, []byte("\n\n"))
	if t.EOS() >= 0 {
		end = []int32{t.EOS()}
	}
	return writeFile(out, t, func(emit func([]int32) error) error {
		start, ids := make([]byte, shortBytes), make([]int32, 0, shortBytes)
		for {
			r, err := docs.Next()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			n, err := io.ReadFull(r, start)
			switch err { // not what it wraps: the document may be cut itself
			case io.EOF:
				continue
			case io.ErrUnexpectedEOF: // a short one needs no buffers of its own
				ids = t.AppendEncode(ids[:0], start[:n])
				err = emit(ids)
			case nil:
				err = t.EncodeReader(io.MultiReader(bytes.NewReader(start), r), emit)
			}
			if err == nil {
				err = emit(end)
			}
			if err != nil {
				return err
			}
		}
	})
}

// shortBytes is up to how many bytes of a document are held at once. It is how long a word may be before a stream cuts it, so a short
// document has the tokens of a stream.
const shortBytes = 16 << 10

// writeFile writes a token file of what produce emits.
func writeFile(out string, t *tokenizer.Tokenizer, produce func(emit func([]int32) error) error) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+".*")
	if err != nil {
		return 0, fmt.Errorf("data: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()           // closed already, or of no interest:
			os.Remove(f.Name()) // err says what went wrong
		}
	}()
	if n, err = writeTokens(f, t.VocabSize(), produce); err != nil {
		var told *FileError
		if errors.As(err, &told) {
			return 0, err // it says which file and where
		}
		return 0, fmt.Errorf("data: tokenizing: %w", err)
	}
	if n == 0 {
		return 0, errors.New("data: the text is empty")
	}
	if err := cmp.Or(f.Chmod(0o644), f.Close()); err != nil {
		return 0, fmt.Errorf("data: %w", err)
	}
	if err := os.Rename(f.Name(), out); err != nil {
		return 0, fmt.Errorf("data: %w", err)
	}
	return n, nil
}

// writeTokens writes a header and the tokens that produce emits.
func writeTokens(f *os.File, vocabSize int, produce func(emit func([]int32) error) error) (int64, error) {
	width := TokenBytes(vocabSize)
	w := bufio.NewWriterSize(f, 64<<10)
	w.Write(make([]byte, headerBytes)) // an error of w stays until it is asked for
	n := int64(0)
	err := produce(func(ids []int32) error {
		n += int64(len(ids))
		p := w.AvailableBuffer()
		for _, id := range ids {
			if len(p)+width > cap(p) {
				if _, err := w.Write(p); err != nil {
					return err
				}
				if err := w.Flush(); err != nil {
					return err
				}
				p = w.AvailableBuffer()
			}
			if width == 2 {
				p = binary.LittleEndian.AppendUint16(p, uint16(id))
			} else {
				p = binary.LittleEndian.AppendUint32(p, uint32(id))
			}
		}
		_, err := w.Write(p)
		return err
	})
	if err := cmp.Or(err, w.Flush()); err != nil {
		return 0, err
	}
	header := binary.LittleEndian.AppendUint32([]byte(fileMagic), uint32(width))
	header = binary.LittleEndian.AppendUint32(header, uint32(vocabSize))
	header = binary.LittleEndian.AppendUint64(header, uint64(n))
	_, err = f.WriteAt(header, 0)
	return n, err
}
