//go:build !linux

package arena

import (
	"os"

	"loadline/mem"
)

// adviseHuge does nothing: huge pages are not a matter of advice here.
func adviseHuge([]byte, bool) error { return nil }

// memoryFile returns a temporary file of n bytes that has no name any more.
func memoryFile(n mem.Bytes) (*os.File, error) {
	f, err := os.CreateTemp("", "arena-*")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil {
		err = f.Truncate(int64(n))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
