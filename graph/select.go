package graph

// SelectRows takes the rows that need logits: x (N,D), rows i32 (O) → (O,D).
type SelectRows struct{}

func (SelectRows) Kind() string { return "select" }
func (SelectRows) Outputs(in []Type) []Type {
	want(in[0].Shape.N == 2 && in[1].Shape.N == 1, "select: x %v, rows %v", in[0], in[1])
	return []Type{{in[0].DType, S(in[1].Shape.Dims[0], in[0].Shape.Dims[1])}}
}
func (SelectRows) FLOPs(Bounds, []Type, []Type) float64    { return 0 }
func (SelectRows) Traffic(b Bounds, _, out []Type) float64 { return 2 * float64(out[0].Bytes(b)) }

// SelectRows appends a choice of rows.
func (b *Builder) SelectRows(x, rows Value) Value { return b.one(SelectRows{}, x, rows) }
