package graph

import (
	"fmt"

	"loadline/tensor"
	"loadline/tensor/dtype"
)

// Places in the hyper input, f32 (HyperLen), that the trainer fills each step.
const (
	HyperLR     = iota // learning rate
	HyperBias1         // 1 − β1^t
	HyperBias2         // 1 − β2^t
	HyperGrad          // what gradients are multiplied by before anything else (1 unless the loss is scaled)
	HyperDecay2        // Adafactor's β2 of this step
	HyperSeedLo        // lower half of the step's random 32 bits, 0 to 65535: what stochastic rounding draws from
	HyperSeedHi        // upper half
	HyperLen    = 8
)

// Updater is an Op that updates a weight, operand 0, by its gradient, operand 1, element by element: so it may as well be of a shard, or of a piece.
type Updater interface {
	Op
	// OnShard is the same update of one rank's shard of a weight of so many elements.
	OnShard(ranks, elems int) Op
	// OnPiece is the same update of a piece of what operands 0 and 1 are: the optimizer's States and the master are of its elements alone.
	OnPiece(p Piece) Op
	// Updates is the piece.
	Updates() Piece
}

// Target is what updates have in common: which elements they are of, and how a weight that is narrow and has no master is rounded. The
// zero value is a whole tensor, of f32 or with a master.
type Target struct {
	Ranks, Elems int    // of a shard (tensor.Shard): the ranks and the elements of the whole tensor; 0 where it is whole, or its place does not matter
	Key          uint32 // not 0: w is bf16 and rounded stochastically, under a key of this number and the step's
	Only         Piece  // of operands 0 and 1, the elements that are updated, the rest of the weight staying as it is; N = 0 is all
}

// First is the place in the whole tensor of the first element that rank updates.
func (t Target) First(rank int) int {
	if t.Ranks == 0 {
		return t.Only.At
	}
	lo, _ := tensor.Shard(t.Elems, t.Ranks, rank)
	return lo + t.Only.At
}

// Updates is the piece that is updated.
func (t Target) Updates() Piece { return t.Only }

// updated is the elements that are updated of a weight of type w.
func (t Target) updated(b Bounds, w Type) float64 {
	if t.Only.N > 0 {
		return float64(t.Only.N)
	}
	return elems(b, w)
}

// Traffic counts, of operands that are whole, the piece alone.
func (t Target) Traffic(b Bounds, in, out []Type) (n float64) {
	all := elems(b, in[0])
	for _, ts := range [2][]Type{in, out} {
		for _, x := range ts {
			if x.Shape.N == 0 {
				continue
			}
			bytes := float64(x.Bytes(b))
			if t.Only.N > 0 && elems(b, x) == all {
				bytes *= float64(t.Only.N) / all
			}
			n += bytes
		}
	}
	return n
}

// StepKey is the key of a step's stochastic rounding: a mix of Key and the two halves of the hyper input's seed.
func (t Target) StepKey(lo, hi uint32) uint32 {
	x := (uint64(hi)<<16|uint64(lo))<<32 | uint64(t.Key)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // SplitMix64's finaliser
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return uint32((x ^ x>>31) >> 32)
}

// onShard is t for a shard, which matters only where rounding depends on the place.
func (t Target) onShard(ranks, elems int) Target {
	if t.Key != 0 {
		t.Ranks, t.Elems = ranks, elems
	}
	return t
}

// attrs is t's part of an operation's text.
func (t Target) attrs() string {
	s := ""
	if t.Ranks > 0 {
		s = fmt.Sprintf(" ranks=%d elems=%d", t.Ranks, t.Elems)
	}
	if t.Key != 0 {
		s += fmt.Sprintf(" stochastic=%08x", t.Key)
	}
	return s + t.Only.attrs()
}

// results is the types of an update's results: w, its states, and the master that operand i may be.
func (t Target) results(kind string, i int, in []Type, states ...Type) []Type {
	f := Type{dtype.F32, in[0].Shape}
	want(in[1] == f, "%s: w %v, g %v", kind, in[0], in[1])
	out := append([]Type{in[0]}, states...)
	if len(in) > i && in[i].Shape.N > 0 {
		want(in[i] == t.Only.of(f) && t.Key == 0, "%s: w %v, master %v", kind, in[0], in[i])
		return append(out, in[i])
	}
	want(in[0] == f && t.Key == 0 || in[0].DType == dtype.BF16 && t.Key != 0, "%s: w %v has no master", kind, in[0])
	return out
}

// AdamW is one update with decoupled weight decay (arXiv 1711.05101, in torch.optim.AdamW's order of operations): w, g, m, v
// of one shape, hyper (8), scale (1) or None, master f32 or None → w, m, v and, with a master, master. g, m and v are f32. With a master the
// update is of the master, and w is the master rounded to w's type, to nearest, ties to even. With g' = g·hyper[HyperGrad]·scale: w −= lr·Decay·w; m and v are
// the moving means of g' and g'²; w −= lr/bias1 · m / (√v/√bias2 + Eps). Arithmetic in f32, element by element.
type AdamW struct {
	Beta1, Beta2, Eps, Decay float32
	Target
}

// SGD is one update with momentum and coupled weight decay in torch.optim.SGD's order: w, g, buf or None, hyper, scale (1)
// or None, master or None → w, buf and, with a master, master. g' += Decay·w; buf = Momentum·buf + g'; w −= lr·buf, or with Nesterov
// w −= lr·(g' + Momentum·buf). Without buf, w −= lr·g' and there is no second result.
type SGD struct {
	Momentum, Decay float32
	Nesterov        bool
	Target
}

func (AdamW) Kind() string { return "adamw" }
func (SGD) Kind() string   { return "sgd" }
func (o AdamW) Attrs() string {
	return fmt.Sprintf("beta1=%g beta2=%g eps=%g decay=%g", o.Beta1, o.Beta2, o.Eps, o.Decay) + o.attrs()
}
func (o SGD) Attrs() string {
	s := fmt.Sprintf("momentum=%g decay=%g", o.Momentum, o.Decay)
	if o.Nesterov {
		s += " nesterov"
	}
	return s + o.attrs()
}

func (o AdamW) Outputs(in []Type) []Type {
	f := o.Only.of(in[1])
	want(in[2] == f && in[3] == f, "adamw: g %v, m %v, v %v", in[1], in[2], in[3])
	return o.results("adamw", 6, in, in[2], in[3])
}
func (o SGD) Outputs(in []Type) []Type {
	want((in[2].Shape.N > 0) == (o.Momentum != 0), "sgd: momentum %g, buf %v", o.Momentum, in[2])
	if in[2].Shape.N == 0 {
		return o.results("sgd", 5, in)
	}
	want(in[2] == o.Only.of(in[1]), "sgd: g %v, buf %v", in[1], in[2])
	return o.results("sgd", 5, in, in[2])
}
func (o AdamW) FLOPs(b Bounds, in, _ []Type) float64 { return 15 * o.updated(b, in[0]) }
func (o SGD) FLOPs(b Bounds, in, _ []Type) float64   { return 6 * o.updated(b, in[0]) }
func (AdamW) Writes() []Alias                        { return []Alias{{0, 0}, {1, 2}, {2, 3}, {3, 6}} }

// Writes counts on a master where there is no buf: the results are then w and the master.
func (o SGD) Writes() []Alias {
	if o.Momentum == 0 {
		return []Alias{{0, 0}, {1, 5}}
	}
	return []Alias{{0, 0}, {1, 2}, {2, 5}}
}

// OnShard is the same update of a shard.
func (o AdamW) OnShard(ranks, elems int) Op {
	o.Target = o.onShard(ranks, elems)
	return o
}

// OnShard is the same update of a shard.
func (o SGD) OnShard(ranks, elems int) Op {
	o.Target = o.onShard(ranks, elems)
	return o
}

// OnPiece is the same update of a piece.
func (o AdamW) OnPiece(p Piece) Op {
	o.Only = p
	return o
}

// OnPiece is the same update of a piece.
func (o SGD) OnPiece(p Piece) Op {
	o.Only = p
	return o
}

// InPlace lets a gathered or sliced weight, and what was fetched, be updated where they lie.
func (o AdamW) InPlace() []Alias { return o.Writes() }

// InPlace lets a gathered or sliced weight, and what was fetched, be updated where they lie.
func (o SGD) InPlace() []Alias { return o.Writes() }

// unseeded is t with the key of all others.
func (t Target) unseeded() Target {
	t.Key = min(t.Key, 1)
	return t
}

// Unseeded is the same update with the key of all others, and so are the other optimisers'.
func (o AdamW) Unseeded() Op {
	o.Target = o.unseeded()
	return o
}

// Unseeded is as AdamW's.
func (o SGD) Unseeded() Op {
	o.Target = o.unseeded()
	return o
}

// Unseeded is as AdamW's.
func (o Lion) Unseeded() Op {
	o.Target = o.unseeded()
	return o
}

// Unseeded is as AdamW's.
func (o AdafactorUpdate) Unseeded() Op {
	o.Target = o.unseeded()
	return o
}
