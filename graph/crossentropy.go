package graph

import (
	"fmt"

	"loadline/tensor/dtype"
)

// LossTerms are what a loss has beside −log softmax(logits)[target]. The zero value is nothing.
type LossTerms struct {
	// Smoothing is the share of a target's weight that all V classes have alike (arXiv 1512.00567, section 7, as torch's
	// label_smoothing): lse − (1−Smoothing)·logits[target] − Smoothing/V·Σ logits.
	Smoothing float32
	// Z times the square of lse = log Σ exp(logits) is added, which keeps it near 0 (PaLM, arXiv 2204.02311, section 5).
	Z float32
}

// attrs is l's part of an operation's text.
func (l LossTerms) attrs() string {
	if l == (LossTerms{}) {
		return ""
	}
	return fmt.Sprintf("smoothing=%g z=%g", l.Smoothing, l.Z)
}

// CrossEntropy is the weighted sum over rows of −log softmax(logits)[target], and of its terms: logits (N,V), targets i32 (N), weight (1)
// → loss (1), lse (N). A negative target leaves its row out. Weight is usually one over the number of targets in the
// whole step, so that micro-batches and ranks add up to the mean. Row losses are summed in ascending order in blocks of
// 128 rows.
type CrossEntropy struct{ LossTerms }

// CrossEntropyGrad is weight·((1 + 2·Z·lse)·softmax(logits) − Smoothing/V − (1−Smoothing)·onehot): logits, targets, weight, lse → dlogits
// (N,V).
type CrossEntropyGrad struct{ LossTerms }

func (CrossEntropy) Kind() string        { return "crossentropy" }
func (CrossEntropyGrad) Kind() string    { return "crossentropy_grad" }
func (o CrossEntropy) Attrs() string     { return o.attrs() }
func (o CrossEntropyGrad) Attrs() string { return o.attrs() }
func (CrossEntropy) Outputs(in []Type) []Type {
	want(in[0].Shape.N == 2 && in[1].Shape == S(in[0].Shape.Dims[0]), "crossentropy: logits %v, targets %v", in[0], in[1])
	return []Type{F(D(1)), {dtype.F32, in[1].Shape}}
}
func (CrossEntropyGrad) Outputs(in []Type) []Type             { return in[:1] }
func (CrossEntropy) FLOPs(b Bounds, in, _ []Type) float64     { return 5 * elems(b, in[0]) }
func (CrossEntropyGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 5 * elems(b, in[0]) }
func (CrossEntropyGrad) InPlace() []Alias                     { return []Alias{{0, 0}} }

// Scratch holds a loss per row.
func (CrossEntropy) Scratch(b Bounds, in, _ []Type) int64 { return in[1].Bytes(b) }

// Gradient reads the logits; its own gradient is taken to be 1.
func (o CrossEntropy) Gradient(w *Backprop) {
	n := w.Node
	want(n.Out[0] == w.G.Loss, "crossentropy: its loss must be the loss of the graph")
	w.Add(0, w.one(CrossEntropyGrad(o), n.In[0], n.In[1], n.In[2], n.Out[1]))
}

// CrossEntropy appends the loss of logits that are held whole; fusing turns it with its matrix product into a HeadLoss.
func (b *Builder) CrossEntropy(logits, targets, weight Value) Value {
	return b.one(CrossEntropy{}, logits, targets, weight)
}
