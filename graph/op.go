package graph

import (
	"fmt"

	"loadline/mem"
)

// Op is an operation's attributes: a comparable struct whose fields are fixed when a graph is built.
type Op interface {
	// Kind is the operation's name: the same in program texts, file names and devices.
	Kind() string
	// Outputs returns the types of what it makes from operands of types in. It panics with a constant prefix on
	// operands that do not fit: a mistake of whoever builds, not of the world.
	Outputs(in []Type) []Type
	// FLOPs is its arithmetic under b; multiply and add count as two.
	FLOPs(b Bounds, in, out []Type) float64
}

// Scratch is an Op that needs bytes of its own while it runs.
type Scratch interface {
	// Scratch is the bytes under b. Every device gets the same bytes and may use fewer.
	Scratch(b Bounds, in, out []Type) int64
}

// Alias says that output Out may take the place of operand In.
type Alias struct{ Out, In int }

// InPlace is an Op whose outputs may take over the bytes of operands that die with it. Its kernels are also right
// when they do not: scheduling decides.
type InPlace interface {
	// InPlace lists the pairs in order of preference.
	InPlace() []Alias
}

// Writer is an Op that changes States: output Out is the next version of the State that operand In names. Where the
// operand is a Temp, the output is a Temp too.
type Writer interface{ Writes() []Alias }

// Purposed is an Op whose results are not activations.
type Purposed interface{ Purpose(out int) mem.Purpose }

// Traffic is an Op that moves other than all of its operands and results once.
type Traffic interface {
	// Traffic is bytes read plus written under b.
	Traffic(b Bounds, in, out []Type) float64
}

// Moved is bytes read plus written under b: an operation's own Traffic, or all of its operands and results once.
func Moved(op Op, b Bounds, in, out []Type) float64 {
	if t, ok := op.(Traffic); ok {
		return t.Traffic(b, in, out)
	}
	var n float64
	for _, ts := range [2][]Type{in, out} {
		for _, t := range ts {
			if t.Shape.N > 0 {
				n += float64(t.Bytes(b))
			}
		}
	}
	return n
}

// Differentiable is an Op with a gradient.
type Differentiable interface {
	// Gradient appends the operations that turn the gradients of its outputs into those of its operands.
	Gradient(w *Backprop)
}

// Seeded is an Op that draws random numbers of its own. Unseeded is the same Op with the draws of all of its kind: neither shapes nor cost
// tell the two apart.
type Seeded interface{ Unseeded() Op }

// Attrs is an Op with attributes worth printing.
type Attrs interface{ Attrs() string }

// Text is the operation's text form without operands: "matmul" or "rope{heads=4 theta=10000}".
func Text(op Op) string {
	if a, ok := op.(Attrs); ok {
		if s := a.Attrs(); s != "" {
			return op.Kind() + "{" + s + "}"
		}
	}
	return op.Kind()
}

// want panics unless ok: for shape mismatches between our own values.
func want(ok bool, format string, args ...any) {
	if !ok {
		panic("graph: " + fmt.Sprintf(format, args...))
	}
}

// elems is the number of elements of all of ts together.
func elems(b Bounds, ts ...Type) float64 {
	var n float64
	for _, t := range ts {
		if t.Shape.N > 0 {
			n += float64(t.Shape.Elems(b))
		}
	}
	return n
}
