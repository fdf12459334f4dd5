package graph

import "fmt"

// Lion is one update by the sign of a moving mean, with decoupled weight decay (arXiv 2302.06675, algorithm 2): w, g, m of one shape, hyper,
// scale (1) or None, master or None → w, m and, with a master, master. w −= lr·Decay·w; w −= lr·sign(Beta1·m + (1−Beta1)·g'); m = Beta2·m +
// (1−Beta2)·g'. The sign of 0 is 0. Arithmetic in f32, element by element.
type Lion struct {
	Beta1, Beta2, Decay float32
	Target
}

func (Lion) Kind() string { return "lion" }
func (o Lion) Attrs() string {
	return fmt.Sprintf("beta1=%g beta2=%g decay=%g", o.Beta1, o.Beta2, o.Decay) + o.attrs()
}
func (o Lion) Outputs(in []Type) []Type {
	want(in[2] == o.Only.of(in[1]), "lion: g %v, m %v", in[1], in[2])
	return o.results("lion", 5, in, in[2])
}
func (o Lion) FLOPs(b Bounds, in, _ []Type) float64 { return 9 * o.updated(b, in[0]) }
func (Lion) Writes() []Alias                        { return []Alias{{0, 0}, {1, 2}, {2, 5}} }

// OnShard is the same update of a shard.
func (o Lion) OnShard(ranks, elems int) Op {
	o.Target = o.onShard(ranks, elems)
	return o
}

// OnPiece is the same update of a piece.
func (o Lion) OnPiece(p Piece) Op {
	o.Only = p
	return o
}

// InPlace lets a gathered or sliced weight, and what was fetched, be updated where they lie.
func (o Lion) InPlace() []Alias { return o.Writes() }
