// Package dtype names the element types of tensors, their sizes, and the conversions between them and float32.
//
// Conversions to narrower floats round to nearest, ties to even (IEEE 754-2019 §4.3.1). The package does no
// arithmetic. F64 exists for the reference device alone. What the bytes of a block type mean is tensor/quant's to say.
package dtype

import (
	"fmt"
	"strings"
)

// Type is an element type.
type Type uint8

// The element types. The zero Type is F32. From Q4_0 on they are block types: elements of a row lie in blocks of a fixed number of
// elements in a fixed number of bytes, as GGUF files have them. From G4_32 on they are integer codes of 4 or 8 bits with a scale and a
// zero point for so many elements, which is what GPTQ, AWQ and others amount to; F8_32 to F8_128 are E4M3 with a scale for so many, NF4_64
// codes of bitsandbytes' sixteen values with one. Only weights have block types.
const (
	F32 Type = iota
	F16
	BF16
	F8E4M3
	F8E5M2
	I8
	I4
	I32
	F64
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	IQ4_NL
	IQ4_XS
	MXFP4
	G4_32
	G4_64
	G4_128
	G8_32
	G8_64
	G8_128
	F8_32
	F8_64
	F8_128
	NF4_64
	numTypes
)

var names = [numTypes]string{
	"f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "i4", "i32", "f64",
	"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4",
	"g4_32", "g4_64", "g4_128", "g8_32", "g8_64", "g8_128", "f8_32", "f8_64", "f8_128", "nf4_64",
}
var bits = [numTypes]int{32, 16, 16, 8, 8, 8, 4, 32, 64}

// block is the elements and bytes of a block, and the bytes of the blocks of PanelRows rows where they lie packed: a little more
// where six bits of scales become bytes.
type block struct{ elems, bytes, panel int64 }

var blocks = [numTypes]block{
	Q4_0: {32, 18, 288}, Q4_1: {32, 20, 320}, Q5_0: {32, 22, 352}, Q5_1: {32, 24, 384}, Q8_0: {32, 34, 544}, IQ4_NL: {32, 18, 288},
	MXFP4: {32, 17, 272}, Q2_K: {256, 84, 1344}, Q3_K: {256, 110, 1824}, Q4_K: {256, 144, 2368}, Q5_K: {256, 176, 2880},
	Q6_K: {256, 210, 3360}, IQ4_XS: {256, 136, 2208},
	G4_32: {32, 24, 384}, G4_64: {64, 40, 640}, G4_128: {128, 72, 1152}, G8_32: {32, 40, 640}, G8_64: {64, 72, 1152}, G8_128: {128, 136, 2176},
	F8_32: {32, 36, 576}, F8_64: {64, 68, 1088}, F8_128: {128, 132, 2112}, NF4_64: {64, 36, 576},
}

// PanelRows is the rows of a packed matrix that lie side by side.
const PanelRows = 16

// String is the lower-case short name, as in a program's text.
func (t Type) String() string {
	if t < numTypes {
		return names[t]
	}
	return fmt.Sprintf("dtype(%d)", uint8(t))
}

// Block tells whether t is a block type.
func (t Type) Block() bool { return t >= Q4_0 && t < numTypes }

// Rounds tells whether rows that meet a weight of type t are rounded to eight bits first: where products are of integers.
func (t Type) Rounds() bool { return t >= Q4_0 && t < F8_32 }

// BlockElems is the elements in a block of t; 1 where t is no block type.
func (t Type) BlockElems() int {
	if t.Block() {
		return int(blocks[t].elems)
	}
	return 1
}

// Bits is the number of bits that one element takes; 0 of a block type, whose elements take no whole number.
func (t Type) Bits() int { return bits[t] }

// Bytes is the number of bytes that n elements take, rounded up to a whole byte or block. Of a block type that is what a file has; in
// memory it takes PackedBytes.
func (t Type) Bytes(n int64) int64 {
	if t.Block() {
		b := blocks[t]
		return (n + b.elems - 1) / b.elems * b.bytes
	}
	return (n*int64(bits[t]) + 7) / 8
}

// PackedBytes is the bytes in memory of a matrix of a block type: whole panels of PanelRows rows (kernel.QuantWeights draws them).
func (t Type) PackedBytes(rows, cols int64) int64 {
	b := blocks[t]
	return (rows + PanelRows - 1) / PanelRows * ((cols + b.elems - 1) / b.elems) * b.panel
}

// Float tells whether t is a floating-point type.
func (t Type) Float() bool { return t <= F8E5M2 || t == F64 }

// Parse returns the type named s.
func Parse(s string) (Type, error) {
	for i, n := range names {
		if n == s {
			return Type(i), nil
		}
	}
	return 0, fmt.Errorf("dtype: unknown type %q, want one of %s", s, strings.Join(names[:], " "))
}
