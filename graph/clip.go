package graph

import (
	"fmt"

	"loadline/mem"
	"loadline/tensor"
)

// SumSquares is the sum of squares of each block of 4096 elements of a flat tensor: g → (blocks), each summed in f64 in a
// fixed order that depends on nothing but the block, and rounded once. Shard boundaries are block boundaries, so the sums do not depend on who owns what.
// With Ranks > 1, g is a shard and the result holds this rank's blocks.
type SumSquares struct{}

// ClipScale turns block sums into the factor of global-norm clipping (torch.nn.utils.clip_grad_norm_): one operand per
// tensor, then hyper → scale (1) = min(1, Max/(norm+1e-6)), norm (1). Sums run in f64 over the operands in order; the norm
// is that of the gradients multiplied by hyper[HyperGrad].
type ClipScale struct{ Max float32 }

func (SumSquares) Kind() string            { return "sumsquares" }
func (ClipScale) Kind() string             { return "clipscale" }
func (o ClipScale) Attrs() string          { return fmt.Sprintf("max=%g", o.Max) }
func (SumSquares) Purpose(int) mem.Purpose { return mem.Workspace }
func (ClipScale) Purpose(int) mem.Purpose  { return mem.Workspace }
func (SumSquares) Outputs(in []Type) []Type {
	n := int(in[0].Shape.Elems(Bounds{}))
	return []Type{F(D(tensor.Blocks(n)))}
}
func (ClipScale) Outputs(in []Type) []Type              { return []Type{F(D(1)), F(D(1))} }
func (SumSquares) FLOPs(b Bounds, in, _ []Type) float64 { return 2 * elems(b, in[0]) }
func (ClipScale) FLOPs(b Bounds, in, _ []Type) float64  { return elems(b, in...) }
