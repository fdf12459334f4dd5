package quant

import (
	"fmt"
	"math"
)

// Byte is the type of a weight of one byte.
type Byte uint8

// The types of weights of one byte.
const (
	ByteInt8   Byte = iota
	ByteF8E4M3      // without infinities, as OCP's; NaN is 0x7f and 0xff
	ByteF8E5M2
)

// value is the meaning of a byte.
func (b Byte) value(x uint8) float32 {
	switch b {
	case ByteF8E4M3:
		return fromE4M3(x)
	case ByteF8E5M2:
		return half([]byte{0, x}) // a binary16 cut short
	}
	return float32(int8(x))
}

func fromE4M3(x uint8) float32 {
	e, m := int(x>>3&15), float64(x&7)
	var v float64
	switch {
	case x&0x7f == 0x7f:
		return float32(math.NaN())
	case e == 0:
		v = math.Ldexp(m, -9)
	default:
		v = math.Ldexp(1+m/8, e-7)
	}
	if x&0x80 != 0 {
		v = -v
	}
	return float32(v)
}

// Scaled is W (N,K) of a linear layer with a byte an element: compressed-tensors' int-quantized and float-quantized (naive-quantized),
// and the fp8 of DeepSeek's checkpoints, whose weight_scale_inv is a scale like the others. Element (n,k) is scale·(weight − zero),
// one scale for RowBlock × ColBlock of them: N × K for the whole, 1 × K for a channel, 1 × a group, 128 × 128 for a block.
type Scaled struct {
	Byte               Byte
	N, K               int
	RowBlock, ColBlock int
	Weight             []byte // [N, K]
	Scale              Elems  // [⌈N/RowBlock⌉, ⌈K/ColBlock⌉]
	Zero               []byte // int8, as many as scales; nil where symmetric
}

// Check compares lengths with the shape.
func (s *Scaled) Check() error {
	if err := checkShape("scaled", s.N, s.K, 8, 8); err != nil {
		return err
	}
	if s.RowBlock < 1 || s.ColBlock < 1 {
		return fmt.Errorf("quant: scaled: blocks of %d × %d", s.RowBlock, s.ColBlock)
	}
	scales := ceil(s.N, s.RowBlock) * ceil(s.K, s.ColBlock)
	if s.Zero != nil && len(s.Zero) != scales {
		return fmt.Errorf("quant: scaled: weight_zero_point has %d elements, want %d", len(s.Zero), scales)
	}
	return lengths("scaled", "weight", len(s.Weight), s.N*s.K, "scale", s.Scale.Len(), scales)
}

// DecodeRow writes row n of W.
func (s *Scaled) DecodeRow(dst []float32, n int) {
	first := n / s.RowBlock * ceil(s.K, s.ColBlock)
	for k, x := range s.Weight[n*s.K : (n+1)*s.K] {
		at := first + k/s.ColBlock
		v := s.Byte.value(x)
		if s.Zero != nil {
			v -= float32(int8(s.Zero[at]))
		}
		dst[k] = v * s.Scale.At(at)
	}
}
