package quant

// EncodeRows is Encode a block at a time, for values that nobody may refuse, such as the keys of a model that went astray: a block
// that Encode refuses becomes 32 times NaN. It is for Q8_0 and Q4_0, whose first two bytes are the scale.
func EncodeRows(dst []byte, t Type, src []float32) {
	t.check("EncodeRows", len(src), len(dst))
	if t != Q8_0 && t != Q4_0 {
		panic("quant: EncodeRows: " + t.String() + " is not for rows that are written as they come")
	}
	n := formats[t].bytes
	for ; len(src) > 0; dst, src = dst[n:], src[smallElems:] {
		if b := dst[:n:n]; !fits(src[:smallElems]) || !formats[t].encode(b, src[:smallElems]) {
			clear(b)
			b[0], b[1] = 0x00, 0x7e // a NaN
		}
	}
}

// fits tells whether every element is finite and not too large for a block.
func fits(src []float32) bool {
	for _, x := range src {
		if !(abs(x) <= maxElem) {
			return false
		}
	}
	return true
}
