package graph

import (
	"fmt"

	"loadline/tensor/dtype"
)

// KVAppend writes rows into a KV pool: pool (S,G·K), x (N,G·K), slots i32 (N) → pool. A negative slot skips its row. A pool's type
// is its own: one of KVTypes, to which each row is rounded when it is written.
type KVAppend struct{}

// KVCopy copies whole blocks inside a pool for copy-on-write: pool (S,G·K), pairs i32 (P,2) of (source, destination) block
// → pool. A negative source ends the list.
type KVCopy struct{ Block int }

// KVTypes are the types that keys and values can be stored in, the widest first. f8e4m3 cuts what is finite to ±448. q8_0 and q4_0 are
// GGUF's: 32 elements of one head share a scale, so a head's length must be a multiple of 32; a block with an element that is not
// finite, or above 2²³, is NaN.
func KVTypes() []dtype.Type {
	return []dtype.Type{dtype.F32, dtype.F16, dtype.BF16, dtype.Q8_0, dtype.F8E4M3, dtype.Q4_0}
}

func (KVAppend) Kind() string  { return "kvappend" }
func (KVCopy) Kind() string    { return "kvcopy" }
func (o KVCopy) Attrs() string { return fmt.Sprintf("block=%d", o.Block) }
func (KVAppend) Outputs(in []Type) []Type {
	want(in[0].Shape.Last() == in[1].Shape.Last(), "kvappend: pool %v, rows %v", in[0], in[1])
	want(in[0].Shape.Last()%in[0].DType.BlockElems() == 0, "kvappend: rows of pool %v are no whole blocks", in[0])
	return in[:1]
}
func (KVCopy) Outputs(in []Type) []Type                 { return in[:1] }
func (KVAppend) FLOPs(Bounds, []Type, []Type) float64   { return 0 }
func (KVCopy) FLOPs(Bounds, []Type, []Type) float64     { return 0 }
func (KVAppend) Traffic(b Bounds, in, _ []Type) float64 { return 2 * float64(in[1].Bytes(b)) }
func (KVCopy) Traffic(b Bounds, in, _ []Type) float64   { return 0 }
func (KVAppend) Writes() []Alias                        { return []Alias{{0, 0}} }
func (KVCopy) Writes() []Alias                          { return []Alias{{0, 0}} }

// KVAppend appends new keys or values to a pool and returns its next version.
func (b *Builder) KVAppend(pool, x, slots Value) Value { return b.one(KVAppend{}, pool, x, slots) }

// KVCopy appends the block copies of copy-on-write and returns the pool's next version.
func (b *Builder) KVCopy(pool, pairs Value, block int) Value {
	return b.one(KVCopy{block}, pool, pairs)
}
