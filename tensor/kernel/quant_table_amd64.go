//go:build amd64 && !purego

package kernel

import "loadline/tensor/quant"

//go:generate go -C gen run . -set table2 -out ../quant_table_avx2_amd64.s -stubs ../quant_table_avx2_amd64.go -pkg kernel

// widenGroup is widenGroupGeneric, to the bit.
func (s Set) widenGroup(dst []float32, stride int, g quant.Group, src []byte) {
	if s.t.name == "generic" {
		widenGroupGeneric(dst, stride, g, src)
		return
	}
	_, _ = src[tableBytes(g)-1], dst[(g.Elems-1)*stride+QuantPanel-1]
	if g.Table == quant.TableE4M3 {
		widenE4M3AVX2(g.Elems, &src[0], &dst[0], 4*stride)
		return
	}
	widenTable16AVX2(g.Elems, &src[0], &dst[0], 4*stride, &g.Table.Values()[0])
}
