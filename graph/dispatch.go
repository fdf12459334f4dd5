package graph

import "fmt"

// Dispatch sorts (token, choice) pairs by expert, stably: ids i32 (N,TopK) → order i32 (N·TopK), where place i holds pair
// token·TopK+choice; place i32 (N·TopK), its inverse; offsets i32 (Experts+1), the first place of each expert.
type Dispatch struct{ Experts int }

// GatherRows takes a token's row for each place: x (N,D), order, place → (N·TopK,D).
type GatherRows struct{ TopK int }

// GatherRowsGrad sums a token's rows, choices ascending: dy (N·TopK,D), order, place, acc (N,D) or None → (N,D).
type GatherRowsGrad struct{ TopK int }

func (Dispatch) Kind() string          { return "dispatch" }
func (GatherRows) Kind() string        { return "gather_rows" }
func (GatherRowsGrad) Kind() string    { return "gather_rows_grad" }
func (o Dispatch) Attrs() string       { return fmt.Sprintf("experts=%d", o.Experts) }
func (o GatherRows) Attrs() string     { return fmt.Sprintf("topk=%d", o.TopK) }
func (o GatherRowsGrad) Attrs() string { return fmt.Sprintf("topk=%d", o.TopK) }

func (o Dispatch) Outputs(in []Type) []Type {
	d := in[0].Shape.Dims[0]
	d.N *= in[0].Shape.Last()
	return []Type{I(d), I(d), I(D(o.Experts + 1))}
}
func (o GatherRows) Outputs(in []Type) []Type {
	d := in[0].Shape.Dims[0]
	d.N *= o.TopK
	want(in[1].Shape == S(d), "gather_rows: x %v, order %v", in[0], in[1])
	return []Type{{in[0].DType, S(d, in[0].Shape.Dims[1])}}
}
func (o GatherRowsGrad) Outputs(in []Type) []Type {
	d := in[0].Shape.Dims[0]
	d.N /= o.TopK
	return []Type{{in[0].DType, S(d, in[0].Shape.Dims[1])}}
}
func (Dispatch) FLOPs(b Bounds, in, _ []Type) float64       { return 4 * elems(b, in[0]) }
func (GatherRows) FLOPs(Bounds, []Type, []Type) float64     { return 0 }
func (GatherRowsGrad) FLOPs(b Bounds, in, _ []Type) float64 { return elems(b, in[0]) }
func (GatherRowsGrad) InPlace() []Alias                     { return []Alias{{0, 3}} }

// Gradient reads only the places.
func (o GatherRows) Gradient(w *Backprop) {
	n := w.Node
	w.Set(0, w.one(GatherRowsGrad(o), w.Dout(0), n.In[1], n.In[2], w.So(0)))
}

// Dispatch appends the sort by expert.
func (b *Builder) Dispatch(ids Value, experts int) (order, place, offsets Value) {
	o := b.Apply(Dispatch{experts}, ids)
	return o[0], o[1], o[2]
}

// GatherRows appends the copy of each token's row to its places.
func (b *Builder) GatherRows(x, order, place Value, topK int) Value {
	return b.one(GatherRows{topK}, x, order, place)
}
