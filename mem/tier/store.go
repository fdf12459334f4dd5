package tier

import (
	"fmt"
	"io"

	"loadline/mem"
)

// Store is bytes at offsets, as a file has them. ReadAt and WriteAt move the whole of p or return an error.
type Store interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Close() error
}

// MemStore is a Store in memory that belongs to its caller, usually an arena. Calls that overlap in offsets must not overlap in
// time.
type MemStore struct {
	bytes []byte
}

// NewMemStore returns a store of b's bytes as they are.
func NewMemStore(b []byte) *MemStore { return &MemStore{bytes: b} }

// ReadAt copies from the store.
func (m *MemStore) ReadAt(p []byte, off int64) (int, error) {
	if err := m.check(p, off); err != nil {
		return 0, err
	}
	return copy(p, m.bytes[off:]), nil
}

// WriteAt copies into the store.
func (m *MemStore) WriteAt(p []byte, off int64) (int, error) {
	if err := m.check(p, off); err != nil {
		return 0, err
	}
	return copy(m.bytes[off:], p), nil
}

// Close does nothing: the memory is the caller's.
func (m *MemStore) Close() error { return nil }

func (m *MemStore) check(p []byte, off int64) error {
	if off < 0 || off > int64(len(m.bytes)) || int64(len(p)) > int64(len(m.bytes))-off {
		return fmt.Errorf("tier: memory store of %v: %d bytes at offset %d: %w", mem.Bytes(len(m.bytes)), len(p), off, io.ErrUnexpectedEOF)
	}
	return nil
}
