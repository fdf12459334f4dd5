package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"loadline/tensor/dtype"
)

// Group is codes of Bits bits, 4 or 8, with a scale for every Elems of them, 32, 64 or 128. No file has it: it is what a layer of a
// quantised checkpoint is handed over in (see Codes), a block for each group. Codes are integers with a zero point, x = scale·(code − zero),
// or places in a table of values, x = scale·value, and then there is no zero.
//
//	┌───────┬──────┬────────────────────────────────────────────────────────────────────────┐
//	│ scale │ zero │ of each 32: 16 bytes, the nibbles of elements i and i+16, or 32 bytes  │
//	│ f32   │ f32  │                                                                        │
//	└───────┴──────┴────────────────────────────────────────────────────────────────────────┘
type Group struct {
	Bits, Elems int
	Table       Table
}

// Table is what codes stand for.
type Table uint8

// The tables: none for integers, all bytes of E4M3, and bitsandbytes' nf4.
const (
	Integers Table = iota
	TableE4M3
	TableNF4
)

// valuesNF4 is what bitsandbytes has for nf4: quantiles of the normal distribution (Dettmers et al., arXiv 2305.14314, appendix E).
var valuesNF4 = [16]float32{
	-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
	0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
}

// Values is the table; of integers there is none.
func (t Table) Values() []float32 {
	switch t {
	case TableE4M3:
		return valuesE4M3[:]
	case TableNF4:
		return valuesNF4[:]
	}
	return nil
}

var valuesE4M3 = func() (v [256]float32) {
	for i := range v {
		v[i] = dtype.FromE4M3(uint8(i))
	}
	return v
}()

// groups are the types that a graph gives them.
var groups = [...]struct {
	dtype dtype.Type
	group Group
}{
	{dtype.G4_32, Group{4, 32, Integers}}, {dtype.G4_64, Group{4, 64, Integers}}, {dtype.G4_128, Group{4, 128, Integers}},
	{dtype.G8_32, Group{8, 32, Integers}}, {dtype.G8_64, Group{8, 64, Integers}}, {dtype.G8_128, Group{8, 128, Integers}},
	{dtype.F8_32, Group{8, 32, TableE4M3}}, {dtype.F8_64, Group{8, 64, TableE4M3}}, {dtype.F8_128, Group{8, 128, TableE4M3}},
	{dtype.NF4_64, Group{4, 64, TableNF4}},
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

// head is the bytes of a block before its codes.
func (g Group) head() int {
	if g.Table == Integers {
		return 8
	}
	return 4
}

// Bytes is the bytes of a block.
func (g Group) Bytes() int { return g.head() + g.Elems*g.Bits/8 }

// Value is an element of a group.
func (g Group) Value(code uint8, scale, zero float32) float32 {
	if v := g.Table.Values(); v != nil {
		return scale * v[code]
	}
	return scale * (float32(code) - zero)
}

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
	if g.Table == Integers {
		binary.LittleEndian.PutUint32(block[4:], math.Float32bits(zero))
	}
	block = block[g.head():]
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
	scale = math.Float32frombits(binary.LittleEndian.Uint32(block))
	if g.Table == Integers {
		zero = math.Float32frombits(binary.LittleEndian.Uint32(block[4:]))
	}
	block = block[g.head():]
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
