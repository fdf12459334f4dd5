package kernel

// Best returns the set to use on this CPU, by what the CPU and the system say alone: every process of a run, and a plan
// made before it, get the same one, with the same workspace. It is the last of Sets, but AVX512BF16 only where VDPBF16PS
// pays: on Zen 4 and 5 it has twice the speed of two FMAs, on Golden Cove half. There AVX512AMX is the last.
func Best() Set {
	sets := Sets()
	best := sets[len(sets)-1]
	if best.t.name == "avx512bf16" && !fastBF16() {
		if s, ok := AVX512(); ok {
			return s
		}
	}
	return best
}
