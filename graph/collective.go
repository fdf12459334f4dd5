package graph

import (
	"fmt"

	"loadline/mem"
	"loadline/tensor"
)

// AllReduce sums x over all ranks, in ascending rank order for every element: x → the same shape.
type AllReduce struct{ Ranks int }

// ReduceScatter sums x over all ranks and leaves each rank its shard (tensor.Shard of the flat tensor): x → (ShardMax). Bits
// are those of AllReduce.
type ReduceScatter struct{ Ranks int }

// AllGather puts shards together: shard (tensor.ShardMax(Elems·Unit)/Unit, rounded up), dst → dst's next version, or with dst
// None a new tensor of type To. Unit is how many elements of the sharded tensor one element stands for: 1 for weights, 4096
// for block sums.
type AllGather struct {
	Ranks, Unit int
	Elems       int // elements of the sharded tensor
	To          Type
}

// ShardSlice copies this rank's shard out of a whole tensor: x → (ShardMax); what is beyond the shard is 0.
type ShardSlice struct{ Ranks int }

func (AllReduce) Kind() string        { return "allreduce" }
func (ReduceScatter) Kind() string    { return "reducescatter" }
func (AllGather) Kind() string        { return "allgather" }
func (ShardSlice) Kind() string       { return "shardslice" }
func (o AllReduce) Attrs() string     { return fmt.Sprintf("ranks=%d", o.Ranks) }
func (o ReduceScatter) Attrs() string { return fmt.Sprintf("ranks=%d", o.Ranks) }
func (o AllGather) Attrs() string {
	return fmt.Sprintf("ranks=%d unit=%d elems=%d", o.Ranks, o.Unit, o.Elems)
}
func (o ShardSlice) Attrs() string { return fmt.Sprintf("ranks=%d", o.Ranks) }

// ShardType is the type of a shard of t over ranks.
func ShardType(t Type, ranks int) Type {
	return Type{t.DType, S(D(tensor.ShardMax(int(t.Shape.Elems(Bounds{})), ranks)))}
}

func (AllReduce) Outputs(in []Type) []Type       { return in[:1] }
func (o ReduceScatter) Outputs(in []Type) []Type { return []Type{ShardType(in[0], o.Ranks)} }
func (o ShardSlice) Outputs(in []Type) []Type    { return []Type{ShardType(in[0], o.Ranks)} }
func (o AllGather) Outputs([]Type) []Type        { return []Type{o.To} }

func (AllReduce) FLOPs(b Bounds, in, _ []Type) float64     { return elems(b, in[0]) }
func (ReduceScatter) FLOPs(b Bounds, in, _ []Type) float64 { return elems(b, in[0]) }
func (AllGather) FLOPs(Bounds, []Type, []Type) float64     { return 0 }
func (ShardSlice) FLOPs(Bounds, []Type, []Type) float64    { return 0 }
func (AllReduce) InPlace() []Alias                         { return []Alias{{0, 0}} }
func (AllGather) Writes() []Alias                          { return []Alias{{0, 1}} }

// Purpose keeps a summed gradient a gradient.
func (AllReduce) Purpose(int) mem.Purpose { return mem.Grads }

// Purpose books a gradient shard under gradients.
func (ReduceScatter) Purpose(int) mem.Purpose { return mem.Grads }

// Purpose books gathered tensors under communication.
func (AllGather) Purpose(int) mem.Purpose { return mem.CommBuffers }

// Purpose books the shard under communication.
func (ShardSlice) Purpose(int) mem.Purpose { return mem.CommBuffers }
