package ref

import (
	"math"

	"loadline/tensor/quant"
)

// groupElems is the elements of a row that share a scale when rows are rounded to eight bits for a weight of a block type.
const groupElems = 32

// eightBits is x as it meets a weight of a block type (dtype.Type.Rounds): each group's elements as whole multiples, −127 to 127, of the group's largest
// magnitude over 127. It is computed in float32, halves to even; a group whose scale has no finite inverse is zeros, and a NaN makes its group NaN.
func eightBits[T real](x []T) []T {
	out := make([]T, len(x)) //mem:ok ref is the definition: it is clear before it is small
	for g := 0; g < len(x); g += groupElems {
		most := float32(0)
		for _, v := range x[g : g+groupElems] {
			if a := float32(math.Abs(float64(v))); a > most || a != a {
				most = a
			}
			if most != most {
				break
			}
		}
		d := most / 127
		r := 1 / d
		if math.IsInf(float64(r), 0) || r != r {
			r = 0
		}
		for i, v := range x[g : g+groupElems] {
			out[g+i] = T(float64(d) * math.RoundToEven(float64(float32(v)*r)))
		}
	}
	return out
}

// decodeBlocks widens whole blocks of a file to elements from at on.
func (s *store[T]) decodeBlocks(src []byte, at int) {
	if g, ok := quant.GroupOf(s.dt); ok {
		var codes [128]uint8
		for ; len(src) > 0; src, at = src[g.Bytes():], at+g.Elems {
			scale, zero := g.Get(codes[:g.Elems], src[:g.Bytes()])
			for i, c := range codes[:g.Elems] {
				if s.f[at+i] = T(float64(scale) * float64(float32(c)-zero)); g.Table != quant.Integers {
					s.f[at+i] = T(g.Value(c, scale, 0))
				}
			}
		}
		return
	}
	f, _ := quant.Of(s.dt)
	var block [256]float32
	n := f.BlockElems()
	for ; len(src) > 0; src, at = src[f.BlockBytes():], at+n {
		quant.Decode(block[:n], f, src[:f.BlockBytes()])
		for i, x := range block[:n] {
			s.f[at+i] = T(x)
		}
	}
}

// weighed is a row as it meets weight w.
func weighed[T real](row []T, w *view[T]) []T {
	if w.typ.DType.Rounds() {
		return eightBits(row)
	}
	return row
}
