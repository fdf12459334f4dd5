package quant

import "loadline/tensor/dtype"

// shared are the formats that a tensor's elements may be stored in, with the type that a graph gives them: all that matrix products take.
var shared = [...]struct {
	format Type
	dtype  dtype.Type
}{
	{F32, dtype.F32}, {F16, dtype.F16}, {BF16, dtype.BF16}, {Q4_0, dtype.Q4_0}, {Q4_1, dtype.Q4_1}, {Q5_0, dtype.Q5_0},
	{Q5_1, dtype.Q5_1}, {Q8_0, dtype.Q8_0}, {Q2_K, dtype.Q2_K}, {Q3_K, dtype.Q3_K}, {Q4_K, dtype.Q4_K}, {Q5_K, dtype.Q5_K},
	{Q6_K, dtype.Q6_K}, {IQ4_NL, dtype.IQ4_NL}, {IQ4_XS, dtype.IQ4_XS}, {MXFP4, dtype.MXFP4},
}

// DType is the type of a tensor that is stored as t, and false where there is none: such weights are widened.
func (t Type) DType() (dtype.Type, bool) {
	for _, s := range shared {
		if s.format == t {
			return s.dtype, true
		}
	}
	return 0, false
}

// Of is the format of a tensor's type, and false where it is none that weights are stored in.
func Of(t dtype.Type) (Type, bool) {
	for _, s := range shared {
		if s.dtype == t {
			return s.format, true
		}
	}
	return 0, false
}
