package mem

import (
	"fmt"

	"loadline/internal/bytesize"
)

// Bytes is an amount of memory.
type Bytes int64

// KiB, MiB and GiB are the binary multiples of a byte.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
)

// String returns b with at most two decimals: "1.5 GiB", "96 MiB", "512 B".
func (b Bytes) String() string { return bytesize.Format(int64(b)) }

// ParseBytes reads a size as a user types it: "512MiB", "24GB", or a bare number of bytes.
func ParseBytes(s string) (Bytes, error) {
	n, err := bytesize.Parse(s)
	if err != nil {
		return 0, fmt.Errorf("mem: %w", err)
	}
	return Bytes(n), nil
}
