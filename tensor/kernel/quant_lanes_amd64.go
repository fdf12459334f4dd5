//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

//go:generate go -C gen run . -set turn -out ../quant_turn_amd64.s -stubs ../quant_turn_amd64.go -pkg kernel

// turnHalvesFast does as many elements of packHalves as it can and returns their number.
func turnHalvesFast(dst, src []byte, k int) int {
	steps := k / 8
	if steps == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	_, _ = dst[2*QuantPanel*8*steps-1], src[2*QuantPanel*k-1]
	turnHalvesAVX2(steps, &src[0], 2*k, &dst[0])
	return 8 * steps
}

// turnLanesFast is turnLanes, where it can do it.
func turnLanesFast(dst, src []byte, row, n int, mask uint32) bool {
	if n%16 != 0 || n == 0 || !cpu.X86.HasAVX2 {
		return false
	}
	_, _ = dst[QuantPanel*n-1], src[(QuantPanel-1)*row+n-1]
	turnLanesAVX2(n/16, &src[0], row, &dst[0], mask)
	return true
}
