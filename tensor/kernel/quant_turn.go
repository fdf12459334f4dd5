package kernel

import (
	"encoding/binary"

	"loadline/tensor/quant"
)

// packHalves is packHalf of all rows of a panel at once, k elements each, one row after another: element i of row r goes to half-word
// 16·i+r. Taking four elements of four rows at a time makes whole words of both sides, several times as fast as row by row; vector code
// takes eight elements of all rows.
func packHalves(dst, src []byte, k int) {
	row := 2 * k
	dst, src = dst[:2*QuantPanel*k], src[:QuantPanel*row]
	i := turnHalvesFast(dst, src, k)
	for ; i+4 <= k; i += 4 {
		to := dst[2*QuantPanel*i:][:8*QuantPanel]
		for r := 0; r < QuantPanel; r += 4 {
			from := src[r*row+2*i:]
			a, b := binary.LittleEndian.Uint64(from), binary.LittleEndian.Uint64(from[row:])
			c, d := binary.LittleEndian.Uint64(from[2*row:]), binary.LittleEndian.Uint64(from[3*row:])
			const low = 0x0000ffff0000ffff
			ab0, ab1 := a&low|b&low<<16, a>>16&low|b&^low // elements 0 and 2 of a and b in turn, then 1 and 3
			cd0, cd1 := c&low|d&low<<16, c>>16&low|d&^low
			binary.LittleEndian.PutUint64(to[2*r:], ab0&0xffffffff|cd0<<32)
			binary.LittleEndian.PutUint64(to[2*QuantPanel+2*r:], ab1&0xffffffff|cd1<<32)
			binary.LittleEndian.PutUint64(to[4*QuantPanel+2*r:], ab0>>32|cd0&^0xffffffff)
			binary.LittleEndian.PutUint64(to[6*QuantPanel+2*r:], ab1>>32|cd1&^0xffffffff)
		}
	}
	for ; i < k; i++ {
		for r := range QuantPanel {
			copy(dst[2*(QuantPanel*i+r):][:2], src[r*row+2*i:])
		}
	}
}

// turning is how a panel of a format takes the blocks of all its rows at once.
type turning struct {
	runs []laneRun
	rest func(dst, src []byte, row int) // packs what is in no run of a row's block
}

// laneRun is n bytes of a row's block, from byte at on, whose dwords lie in lanes from byte to of the panel's block on, under a mask.
type laneRun struct {
	at, n, to int
	mask      uint32
}

// The formats that are turned; the others are packed row by row.
var (
	turnQ4_0 = turning{[]laneRun{{at: 2, n: 16}}, func(dst, src []byte, row int) { copy(dst[256+2*row:], src[:2]) }}
	turnQ4_1 = turning{[]laneRun{{at: 4, n: 16}}, func(dst, src []byte, row int) {
		copy(dst[256+2*row:], src[:2])
		copy(dst[288+2*row:], src[2:4])
	}}
	turnQ8_0 = turning{[]laneRun{{2, 32, 0, 0x80808080}}, func(dst, src []byte, row int) { copy(dst[512+2*row:], src[:2]) }}
	turnQ4_K = turning{[]laneRun{{at: 16, n: 128, to: 320}}, packScales}
	turnQ6_K = turning{[]laneRun{{0, 64, 288, 0}, {128, 32, 1312, 0}, {64, 64, 1824, 0}, {160, 32, 2848, 0}}, func(dst, src []byte, row int) {
		copy(dst[2*row:], src[208:210])
		for g := range 16 {
			dst[32+16*g+row] = src[192+g]
		}
	}}
)

func turningOf(t quant.Type) *turning {
	switch t {
	case quant.Q4_0, quant.IQ4_NL:
		return &turnQ4_0
	case quant.Q4_1:
		return &turnQ4_1
	case quant.Q8_0:
		return &turnQ8_0
	case quant.Q4_K:
		return &turnQ4_K
	case quant.Q6_K:
		return &turnQ6_K
	}
	return nil
}

// packPanel packs a panel from 16 rows of blocks of size bytes, which become panel bytes each.
func (t *turning) packPanel(dst, src []byte, blocks, size, panel int) {
	row := blocks * size
	for b := range blocks {
		to, from := dst[b*panel:(b+1)*panel], src[b*size:]
		for _, l := range t.runs {
			turnLanes(to[l.to:], from[l.at:], row, l.n, l.mask)
		}
		for r := range QuantPanel {
			t.rest(to, from[r*row:][:size], r)
		}
	}
}

// turnLanes is toLanesXor of n bytes of each of 16 rows, row bytes apart.
func turnLanes(dst, src []byte, row, n int, mask uint32) {
	if turnLanesFast(dst, src, row, n, mask) {
		return
	}
	for r := range QuantPanel {
		toLanesXor(dst, src[r*row:][:n], r, mask)
	}
}
