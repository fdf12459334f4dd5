//go:build amd64 && !purego

package kernel

// fastBF16 tells whether VDPBF16PS is faster than FMA on this CPU: on AMD's.
func fastBF16() bool { return vendorAMD() }

// vendorAMD asks CPUID for the vendor.
//
//go:noescape
func vendorAMD() bool
