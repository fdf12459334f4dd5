//go:build amd64 && !purego

package kernel

import (
	"unsafe"

	"loadline/tensor/quant"
)

// manyFormat is how a format is unpacked.
type manyFormat struct {
	unpack       func(blocks int, b, out *byte)
	halves, mins bool // two scales of a group, and minima
}

var manyFormats = map[quant.Type]*manyFormat{
	quant.Q4_0:   {unpackQ4_0AMX, false, false},
	quant.Q4_1:   {unpackQ4_1AMX, false, true},
	quant.Q5_0:   {unpackQ5_0AMX, false, false},
	quant.Q5_1:   {unpackQ5_1AMX, false, true},
	quant.Q8_0:   {unpackQ8_0AMX, false, false},
	quant.Q2_K:   {unpackQ2_KAMX, true, true},
	quant.Q3_K:   {unpackQ3_KAMX, true, false},
	quant.Q4_K:   {unpackQ4_KAMX, false, true},
	quant.Q5_K:   {unpackQ5_KAMX, false, true},
	quant.Q6_K:   {unpackQ6_KAMX, true, false},
	quant.IQ4_NL: {unpackIQ4_NLAMX, false, false},
	quant.IQ4_XS: {unpackIQ4_XSAMX, false, false},
	quant.MXFP4:  {unpackMXFP4AMX, false, false},
}

var amxQuant = func() quantTable {
	t := vnniQuant
	t.many, t.form, t.near = manyQuant, manyForm, nearRows
	return t
}()

// manyConfig configures tiles 0 and 1 as sums, 4 and 5 as 16 rows of A and 6 and 7 as 16 of W, of a group or of its halves.
func manyConfig(halves bool) (c [64]byte) {
	bytes := byte(QuantGroup)
	if halves {
		bytes /= 2
	}
	c[0] = 1
	for t, tile := range map[int][2]byte{
		0: {4 * QuantPanel, manyRows}, 1: {4 * QuantPanel, manyRows}, 4: {bytes, manyRows}, 5: {bytes, manyRows},
		6: {4 * QuantPanel, bytes / 4}, 7: {4 * QuantPanel, bytes / 4},
	} {
		c[16+2*t], c[48+t] = tile[0], tile[1]
	}
	return c
}

var manyConfigs = [2][64]byte{manyConfig(false), manyConfig(true)}

// manyForm is Set.NearForm.
func manyForm(t quant.Type) NearForm {
	switch f := manyFormats[t]; {
	case f == nil:
		return 0
	case f.halves && f.mins:
		return nearHalvesMin
	case f.mins:
		return nearMin
	}
	return nearPlain
}

// nearRows rearranges groups of 16 rows.
func nearRows(form NearForm, groups int, a []byte, lda int, out []byte) {
	_, _ = a[(manyRows-1)*lda+groups*quantGroupBytes-1], out[groups*nearBytes-1]
	switch form {
	case nearHalvesMin:
		quantNearHalvesMinAMX(groups, &a[0], lda, &out[0])
	case nearMin:
		quantNearMinAMX(groups, &a[0], lda, &out[0])
	default:
		quantNearAMX(groups, &a[0], lda, &out[0])
	}
}

// manyQuant makes rows of C in tiles of 16; those after the last whole tile are left. Panels are unpacked into signed bytes once for all
// rows, and a tile's sums of one group of 32, or of its halves, are scaled and added as kernels of single rows do it, which gives the same
// bits.
func manyQuant(c Mat, a []byte, lda int, near []byte, w QuantWeights, p panel, n0 int, work []byte) int {
	rows := c.Rows &^ (manyRows - 1)
	if rows == 0 {
		return 0
	}
	f := manyFormats[w.Type]
	kernel, config, size := quantTilesAMX, &manyConfigs[0], 8*64+64
	switch {
	case f.halves && f.mins:
		kernel, config, size = quantTilesHalvesMinAMX, &manyConfigs[1], 8*64+4*64
	case f.halves:
		kernel, config, size = quantTilesHalvesAMX, &manyConfigs[1], 8*64+2*64
	case f.mins:
		kernel, size = quantTilesMinAMX, 8*64+2*64
	}
	sums, own, work := (*int32)(unsafe.Pointer(&work[0])), work[manySums:][:manyNear], work[manySums+manyNear:]
	form := manyForm(w.Type)
	steps := p.elems / QuantGroup
	groups := w.K / QuantGroup
	for n := 0; n < c.Cols; n += manyPanels * QuantPanel {
		panels := min(manyPanels, (c.Cols-n+QuantPanel-1)/QuantPanel)
		last := min(c.Cols-n-(panels-1)*QuantPanel, QuantPanel)
		for g0 := 0; g0 < groups; g0 += manyGroups {
			g1 := min(g0+manyGroups, groups)
			for i := range panels {
				from := w.panel(n0+n+i*QuantPanel, p)
				f.unpack((g1-g0)/steps, &from[g0/steps*p.bytes], &work[i*manyGroups*size])
			}
			skip := (manyGroups - (g1 - g0)) * size
			for m := 0; m < rows; m += manyRows {
				tile := own
				if near == nil {
					nearRows(form, g1-g0, a[m*lda+g0*quantGroupBytes:], lda, own)
				} else {
					tile = near[(m/manyRows*groups+g0)*nearBytes:]
				}
				kernel(config, panels, g1-g0, &tile[0], &work[0], skip, &c.Data[m*c.RowStride+n], c.RowStride, last, g0 > 0, sums)
			}
		}
	}
	return rows
}
