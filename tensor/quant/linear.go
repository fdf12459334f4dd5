package quant

import (
	"encoding/binary"
	"fmt"
)

// Elems is a tensor of plain elements as its file has them: F32, F16 or BF16.
type Elems struct {
	Type Type
	Data []byte
}

// Len is the number of elements.
func (e Elems) Len() int {
	if e.Type != F32 && e.Type != F16 && e.Type != BF16 {
		return -1 // equal to no number of elements that is wanted
	}
	return len(e.Data) / e.Type.BlockBytes()
}

// At returns an element.
func (e Elems) At(i int) float32 {
	var x [1]float32
	n := e.Type.BlockBytes()
	Decode(x[:], e.Type, e.Data[i*n:i*n+n])
	return x[0]
}

// lengths compares lengths of tensors with what their layer asks for: name, got, want.
func lengths(layout string, of ...any) error {
	for i := 0; i < len(of); i += 3 {
		if got, want := of[i+1].(int), of[i+2].(int); got != want {
			return fmt.Errorf("quant: %s: %s has %d elements, want %d", layout, of[i], got, want)
		}
	}
	return nil
}

func ceil(n, by int) int { return (n + by - 1) / by }

func word(p []byte, i int) uint32 { return binary.LittleEndian.Uint32(p[4*i:]) }

// bitsAt reads the code of so many bits from bit at on of a sequence of words, low bits first, the words stride apart.
func bitsAt(p []byte, first, stride, at, bits int) uint32 {
	i, off := at/32, at%32
	x := uint64(word(p, first+i*stride)) >> off
	if off+bits > 32 {
		x |= uint64(word(p, first+(i+1)*stride)) << (32 - off)
	}
	return uint32(x) & (1<<bits - 1)
}

// checkShape refuses what no layer has, so that products below fit an int.
func checkShape(layout string, n, k, bits, maxBits int) error {
	if n < 1 || k < 1 || k > 1<<31 || n > (1<<35)/k {
		return fmt.Errorf("quant: %s: a matrix of %d × %d", layout, n, k)
	}
	if bits < 1 || bits > maxBits {
		return fmt.Errorf("quant: %s: %d bits, want 1 to %d", layout, bits, maxBits)
	}
	return nil
}
