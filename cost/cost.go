// Package cost models the time of operations and transfers on a described machine. Bytes are exact and live in graph and
// compile; time here is an estimate that ranks plans and never changes a result.
//
// A machine is described in one of two ways. By two numbers, achievable arithmetic and memory traffic: then an operation
// takes the longer of both (the roofline of Williams et al., CACM 2009). Or by a Rate for every kind of operation in every
// element type, fitted to what was measured: then it takes the sum of a fixed part and parts for its arithmetic, its
// traffic and its rows, or a product's sides and result, which is what caches, short rows and packing make of a roofline in practice.
//
// It measures nothing; measurements are data handed in.
package cost

import (
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// Machine describes a machine to the model.
type Machine struct {
	Name      string                `json:"name"`
	FLOPs     float64               `json:"flops"`           // achievable arithmetic, FLOP/s
	Bandwidth float64               `json:"bandwidth"`       // achievable memory traffic, bytes/s
	Overhead  float64               `json:"overhead"`        // seconds that any operation takes
	Link      [mem.NumTiers]float64 `json:"link"`            // bytes/s of a copy between the device tier and each lower tier; 0 where there is none
	Rates     *Rates                `json:"rates,omitempty"` // what was measured; nil has the roofline alone
}

// Laptop2 describes two cores of a present-day CPU with AVX2, plain memory and a SATA-class disk.
func Laptop2() Machine {
	m := Machine{Name: "2-core-avx2", FLOPs: 100e9, Bandwidth: 12e9, Overhead: 2e-6}
	m.Link[mem.Host] = 5e9
	m.Link[mem.Disk] = 500e6
	return m
}

// H100 describes an H100 SXM at rates that dense training reaches.
func H100() Machine {
	m := Machine{Name: "h100-sxm-80gb", FLOPs: 400e12, Bandwidth: 2.5e12, Overhead: 3e-6}
	m.Link[mem.Host] = 50e9
	m.Link[mem.Disk] = 5e9
	return m
}

// Seconds is the modelled time of an operation that is known by arithmetic and traffic alone: the longer of both.
func (m *Machine) Seconds(flops, moved float64) float64 {
	return m.Overhead + max(flops/m.FLOPs, moved/m.Bandwidth)
}

// Op is the modelled time of operation n of g.
func (m *Machine) Op(g *graph.Graph, n *graph.Node) float64 {
	if m.Rates == nil {
		return m.Seconds(n.FLOPs, n.Moved)
	}
	in, out := g.Types(n.In), g.Types(n.Out)
	return m.Of(KeyOf(n.Op, in, out), WorkOf(n.Op, g.Bounds, in, out))
}

// Of is the modelled time of an operation that is known by its kind, its type and its work.
func (m *Machine) Of(k Key, w Work) float64 {
	if m.Rates != nil {
		if r, ok := m.Rates.of(k); ok {
			return r.Seconds(w)
		}
	}
	return m.Seconds(w.FLOPs, w.Moved)
}

// withBias ends the kind of a product with a bias.
const withBias = "+bias"

// KeyOf is the key of an operation. A product with a bias takes another way through the kernels than one without, so it is measured apart.
func KeyOf(op graph.Op, in, out []graph.Type) Key {
	k := Key{op.Kind(), TypeOf(append(in[:len(in):len(in)], out...)...)}
	if _, ok := op.(graph.MatMul); ok && len(in) > 2 && in[2].Shape.N > 0 {
		k.Kind += withBias
	}
	return k
}

// TypeOf is the element type that an operation's speed depends on: BF16 or F16 if any operand or result has it, else F32.
func TypeOf(types ...graph.Type) dtype.Type {
	t := dtype.F32
	for _, x := range types {
		if x.Shape.N > 0 {
			t = narrower(t, x.DType)
		}
	}
	return t
}

func narrower(a, b dtype.Type) dtype.Type {
	if b == dtype.BF16 || b == dtype.F16 {
		return b
	}
	return a
}
