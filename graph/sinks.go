package graph

import "loadline/mem"

// SinkGrad is the gradient for the sinks of Attention: do, o (N,H·K), lse (N,H), sinks (H), acc (H) or None → acc − Σ exp(sink − lse)·Σ do·o,
// rows ascending.
type SinkGrad struct{}

// SoftmaxSinkGrad is the gradient for the sinks of Softmax: dp, p (…,H,C), acc (H) or None → acc − Σ (1 − Σ p)·Σ dp·p, rows ascending.
type SoftmaxSinkGrad struct{}

func (SinkGrad) Kind() string        { return "sink_grad" }
func (SoftmaxSinkGrad) Kind() string { return "softmax_sink_grad" }
func (SinkGrad) Outputs(in []Type) []Type {
	want(in[0].Shape == in[1].Shape && in[2].Shape.Last() == in[3].Shape.Last() && in[0].Shape.Last()%in[2].Shape.Last() == 0, "sink_grad: do %v, o %v, lse %v, sinks %v", in[0], in[1], in[2], in[3])
	return []Type{in[3]}
}
func (SoftmaxSinkGrad) Outputs(in []Type) []Type {
	want(in[0] == in[1] && in[0].Shape.N == 3, "softmax_sink_grad: dp %v, p %v", in[0], in[1])
	return []Type{F(in[0].Shape.Dims[1])}
}
func (SinkGrad) FLOPs(b Bounds, in, _ []Type) float64        { return 2 * elems(b, in[0]) }
func (SoftmaxSinkGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 3 * elems(b, in[0]) }
func (SinkGrad) InPlace() []Alias                            { return []Alias{{0, 4}} }
func (SoftmaxSinkGrad) InPlace() []Alias                     { return []Alias{{0, 2}} }
func (SinkGrad) Purpose(int) mem.Purpose                     { return mem.Grads }
func (SoftmaxSinkGrad) Purpose(int) mem.Purpose              { return mem.Grads }
