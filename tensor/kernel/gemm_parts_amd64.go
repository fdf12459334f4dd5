//go:build amd64 && !purego

package kernel

import "unsafe"

// partTile is the words of a tile. For each 32 of K there are three tiles of A for each 16 rows, one of each part, and of B's panel
// two of each part.
const partTile = amxRows * amxK

// avx512Parts is the product of Parts.
var avx512Parts = product{m: amxBlock, n: amxBlock, kb: partsKB, pairs: true, unit: amxK / 2, pieces: partsOf, nb: partsN, mb: partsM, packB: packBParts,
	tiles: &tiles{pack: packStripsParts, block: blockParts}}

// stripStep is the words of a strip of so many rows for 32 of K.
func stripStep(rows int) int { return roundUp(rows, amxRows) * amxK * partsOf }

// packStripsParts makes such tiles for each strip of 32 rows and each 32 of K, the last k filled up with zeros.
func packStripsParts(dst []float32, a operand) {
	blocks := (a.cols + amxK - 1) / amxK
	for i := 0; i < a.rows; i += amxBlock {
		r := min(amxBlock, a.rows-i)
		packAParts(words(dst)[blocks*stripStep(i):][:blocks*stripStep(r)], a.slice(i, i+r, 0, a.cols), r)
	}
}

// packAParts packs one strip.
func packAParts(dst []uint16, a operand, rows int) {
	step := stripStep(rows)
	at := func(i int) int { return i/amxRows*partsOf*partTile + i%amxRows*amxK }
	switch {
	case a.colStride == 1:
		for i := range rows {
			tileAPartsAMX(a.cols, &a.f32[i*a.rowStride], &dst[at(i)], 2*step)
		}
	case a.rowStride == 1:
		for k := 0; k < a.cols; k += amxK {
			for i := 0; i < rows; i += amxRows {
				tileAColsPartsAMX(min(amxK, a.cols-k), &a.f32[i+k*a.colStride], 4*a.colStride, min(amxRows, rows-i), &dst[k/amxK*step+at(i)])
			}
		}
	default:
		for k := 0; k < a.cols; k += amxK {
			for i := range rows {
				d := dst[k/amxK*step+at(i):]
				for q := range amxK {
					var x [partsOf]uint16
					if k+q < a.cols {
						x = split(a.f32[i*a.rowStride+(k+q)*a.colStride])
					}
					for p, h := range x {
						d[p*partTile+q] = h
					}
				}
			}
		}
	}
}

// packBParts fills panels of 32 columns with steps of two k, the earlier in the low halves.
func packBParts(dst []float32, b operand, stride int) {
	const n, block = amxBlock, amxBlock * amxK / 2 * partsOf // dwords for 32 of K
	for k := 0; k < b.rows; k += amxK {
		kc := min(amxK, b.rows-k)
		at := func(j int) *uint32 {
			return (*uint32)(unsafe.Pointer(&dst[j/n*stride+k/amxK*block+j%n/amxRows*partTile/2]))
		}
		first := func(j int) *float32 { return &b.f32[k*b.rowStride+j*b.colStride] }
		switch {
		case b.colStride == 1:
			j := 0
			for ; j+4*n <= b.cols; j += 4 * n {
				tileBRowsParts4AMX(kc, first(j), 4*b.rowStride, at(j), 4*stride)
			}
			for ; j < b.cols; j += n {
				tileBRowsPartsAMX(kc, first(j), 4*b.rowStride, min(n, b.cols-j), at(j))
			}
		case b.rowStride == 1:
			for j := 0; j < b.cols; j += n / 2 { // half a panel a call, which fills up with zeros itself
				tileBColsPartsAMX(kc, first(j), 4*b.colStride, min(n/2, b.cols-j), at(j))
			}
			continue
		default:
			for j := range b.cols {
				d := unsafe.Slice(at(j), partTile*partsOf)[j%amxRows:]
				for q := 0; q < kc; q += 2 {
					var later [partsOf]uint16
					if q+1 < kc {
						later = split(b.f32[(k+q+1)*b.rowStride+j*b.colStride])
					}
					for p, h := range split(b.f32[(k+q)*b.rowStride+j*b.colStride]) {
						d[p*partTile+q/2*amxRows] = uint32(h) | uint32(later[p])<<16
					}
				}
			}
		}
		if steps := (kc + 1) / 2; steps < amxK/2 {
			for j := 0; j < b.cols; j += n {
				for t := range 2 * partsOf {
					clear(dst[j/n*stride+k/amxK*block+t*partTile/2:][:partTile/2][steps*amxRows:])
				}
			}
		}
	}
}

// blockParts gives each call a panel and all whole strips of 32 rows: some 15 µs. While the strips pass, which are as large as L2 allows, a panel is all that
// it must hold of B.
func blockParts(c Mat, _, _ half, kc int, bp []float32, acc bool, w work) {
	blocks := (kc + amxK - 1) / amxK
	panel := blocks * amxK / 2 * amxBlock * partsOf // dwords
	whole := c.Rows / amxBlock
	for j := 0; j < c.Cols; j += amxBlock {
		cols := min(amxBlock, c.Cols-j)
		b := (*uint32)(unsafe.Pointer(&bp[j/amxBlock*panel : (j/amxBlock+1)*panel][0]))
		run := func(i, strips, rows int) {
			s := partStrips{strips, rows, cols, blocks, &words(w.a)[blocks*stripStep(i)], b}
			s.run(&c.Data[i*c.RowStride+j : (i+(strips-1)*amxBlock+rows-1)*c.RowStride+j+cols][0], c.RowStride, acc)
		}
		if whole > 0 {
			run(0, whole, amxBlock)
		}
		if rest := c.Rows - whole*amxBlock; rest > 0 {
			run(whole*amxBlock, 1, rest)
		}
	}
}

// partStrips is strips of rows of A, and a panel of cols columns.
type partStrips struct {
	strips, rows, cols, blocks int
	a                          *uint16
	b                          *uint32
}

// run multiplies into c, rows ldc elements apart.
func (s *partStrips) run(c *float32, ldc int, acc bool) {
	config, step := amxConfig(s.rows, s.cols), 2*stripStep(s.rows)
	switch { // a call by way of a variable would move config to the heap
	case s.rows > amxRows && s.cols > amxRows:
		tiles22PartsAMX(&config, s.strips, s.blocks, s.a, step, s.blocks*step, s.b, c, 4*ldc, acc, s.rows)
	case s.rows > amxRows:
		tiles21PartsAMX(&config, s.strips, s.blocks, s.a, step, s.blocks*step, s.b, c, 4*ldc, acc, s.rows)
	case s.cols > amxRows:
		tiles12PartsAMX(&config, s.strips, s.blocks, s.a, step, s.blocks*step, s.b, c, 4*ldc, acc, s.rows)
	default:
		tiles11PartsAMX(&config, s.strips, s.blocks, s.a, step, s.blocks*step, s.b, c, 4*ldc, acc, s.rows)
	}
}
