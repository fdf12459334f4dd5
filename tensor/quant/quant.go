// Package quant is the storage formats of weights: what the bytes of a block mean, as GGUF files have them, and what the tensors of a
// linear layer mean in the quantised checkpoints of Hugging Face (GPTQ, AWQ, PackedInt, Scaled, NF4; Layout says which).
//
// A Type stores a row of elements as blocks of a fixed number of elements in a fixed number of bytes. Decode turns blocks into
// float32, Encode does the reverse where the format can be written here. Each format's file draws its block and pins its size at
// compile time; multi-byte fields are little-endian.
//
// Invariants:
//   - Decode has the bits of gguf-py's dequantize: every product and sum is rounded to float32 on its own, in that order, never
//     fused, on every machine.
//   - Encode has the bits of gguf-py's quantize where that has an encoder, and else of ggml's reference encoder
//     (quantize_row_*_ref) compiled without contraction; it refuses what is not finite and what does not fit a block's scale.
//   - A layer whose Check passed is read without going outside its tensors.
//   - Decode, Encode and DecodeRow keep no state and allocate nothing. They are definitions, not the way to compute with weights.
//
// It does not multiply (see tensor/kernel), and knows neither files nor tensors.
//
// Sources: ggml-common.h and ggml-quants.c of llama.cpp; gguf-py 0.19 (gguf/quants.py); for MXFP4 the OCP Microscaling Formats
// specification 1.0.
package quant

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"loadline/tensor/dtype"
)

// Type is a storage format. Its number is the one that GGUF files have.
type Type uint32

// The storage formats. I8 to F64 are plain elements that Decode does not widen, since no weight is stored in them.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40

	numTypes = 41
)

// superElems is the elements in a block of the formats whose names end in K, of the IQ formats but IQ4_NL, and of the TQ ones.
const superElems = 256

// smallElems is the elements in a block of the others.
const smallElems = 32

// format is what is known of a Type. Of each function, both slices are whole blocks.
type format struct {
	name         string
	elems, bytes int // of a block
	decode       func(dst []float32, src []byte)
	encode       func(dst []byte, src []float32) bool // false if a scale does not fit
}

var formats = [numTypes]format{
	F32:  {name: "F32", elems: 1, bytes: 4, decode: decodeF32, encode: encodeF32},
	F16:  {name: "F16", elems: 1, bytes: 2, decode: decodeF16, encode: encodeF16},
	BF16: {name: "BF16", elems: 1, bytes: 2, decode: decodeBF16, encode: encodeBF16},
	F64:  {name: "F64", elems: 1, bytes: 8},
	I8:   {name: "I8", elems: 1, bytes: 1},
	I16:  {name: "I16", elems: 1, bytes: 2},
	I32:  {name: "I32", elems: 1, bytes: 4},
	I64:  {name: "I64", elems: 1, bytes: 8},

	Q4_0:   {name: "Q4_0", elems: smallElems, bytes: bytesQ4_0, decode: blocks(decodeQ4_0, smallElems, bytesQ4_0), encode: encoder(encodeQ4_0, smallElems, bytesQ4_0)},
	Q4_1:   {name: "Q4_1", elems: smallElems, bytes: bytesQ4_1, decode: blocks(decodeQ4_1, smallElems, bytesQ4_1), encode: encoder(encodeQ4_1, smallElems, bytesQ4_1)},
	Q5_0:   {name: "Q5_0", elems: smallElems, bytes: bytesQ5_0, decode: blocks(decodeQ5_0, smallElems, bytesQ5_0), encode: encoder(encodeQ5_0, smallElems, bytesQ5_0)},
	Q5_1:   {name: "Q5_1", elems: smallElems, bytes: bytesQ5_1, decode: blocks(decodeQ5_1, smallElems, bytesQ5_1), encode: encoder(encodeQ5_1, smallElems, bytesQ5_1)},
	Q8_0:   {name: "Q8_0", elems: smallElems, bytes: bytesQ8_0, decode: blocks(decodeQ8_0, smallElems, bytesQ8_0), encode: encoder(encodeQ8_0, smallElems, bytesQ8_0)},
	IQ4_NL: {name: "IQ4_NL", elems: smallElems, bytes: bytesIQ4_NL, decode: blocks(decodeIQ4_NL, smallElems, bytesIQ4_NL), encode: encoder(encodeIQ4_NL, smallElems, bytesIQ4_NL)},
	MXFP4:  {name: "MXFP4", elems: smallElems, bytes: bytesMXFP4, decode: blocks(decodeMXFP4, smallElems, bytesMXFP4), encode: encoder(encodeMXFP4, smallElems, bytesMXFP4)},
	NVFP4:  {name: "NVFP4", elems: elemsNVFP4, bytes: bytesNVFP4, decode: blocks(decodeNVFP4, elemsNVFP4, bytesNVFP4)},

	Q2_K:   {name: "Q2_K", elems: superElems, bytes: bytesQ2_K, decode: blocks(decodeQ2_K, superElems, bytesQ2_K), encode: encoder(encodeQ2_K, superElems, bytesQ2_K)},
	Q3_K:   {name: "Q3_K", elems: superElems, bytes: bytesQ3_K, decode: blocks(decodeQ3_K, superElems, bytesQ3_K), encode: encoder(encodeQ3_K, superElems, bytesQ3_K)},
	Q4_K:   {name: "Q4_K", elems: superElems, bytes: bytesQ4_K, decode: blocks(decodeQ4_K, superElems, bytesQ4_K), encode: encoder(encodeQ4_K, superElems, bytesQ4_K)},
	Q5_K:   {name: "Q5_K", elems: superElems, bytes: bytesQ5_K, decode: blocks(decodeQ5_K, superElems, bytesQ5_K), encode: encoder(encodeQ5_K, superElems, bytesQ5_K)},
	Q6_K:   {name: "Q6_K", elems: superElems, bytes: bytesQ6_K, decode: blocks(decodeQ6_K, superElems, bytesQ6_K), encode: encoder(encodeQ6_K, superElems, bytesQ6_K)},
	IQ4_XS: {name: "IQ4_XS", elems: superElems, bytes: bytesIQ4_XS, decode: blocks(decodeIQ4_XS, superElems, bytesIQ4_XS), encode: encoder(encodeIQ4_XS, superElems, bytesIQ4_XS)},

	IQ1_S:   {name: "IQ1_S", elems: superElems, bytes: bytesIQ1_S, decode: blocks(decodeIQ1_S, superElems, bytesIQ1_S)},
	IQ1_M:   {name: "IQ1_M", elems: superElems, bytes: bytesIQ1_M, decode: blocks(decodeIQ1_M, superElems, bytesIQ1_M)},
	IQ2_XXS: {name: "IQ2_XXS", elems: superElems, bytes: bytesIQ2_XXS, decode: blocks(decodeIQ2_XXS, superElems, bytesIQ2_XXS)},
	IQ2_XS:  {name: "IQ2_XS", elems: superElems, bytes: bytesIQ2_XS, decode: blocks(decodeIQ2_XS, superElems, bytesIQ2_XS)},
	IQ2_S:   {name: "IQ2_S", elems: superElems, bytes: bytesIQ2_S, decode: blocks(decodeIQ2_S, superElems, bytesIQ2_S)},
	IQ3_XXS: {name: "IQ3_XXS", elems: superElems, bytes: bytesIQ3_XXS, decode: blocks(decodeIQ3_XXS, superElems, bytesIQ3_XXS)},
	IQ3_S:   {name: "IQ3_S", elems: superElems, bytes: bytesIQ3_S, decode: blocks(decodeIQ3_S, superElems, bytesIQ3_S)},
	TQ1_0:   {name: "TQ1_0", elems: superElems, bytes: bytesTQ1_0, decode: blocks(decodeTQ1_0, superElems, bytesTQ1_0)},
	TQ2_0:   {name: "TQ2_0", elems: superElems, bytes: bytesTQ2_0, decode: blocks(decodeTQ2_0, superElems, bytesTQ2_0)},
}

// blocks returns one over many blocks.
func blocks(one func(dst []float32, src []byte), elems, bytes int) func([]float32, []byte) {
	return func(dst []float32, src []byte) {
		for ; len(dst) > 0; dst, src = dst[elems:], src[bytes:] {
			one(dst[:elems:elems], src[:bytes:bytes])
		}
	}
}

// encoder returns one over many blocks.
func encoder(one func(dst []byte, src []float32) bool, elems, bytes int) func([]byte, []float32) bool {
	return func(dst []byte, src []float32) bool {
		for ; len(src) > 0; dst, src = dst[bytes:], src[elems:] {
			if !one(dst[:bytes:bytes], src[:elems:elems]) {
				return false
			}
		}
		return true
	}
}

// Known tells whether t is a format of this package.
func (t Type) Known() bool { return t < numTypes && formats[t].name != "" }

// String is the name that GGUF's tools print.
func (t Type) String() string {
	if !t.Known() {
		return fmt.Sprintf("type %d", uint32(t))
	}
	return formats[t].name
}

// Parse returns the format of that name, in letters of either case.
func Parse(name string) (Type, error) {
	for i, f := range formats {
		if f.name != "" && strings.EqualFold(f.name, name) {
			return Type(i), nil
		}
	}
	return 0, fmt.Errorf("quant: unknown type %q", name)
}

// BlockElems is the elements in a block; 1 for plain elements.
func (t Type) BlockElems() int { return formats[t].elems }

// BlockBytes is the bytes of a block.
func (t Type) BlockBytes() int { return formats[t].bytes }

// Bytes is the bytes that n elements take, n a multiple of BlockElems, and whether an int64 holds it.
func (t Type) Bytes(n int64) (int64, bool) {
	blocks := n / int64(formats[t].elems)
	if n < 0 || blocks > math.MaxInt64/int64(formats[t].bytes) {
		return 0, false
	}
	return blocks * int64(formats[t].bytes), true
}

// CanDecode tells whether Decode takes t.
func (t Type) CanDecode() bool { return t.Known() && formats[t].decode != nil }

// CanEncode tells whether Encode takes t.
func (t Type) CanEncode() bool { return t.Known() && formats[t].encode != nil }

// Fallback is what llama.cpp stores instead of t when a row is no multiple of its 256 elements (llama-quant.cpp,
// tensor_type_fallback); t itself where blocks are smaller.
func (t Type) Fallback() Type {
	switch t {
	case Q2_K, Q3_K, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_XS, TQ1_0, TQ2_0:
		return IQ4_NL
	case Q4_K:
		return Q5_0
	case Q5_K:
		return Q5_1
	case Q6_K:
		return Q8_0
	}
	return t
}

// check panics unless elems elements are whole blocks that take n bytes.
func (t Type) check(op string, elems, n int) {
	if !t.Known() {
		panic("quant: " + op + ": unknown " + t.String())
	}
	f := &formats[t]
	if elems%f.elems != 0 || elems/f.elems*f.bytes != n {
		panic(fmt.Sprintf("quant: %s: %d elements of %v in %d bytes", op, elems, t, n))
	}
}

// Decode widens the blocks of src to dst, exactly as many elements.
func Decode(dst []float32, t Type, src []byte) {
	t.check("Decode", len(dst), len(src))
	if formats[t].decode == nil {
		panic("quant: Decode: cannot widen " + t.String())
	}
	formats[t].decode(dst, src)
}

// maxElem is the largest magnitude that Encode takes for a format whose scales are binary16: Q8_0 reaches 65504·127.
const maxElem = 1 << 23

// Encode narrows src to the blocks of dst, exactly as many. Into a block of several, every element must be finite and small enough for
// the block's scale to be a finite binary16; dst is undefined if not.
func Encode(dst []byte, t Type, src []float32) error {
	t.check("Encode", len(src), len(dst))
	f := &formats[t]
	if f.encode == nil {
		return fmt.Errorf("quant: %v cannot be written", t)
	}
	if f.elems > 1 {
		for i, x := range src {
			switch {
			case x-x != 0:
				return fmt.Errorf("quant: element %d is %v, want a finite one for %v", i, x, t)
			case abs(x) > maxElem && t != MXFP4:
				return fmt.Errorf("quant: element %d is %v, too large for %v", i, x, t)
			}
		}
	}
	if !f.encode(dst, src) {
		return fmt.Errorf("quant: an element is too large for %v", t)
	}
	return nil
}

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func encodeF32(dst []byte, src []float32) bool {
	for i, x := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
	}
	return true
}

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func encodeF16(dst []byte, src []float32) bool {
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], dtype.ToF16(x))
	}
	return true
}

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = dtype.FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func encodeBF16(dst []byte, src []float32) bool {
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], dtype.ToBF16(x))
	}
	return true
}

// half reads a binary16 scale.
func half(p []byte) float32 { return dtype.FromF16(binary.LittleEndian.Uint16(p)) }

// putHalf writes a scale as binary16, and tells whether it is finite there.
func putHalf(p []byte, x float32) bool {
	h := dtype.ToF16(x)
	binary.LittleEndian.PutUint16(p, h)
	return h&0x7c00 != 0x7c00
}

// inverse is 1/d, or 0 where that is not finite: such a scale is 0 as binary16, and no code changes what is read back.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	if r := 1 / d; r-r == 0 {
		return r
	}
	return 0
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
