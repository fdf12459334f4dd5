package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"loadline/tensor/dtype"
)

// Group is integer codes of Bits bits, 4 or 8, with a scale and a zero point for every Elems of them, 32, 64 or 128. No file has it: it is
// what a layer of integer codes is handed over in (see Codes), a block for each group. x = scale·(code − zero)
//
//	┌───────┬──────┬────────────────────────────────────────────────────────────────────────┐
//	│ scale │ zero │ of each 32: 16 bytes, the nibbles of elements i and i+16, or 32 bytes  │
//	│ f32   │ f32  │                                                                        │
//	└───────┴──────┴────────────────────────────────────────────────────────────────────────┘
type Group struct{ Bits, Elems int }

// groups are the types that a graph gives them.
var groups = [...]struct {
	dtype dtype.Type
	group Group
}{
	{dtype.G4_32, Group{4, 32}}, {dtype.G4_64, Group{4, 64}}, {dtype.G4_128, Group{4, 128}},
	{dtype.G8_32, Group{8, 32}}, {dtype.G8_64, Group{8, 64}}, {dtype.G8_128, Group{8, 128}},
}

// GroupOf is the group of a tensor's type, and false where it has none.
func GroupOf(t dtype.Type) (Group, bool) {
	for _, g := range groups {
		if g.dtype == t {
			return g.group, true
		}
	}
	return Group{}, false
}

// DType is the type of a tensor of such groups, and false where there is none. A longer group is several, of the same scale and zero.
func (g Group) DType() (dtype.Type, bool) {
	for _, x := range groups {
		if x.group == g {
			return x.dtype, true
		}
	}
	return 0, false
}

// Bytes is the bytes of a block.
func (g Group) Bytes() int { return 8 + g.Elems*g.Bits/8 }

// check panics unless block and codes are a block's.
func (g Group) check(block, n int) {
	if block != g.Bytes() || n != g.Elems || g.Elems%smallElems != 0 || g.Bits != 4 && g.Bits != 8 {
		panic(fmt.Sprintf("quant: Group: %d codes of %d bits in %d bytes", n, g.Bits, block))
	}
}

// Put writes a block.
func (g Group) Put(block []byte, codes []uint8, scale, zero float32) {
	g.check(len(block), len(codes))
	binary.LittleEndian.PutUint32(block, math.Float32bits(scale))
	binary.LittleEndian.PutUint32(block[4:], math.Float32bits(zero))
	block = block[8:]
	if g.Bits == 8 {
		copy(block, codes)
		return
	}
	for ; len(codes) > 0; block, codes = block[16:], codes[32:] {
		for i := range 16 {
			block[i] = codes[i]&15 | codes[16+i]<<4
		}
	}
}

// Get reads a block.
func (g Group) Get(codes []uint8, block []byte) (scale, zero float32) {
	g.check(len(block), len(codes))
	scale, zero = math.Float32frombits(binary.LittleEndian.Uint32(block)), math.Float32frombits(binary.LittleEndian.Uint32(block[4:]))
	block = block[8:]
	if g.Bits == 8 {
		copy(codes, block)
		return scale, zero
	}
	for ; len(codes) > 0; block, codes = block[16:], codes[32:] {
		for i := range 16 {
			codes[i], codes[16+i] = block[i]&15, block[i]>>4
		}
	}
	return scale, zero
}
