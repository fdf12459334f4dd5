package parquet

import (
	"encoding/binary"
	"errors"
	"io"
)

var errLevels = errors.New("its run lengths are damaged")

// hybrid reads numbers that are either repeated or packed in bits, as definition levels and indices of a dictionary are: "RLE" in the
// format's words. A run begins with its length; the last bit of that says which of the two it is.
type hybrid struct {
	r     io.ByteReader
	width uint // bits of a number, 32 at most

	repeats uint64 // of value still to be given
	value   uint32
	packed  uint64 // numbers still to be unpacked
	bits    uint64 // bits that have been read and not unpacked
	n       uint   // how many
}

func (h *hybrid) reset(r io.ByteReader, width uint) { *h = hybrid{r: r, width: width} }

// next returns the next number.
func (h *hybrid) next() (uint32, error) {
	for h.repeats == 0 && h.packed == 0 {
		if err := h.run(); err != nil {
			return 0, cut(err)
		}
	}
	if h.repeats > 0 {
		h.repeats--
		return h.value, nil
	}
	for h.n < h.width {
		b, err := h.r.ReadByte()
		if err != nil {
			return 0, cut(err)
		}
		h.bits |= uint64(b) << h.n
		h.n += 8
	}
	v := uint32(h.bits & (1<<h.width - 1))
	h.bits >>= h.width
	h.n -= h.width
	h.packed--
	return v, nil
}

// run begins a run.
func (h *hybrid) run() error {
	x, err := binary.ReadUvarint(h.r)
	if err != nil {
		return err
	}
	if x>>1 > 1<<31 {
		return errLevels
	}
	if x&1 == 1 {
		h.packed, h.bits, h.n = x>>1*8, 0, 0
		return nil
	}
	h.repeats, h.value = x>>1, 0
	for i := range (h.width + 7) / 8 {
		b, err := h.r.ReadByte()
		if err != nil {
			return err
		}
		h.value |= uint32(b) << (8 * i)
	}
	return nil
}

// delta reads lengths that are stored as differences, in blocks of miniblocks: "DELTA_BINARY_PACKED". It calls f with each, and stops
// when that returns an error.
func delta(r io.ByteReader, want int64, f func(n int64) error) error {
	var head [3]uint64
	for i := range head {
		x, err := binary.ReadUvarint(r)
		if err != nil {
			return cut(err)
		}
		head[i] = x
	}
	block, minis, total := head[0], head[1], head[2]
	value, err := binary.ReadVarint(r)
	if err != nil {
		return cut(err)
	}
	if block == 0 || block > 1<<16 || minis == 0 || minis > block || block%minis != 0 || block/minis%8 != 0 || total > 1<<31 || int64(total) != want {
		return errLevels
	}
	if total == 0 {
		return nil
	}
	if err := f(value); err != nil {
		return err
	}
	widths := make([]byte, minis) // 64 KiB at most //mem:ok bounded by the check of block
	for left := total - 1; left > 0; {
		least, err := binary.ReadVarint(r)
		if err != nil {
			return cut(err)
		}
		for i := range widths {
			if widths[i], err = r.ReadByte(); err != nil {
				return cut(err)
			}
		}
		for _, width := range widths {
			if left == 0 {
				break
			}
			if width > 32 { // lengths have 32 bits, and so have their differences above the least
				return errLevels
			}
			bits, n := uint64(0), uint(0)
			for i := uint64(0); i < block/minis; i++ {
				for n < uint(width) {
					b, err := r.ReadByte()
					if err != nil {
						return cut(err)
					}
					bits |= uint64(b) << n
					n += 8
				}
				if left > 0 { // what follows fills the miniblock up
					value += least + int64(bits&(1<<width-1))
					left--
					if err := f(value); err != nil {
						return err
					}
				}
				bits >>= width
				n -= uint(width)
			}
		}
	}
	return nil
}
