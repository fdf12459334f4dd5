package ref

import (
	"encoding/binary"
	"fmt"
	"math"

	"loadline/tensor/dtype"
)

// store is the elements of a buffer: floats of any type as T, those of block types widened, or int32s.
type store[T real] struct {
	dt dtype.Type
	f  []T
	i  []int32
}

// supported says whether ref in T can hold values of type dt.
func supported[T real](dt dtype.Type) error {
	switch dt {
	case dtype.F32, dtype.F16, dtype.BF16, dtype.F8E4M3, dtype.I32:
		return nil
	case dtype.F64:
		if is64[T]() {
			return nil
		}
	default:
		if dt.Block() {
			return nil
		}
	}
	return fmt.Errorf("type %v is not supported in this precision", dt)
}

// is64 tells whether T is float64.
func is64[T real]() bool {
	var x T
	_, ok := any(x).(float64)
	return ok
}

// newStore makes a store of n elements, zero.
func newStore[T real](dt dtype.Type, n int) store[T] {
	if dt == dtype.I32 {
		return store[T]{dt: dt, i: make([]int32, n)} //mem:ok counted by the session and reserved by Open
	}
	return store[T]{dt: dt, f: make([]T, n)} //mem:ok counted by the session and reserved by Open
}

// elems is the number of elements.
func (s *store[T]) elems() int { return len(s.f) + len(s.i) }

// poison fills the store with what no operation makes.
func (s *store[T]) poison() {
	for i := range s.f {
		s.f[i] = T(math.NaN())
	}
	for i := range s.i {
		s.i[i] = math.MinInt32
	}
}

// width is the bytes of one element in storage.
func (s *store[T]) width() int { return s.dt.Bits() / 8 }

// encode writes elements from element at on in their storage type; len(dst) is a multiple of width.
func (s *store[T]) encode(dst []byte, at int) {
	w := s.width()
	for k := range len(dst) / w {
		p := dst[k*w:]
		switch s.dt {
		case dtype.I32:
			binary.LittleEndian.PutUint32(p, uint32(s.i[at+k]))
		case dtype.F64:
			binary.LittleEndian.PutUint64(p, math.Float64bits(float64(s.f[at+k])))
		case dtype.F16:
			binary.LittleEndian.PutUint16(p, dtype.ToF16(float32(s.f[at+k])))
		case dtype.BF16:
			binary.LittleEndian.PutUint16(p, dtype.ToBF16(float32(s.f[at+k])))
		case dtype.F8E4M3:
			p[0] = dtype.ToE4M3(float32(s.f[at+k]))
		default:
			binary.LittleEndian.PutUint32(p, math.Float32bits(float32(s.f[at+k])))
		}
	}
}

// decode is the reverse of encode.
func (s *store[T]) decode(src []byte, at int) {
	w := s.width()
	for k := range len(src) / w {
		p := src[k*w:]
		switch s.dt {
		case dtype.I32:
			s.i[at+k] = int32(binary.LittleEndian.Uint32(p))
		case dtype.F64:
			s.f[at+k] = T(math.Float64frombits(binary.LittleEndian.Uint64(p)))
		case dtype.F16:
			s.f[at+k] = T(dtype.FromF16(binary.LittleEndian.Uint16(p)))
		case dtype.BF16:
			s.f[at+k] = T(dtype.FromBF16(binary.LittleEndian.Uint16(p)))
		case dtype.F8E4M3:
			s.f[at+k] = T(dtype.FromE4M3(p[0]))
		default:
			s.f[at+k] = T(math.Float32frombits(binary.LittleEndian.Uint32(p)))
		}
	}
}

// roundTo rounds f to type dt in place, where dt is narrower than T. F64 rounds through float32 on the way.
func roundTo[T real](dt dtype.Type, f []T) {
	switch dt {
	case dtype.F16:
		for i, x := range f {
			f[i] = T(dtype.FromF16(dtype.ToF16(float32(x))))
		}
	case dtype.BF16:
		for i, x := range f {
			f[i] = T(dtype.FromBF16(dtype.ToBF16(float32(x))))
		}
	case dtype.F8E4M3:
		for i, x := range f {
			f[i] = T(dtype.FromE4M3(dtype.ToE4M3(float32(x))))
		}
	}
}
