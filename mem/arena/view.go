package arena

import (
	"fmt"
	"unsafe"
)

// F32 returns b as float32s, sharing memory. It panics if b does not start at, or is not, a multiple of their size.
func F32(b []byte) []float32 { return view[float32](b) }

// F64 is F32 for float64s.
func F64(b []byte) []float64 { return view[float64](b) }

// I32 is F32 for int32s.
func I32(b []byte) []int32 { return view[int32](b) }

// U16 is F32 for uint16s, which hold half precision numbers.
func U16(b []byte) []uint16 { return view[uint16](b) }

func view[T float32 | float64 | int32 | uint16](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var zero T
	width := unsafe.Sizeof(zero)
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%width != 0 {
		panic(fmt.Sprintf("arena: view of %T at an address that is %d past a multiple of %d", zero, uintptr(p)%width, width))
	}
	if uintptr(len(b))%width != 0 {
		panic(fmt.Sprintf("arena: view of %T over %d bytes: want a multiple of %d", zero, len(b), width))
	}
	return unsafe.Slice((*T)(p), uintptr(len(b))/width)
}
