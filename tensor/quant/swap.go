package quant

import (
	"encoding/binary"
	"fmt"
)

// SwapBytes turns whole blocks from big-endian to little-endian, or back, in place. Formats for which gguf-py's
// gguf_convert_endian.py says nothing are refused: files of them exist in one order only.
func SwapBytes(t Type, p []byte) error {
	swap := func(fields ...int) error {
		for n := formats[t].bytes; len(p) >= n; p = p[n:] {
			for _, at := range fields {
				p[at], p[at+1] = p[at+1], p[at]
			}
		}
		return nil
	}
	switch t {
	case I8, MXFP4, NVFP4:
		return nil
	case F16, BF16, I16, Q4_0, Q8_0:
		return swap(0)
	case Q4_K:
		return swap(0, 2)
	case Q6_K:
		return swap(208)
	case F32, I32:
		for ; len(p) >= 4; p = p[4:] {
			binary.LittleEndian.PutUint32(p, binary.BigEndian.Uint32(p))
		}
		return nil
	case F64, I64:
		for ; len(p) >= 8; p = p[8:] {
			binary.LittleEndian.PutUint64(p, binary.BigEndian.Uint64(p))
		}
		return nil
	}
	return fmt.Errorf("quant: %v has no big-endian form", t)
}
