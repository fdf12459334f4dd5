// Package dtype names the element types of tensors, their sizes, and the conversions between them and float32.
//
// Conversions to narrower floats round to nearest, ties to even (IEEE 754-2019 §4.3.1). The package does no
// arithmetic. F64 exists for the reference device alone.
package dtype

import "fmt"

// Type is an element type.
type Type uint8

// The element types. The zero Type is F32.
const (
	F32 Type = iota
	F16
	BF16
	F8E4M3
	F8E5M2
	I8
	I4
	I32
	F64
	numTypes
)

var names = [numTypes]string{"f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "i4", "i32", "f64"}
var bits = [numTypes]int{32, 16, 16, 8, 8, 8, 4, 32, 64}

// String is the lower-case short name, as in a program's text.
func (t Type) String() string {
	if t < numTypes {
		return names[t]
	}
	return fmt.Sprintf("dtype(%d)", uint8(t))
}

// Bits is the number of bits that one element takes.
func (t Type) Bits() int { return bits[t] }

// Bytes is the number of bytes that n elements take, rounded up to a whole byte.
func (t Type) Bytes(n int64) int64 { return (n*int64(bits[t]) + 7) / 8 }

// Float tells whether t is a floating-point type.
func (t Type) Float() bool { return t <= F8E5M2 || t == F64 }

// Parse returns the type named s.
func Parse(s string) (Type, error) {
	for i, n := range names {
		if n == s {
			return Type(i), nil
		}
	}
	return 0, fmt.Errorf("dtype: unknown type %q, want one of f32 f16 bf16 f8e4m3 f8e5m2 i8 i4 i32 f64", s)
}
