//go:build amd64 && !purego

#include "textflag.h"

// func vendorAMD() bool
// CPUID leaf 0: the vendor's name in BX, DX, CX; "Auth" of AuthenticAMD is in BX.
TEXT ·vendorAMD(SB), NOSPLIT, $0-1
	XORL AX, AX
	XORL CX, CX
	CPUID
	CMPL BX, $0x68747541
	SETEQ ret+0(FP)
	RET
