package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"loadline/internal/regular"
)

// A token file is a header of 24 bytes and the tokens, all little-endian:
//
//	┌──────────┬─────────────┬────────────┬────────────┬───────────────────┐
//	│ 8: magic │ 4: bytes of │ 4: size of │ 8: number  │ tokens, 2 or 4    │
//	│          │ a token     │ vocabulary │ of tokens  │ bytes each        │
//	└──────────┴─────────────┴────────────┴────────────┴───────────────────┘
const (
	fileMagic   = "LLTOKEN1"
	headerBytes = 24
)

// TokenBytes returns the bytes that a token of a vocabulary takes in a token file.
func TokenBytes(vocabSize int) int {
	if vocabSize <= 1<<16 {
		return 2
	}
	return 4
}

// File is a Source in a token file.
type File struct {
	f     *os.File
	width int // bytes of a token
	vocab int // every token is below it
	n     int // tokens
}

// Open opens a token file. The caller closes it.
func Open(path string) (*File, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	t := &File{f: f}
	if err := t.readHeader(); err != nil {
		f.Close() // read only; err says what is wrong
		return nil, fmt.Errorf("data: %s: %w", path, err)
	}
	return t, nil
}

func (t *File) readHeader() error {
	var header [headerBytes]byte
	if _, err := io.ReadFull(t.f, header[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("too short for a token file")
		}
		return err
	}
	if string(header[:8]) != fileMagic {
		return errors.New("not a token file")
	}
	width := binary.LittleEndian.Uint32(header[8:])
	vocab := binary.LittleEndian.Uint32(header[12:])
	n := binary.LittleEndian.Uint64(header[16:])
	if vocab > 1<<30 || int(width) != TokenBytes(int(vocab)) {
		return fmt.Errorf("a token has %d bytes and the vocabulary %d tokens, which do not go together", width, vocab)
	}
	st, err := t.f.Stat()
	if err != nil {
		return err
	}
	if have := st.Size() - headerBytes; n > 1<<40 || have != int64(n)*int64(width) {
		return fmt.Errorf("the header says %d tokens of %d bytes, the file has %d bytes for them", n, width, have)
	}
	t.width, t.vocab, t.n = int(width), int(vocab), int(n)
	return nil
}

// Len returns the number of tokens.
func (t *File) Len() int { return t.n }

// VocabSize returns the size of the vocabulary that the tokens are from.
func (t *File) VocabSize() int { return t.vocab }

// Read fills dst with the tokens from place at on. It needs no buffer: the bytes are read into dst and widened there, from
// the back.
func (t *File) Read(dst []int32, at int) error {
	if err := checkRange(len(dst), at, t.n); err != nil {
		return err
	}
	if len(dst) == 0 {
		return nil
	}
	p := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)*t.width) // dst has 4 bytes a token
	if _, err := t.f.ReadAt(p, headerBytes+int64(at)*int64(t.width)); err != nil {
		return fmt.Errorf("data: reading tokens %d to %d: %w", at, at+len(dst), err)
	}
	for i := len(dst) - 1; i >= 0; i-- {
		id := uint32(0)
		if t.width == 2 {
			id = uint32(binary.LittleEndian.Uint16(p[2*i:]))
		} else {
			id = binary.LittleEndian.Uint32(p[4*i:])
		}
		if id >= uint32(t.vocab) {
			return fmt.Errorf("data: token %d is %d, the vocabulary has %d", at+i, id, t.vocab)
		}
		dst[i] = int32(id)
	}
	return nil
}

// Close closes the file.
func (t *File) Close() error {
	if err := t.f.Close(); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}
