package graph

import (
	"fmt"
	"strings"

	"loadline/mem"
	"loadline/tensor/dtype"
)

// HeadLoss is a loss head that never holds rows × vocabulary logits: h (N,D), w (V,D), targets i32 (N), weight (1) →
// loss (1), the same function as MatMul then CrossEntropy. It works through Chunk rows at a time, a multiple of 128; the
// chunk changes no bit. With Softcap, logits x are Softcap·tanh(x/Softcap), as SoftCap in between makes them.
type HeadLoss struct {
	Chunk int
	LossTerms
	Softcap float64 // 0 leaves logits
}

// HeadLossGrad does loss and gradients in one pass over the chunks, so logits are made once: h, w, targets, weight, acc
// (V,D) or None → dh (N,D), dw + acc (V,D), loss (1). The gradients of logits enter both products in h's type.
type HeadLossGrad struct {
	Chunk int
	LossTerms
	Softcap float64
}

func (HeadLoss) Kind() string        { return "headloss" }
func (HeadLossGrad) Kind() string    { return "headloss_grad" }
func (o HeadLoss) Attrs() string     { return headAttrs(o) }
func (o HeadLossGrad) Attrs() string { return headAttrs(HeadLoss(o)) }

func headAttrs(o HeadLoss) string {
	s := fmt.Sprintf("chunk=%d %s", o.Chunk, o.attrs())
	if o.Softcap != 0 {
		s = strings.TrimSpace(s) + fmt.Sprintf(" softcap=%g", o.Softcap)
	}
	return strings.TrimSpace(s)
}

func (HeadLoss) Outputs(in []Type) []Type {
	want(in[0].Shape.N == 2 && in[1].Shape.N == 2 && in[0].Shape.Last() == in[1].Shape.Last(), "headloss: h %v does not fit w %v", in[0], in[1])
	return []Type{F(D(1))}
}
func (HeadLossGrad) Outputs(in []Type) []Type {
	return []Type{in[0], {dtype.F32, in[1].Shape}, F(D(1))}
}

func (HeadLoss) FLOPs(b Bounds, in, _ []Type) float64 {
	return elems(b, in[2]) * float64(in[1].Shape.Dims[0].N) * (2*float64(in[0].Shape.Last()) + 5)
}
func (HeadLossGrad) FLOPs(b Bounds, in, _ []Type) float64 {
	return elems(b, in[2]) * float64(in[1].Shape.Dims[0].N) * (6*float64(in[0].Shape.Last()) + 10)
}

// headScratch holds one chunk of logits and a loss per row.
func headScratch(chunk int, b Bounds, in []Type) int64 {
	rows := in[2].Shape.Elems(b)
	c := min(int64(chunk), rows)
	return dtype.F32.Bytes(c*int64(in[1].Shape.Dims[0].N) + rows)
}

// Scratch holds one chunk of logits and a loss per row.
func (o HeadLoss) Scratch(b Bounds, in, _ []Type) int64 { return headScratch(o.Chunk, b, in) }

// Scratch holds one chunk of logits and a loss per row.
func (o HeadLossGrad) Scratch(b Bounds, in, _ []Type) int64 { return headScratch(o.Chunk, b, in) }

// Traffic counts every chunk's logits twice and the weight twice a chunk.
func (o HeadLossGrad) Traffic(b Bounds, in, out []Type) float64 {
	rows := in[2].Shape.Elems(b)
	c := float64(max(1, (rows+int64(o.Chunk)-1)/int64(o.Chunk)))
	v := float64(in[1].Shape.Dims[0].N)
	return 3*c*float64(in[1].Bytes(b)) + 2*float64(in[0].Bytes(b)) + 16*float64(rows)*v
}

func (HeadLossGrad) InPlace() []Alias { return []Alias{{0, 0}, {1, 4}} }

// Purpose books dw under gradients.
func (HeadLossGrad) Purpose(out int) mem.Purpose {
	if out == 1 {
		return mem.Grads
	}
	return mem.Activations
}

// Gradient takes the forward operation's place.
func (o HeadLoss) Gradient(w *Backprop) {
	n := w.Node
	want(n.Out[0] == w.G.Loss, "headloss: its loss must be the loss of the graph")
	d := w.Apply(HeadLossGrad(o), n.In[0], n.In[1], n.In[2], n.In[3], w.So(1))
	if w.Needs(0) {
		w.Add(0, d[0])
	}
	if w.Needs(1) {
		w.Set(1, d[1])
	}
	w.Replace(d[2])
}

// HeadLoss appends the chunked loss head.
func (b *Builder) HeadLoss(h, w, targets, weight Value, chunk int) Value {
	want(chunk > 0, "headloss: chunk %d", chunk)
	return b.one(HeadLoss{Chunk: chunk}, h, w, targets, weight)
}
