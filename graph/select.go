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

// SelectColumns takes columns in an order: x (…,K), order i32 (K) → (…,K), element k of a row being its element order[k].
type SelectColumns struct{}

func (SelectColumns) Kind() string { return "columns" }
func (SelectColumns) Outputs(in []Type) []Type {
	want(in[0].Shape.N >= 1 && in[1].Shape == S(D(in[0].Shape.Last())), "columns: x %v, order %v", in[0], in[1])
	return in[:1]
}
func (SelectColumns) FLOPs(Bounds, []Type, []Type) float64    { return 0 }
func (SelectColumns) Traffic(b Bounds, _, out []Type) float64 { return 2 * float64(out[0].Bytes(b)) }

// SelectColumns appends columns in an order.
func (b *Builder) SelectColumns(x, order Value) Value { return b.one(SelectColumns{}, x, order) }

// SelectRows appends a choice of rows.
func (b *Builder) SelectRows(x, rows Value) Value { return b.one(SelectRows{}, x, rows) }
