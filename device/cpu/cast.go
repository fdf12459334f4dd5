package cpu

import (
	"fmt"

	"loadline/graph"
	"loadline/mem/arena"
	"loadline/tensor/dtype"
)

// load and store convert between a storage type and f32.
func load(t dtype.Type, b []byte) func(i int) float32 {
	switch t {
	case dtype.F32:
		x := arena.F32(b)
		return func(i int) float32 { return x[i] }
	case dtype.BF16:
		x := arena.U16(b)
		return func(i int) float32 { return dtype.FromBF16(x[i]) }
	case dtype.F16:
		x := arena.U16(b)
		return func(i int) float32 { return dtype.FromF16(x[i]) }
	}
	return nil
}

func store(t dtype.Type, b []byte) func(i int, v float32) {
	switch t {
	case dtype.F32:
		x := arena.F32(b)
		return func(i int, v float32) { x[i] = v }
	case dtype.BF16:
		x := arena.U16(b)
		return func(i int, v float32) { x[i] = dtype.ToBF16(v) }
	case dtype.F16:
		x := arena.U16(b)
		return func(i int, v float32) { x[i] = dtype.ToF16(v) }
	}
	return nil
}

func bindCast(b *binder) step {
	from, to := b.inType(0), b.outType(0)
	get, put := load(from.DType, b.bytes(b.in.In[0])), store(to.DType, b.bytes(b.in.Out[0]))
	if get == nil || put == nil {
		if b.err == nil {
			b.err = fmt.Errorf("no conversion from %v to %v", from.DType, to.DType)
		}
		return nothing
	}
	return perElem(graph.Type(to), func(_ *Session, lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			put(i, get(i))
		}
	})
}
