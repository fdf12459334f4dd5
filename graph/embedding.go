package graph

import (
	"loadline/mem"
	"loadline/tensor/dtype"
)

// Embedding takes rows of a table: tokens i32 (N), table (V,D) → (N,D) in the table's type, or in f32, exactly, where Wide. A table of a
// block type has no rows but wide ones.
type Embedding struct{ Wide bool }

// EmbeddingGrad scatters rows back: tokens i32 (N), dy (N,D), acc (V,D) or None → (V,D); rows are added in ascending
// order of N, continuing acc.
type EmbeddingGrad struct{ Vocab int }

func (Embedding) Kind() string     { return "embedding" }
func (EmbeddingGrad) Kind() string { return "embedding_grad" }

func (o Embedding) Attrs() string {
	if o.Wide {
		return "wide"
	}
	return ""
}

func (o Embedding) Outputs(in []Type) []Type {
	want(in[0].Shape.N == 1 && in[1].Shape.N == 2 && (o.Wide || !in[1].DType.Block()), "embedding: tokens %v, table %v", in[0], in[1])
	t := in[1].DType
	if o.Wide {
		t = dtype.F32
	}
	return []Type{{t, S(in[0].Shape.Dims[0], in[1].Shape.Dims[1])}}
}

func (o EmbeddingGrad) Outputs(in []Type) []Type {
	return []Type{F(D(o.Vocab), D(in[1].Shape.Last()))}
}

func (Embedding) FLOPs(Bounds, []Type, []Type) float64     { return 0 }
func (EmbeddingGrad) FLOPs(b Bounds, in, _ []Type) float64 { return elems(b, in[1]) }
func (Embedding) Traffic(b Bounds, _, out []Type) float64  { return 2 * float64(out[0].Bytes(b)) }
func (EmbeddingGrad) InPlace() []Alias                     { return []Alias{{0, 2}} }
func (EmbeddingGrad) Purpose(int) mem.Purpose              { return mem.Grads }

// Gradient reads only the tokens.
func (Embedding) Gradient(w *Backprop) {
	if w.Needs(1) {
		v := w.G.Values[w.Node.In[1]].Type.Shape.Dims[0].N
		w.Set(1, w.one(EmbeddingGrad{v}, w.Node.In[0], w.Dout(0), w.So(1)))
	}
}

// Embedding appends a table look-up.
func (b *Builder) Embedding(tokens, table Value) Value { return b.one(Embedding{}, tokens, table) }

// EmbeddingF32 appends a table look-up whose rows are f32, whatever the table is stored in.
func (b *Builder) EmbeddingF32(tokens, table Value) Value {
	return b.one(Embedding{Wide: b.G.Values[table].Type.DType != dtype.F32}, tokens, table)
}
