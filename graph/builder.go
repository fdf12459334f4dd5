package graph

import (
	"fmt"

	"loadline/mem"
	"loadline/tensor/dtype"
)

// Builder appends values and operations to a graph. Mistakes in shapes panic.
type Builder struct {
	G     *Graph
	layer int
	part  string
	phase Phase
	names map[string]int   // how often a Temp's name was used
	site  int              // number of dropout sites so far
	roots map[string]Value // Inputs and first versions of States by name, made when first asked for
}

// NewBuilder starts an empty graph.
func NewBuilder(name string, b Bounds) *Builder {
	return &Builder{G: &Graph{Name: name, Bounds: b, Loss: None}, layer: Outside, names: map[string]int{}}
}

// Edit returns a builder that goes on with g, for compile passes.
func Edit(g *Graph) *Builder { return &Builder{G: g, layer: Outside, names: map[string]int{}} }

// Part tags what f builds with a layer and a part name such as "attn.core"; both are what recompute policies and
// reports speak of. Calls nest; the inner tag holds.
func (b *Builder) Part(layer int, part string, f func()) {
	l, p := b.layer, b.part
	b.layer, b.part = layer, part
	b.G.Layers = max(b.G.Layers, layer+1)
	f()
	b.layer, b.part = l, p
}

// At sets the tag and phase of what is built next; for compile passes.
func (b *Builder) At(layer int, part string, ph Phase) { b.layer, b.part, b.phase = layer, part, ph }

// Find is Graph.Find, for who asks often.
func (b *Builder) Find(name string) Value {
	if b.roots == nil {
		b.roots = map[string]Value{}
		for i := len(b.G.Values) - 1; i >= 0; i-- { // of one name the first
			if x := &b.G.Values[i]; x.Kind != Temp && x.Root == Value(i) {
				b.roots[x.Name] = Value(i)
			}
		}
	}
	if v, ok := b.roots[name]; ok {
		return v
	}
	return None
}

// declare adds an Input or a State.
func (b *Builder) declare(x Info) Value {
	first := b.Find(x.Name) == None
	v := b.add(x)
	if first {
		b.roots[x.Name] = v
	}
	return v
}

// Input declares a value that the caller fills before each run.
func (b *Builder) Input(name string, t Type) Value {
	return b.declare(Info{Name: name, Kind: Input, Type: t, Purpose: mem.Staging, Def: -1})
}

// State declares a value that is kept between runs, or returns the one already declared under that name.
func (b *Builder) State(name string, t Type, p mem.Purpose) Value {
	if v := b.Find(name); v != None {
		want(b.G.Values[v].Type == t, "state %q: want %v, declared as %v", name, t, b.G.Values[v].Type)
		return v
	}
	return b.declare(Info{Name: name, Kind: State, Type: t, Purpose: p, Def: -1})
}

// Param declares a trainable weight.
func (b *Builder) Param(name string, t Type) Value {
	v := b.State(name, t, mem.Weights)
	b.G.Values[v].Train = true
	return v
}

// Stored makes t the element type that a State, which nothing uses yet, is stored in.
func (b *Builder) Stored(v Value, t dtype.Type) {
	x := &b.G.Values[v]
	want(x.Kind == State && x.Root == v, "stored: %q is no state", x.Name)
	x.Type.DType = t
	x.Bytes = RoundUp(x.Type.Bytes(b.G.Bounds))
}

// Output marks a Temp as read by the caller after a run, under a name.
func (b *Builder) Output(name string, v Value) {
	b.G.Values[v].Name = name
	b.G.Outputs = append(b.G.Outputs, v)
}

// SetLoss marks the scalar that the gradient is taken of; it is an output named "loss".
func (b *Builder) SetLoss(v Value) {
	b.G.Loss = v
	b.Output("loss", v)
}

func (b *Builder) add(x Info) Value {
	v := Value(len(b.G.Values))
	x.Root, x.Layer, x.Part = v, b.layer, b.part
	x.Bytes = RoundUp(x.Type.Bytes(b.G.Bounds))
	b.G.Values = append(b.G.Values, x)
	return v
}

// Name gives a Temp a name for texts; it is made unique with a number when the name is taken.
func (b *Builder) Name(v Value, name string) Value {
	b.names[name]++
	if n := b.names[name]; n > 1 {
		name = fmt.Sprintf("%s#%d", name, n)
	}
	b.G.Values[v].Name = name
	return v
}

// Apply appends an operation and returns what it makes. This is the door for a user's own operations; the
// built-in ones have methods.
func (b *Builder) Apply(op Op, in ...Value) []Value {
	ts := b.G.Types(in)
	types := op.Outputs(ts)
	n := Node{Op: op, In: append([]Value(nil), in...), Layer: b.layer, Part: b.part, Phase: b.phase}
	bounds := b.G.Bounds
	id := int32(len(b.G.Ops))
	for i, t := range types {
		x := Info{Kind: Temp, Type: t, Purpose: mem.Activations, Def: id}
		if p, ok := op.(Purposed); ok {
			x.Purpose = p.Purpose(i)
		}
		x.Name = op.Kind()
		if i > 0 {
			x.Name = fmt.Sprintf("%s.%d", op.Kind(), i)
		}
		n.Out = append(n.Out, b.add(x))
	}
	if w, ok := op.(Writer); ok {
		for _, a := range w.Writes() {
			if a.In < len(in) && in[a.In] != None && b.G.Values[in[a.In]].Kind == State {
				b.next(n.Out[a.Out], in[a.In], op)
			}
		}
	}
	if p, ok := op.(InPlace); ok { // accumulating into a State is writing it
		for _, a := range p.InPlace() {
			if a.In < len(in) && in[a.In] != None && b.G.Values[in[a.In]].Kind == State && b.G.Values[in[a.In]].Purpose == mem.Grads {
				b.next(n.Out[a.Out], in[a.In], op)
			}
		}
	}
	if s, ok := op.(Scratch); ok {
		n.Mem = RoundUp(s.Scratch(bounds, ts, types))
	}
	n.FLOPs = op.FLOPs(bounds, ts, types)
	n.Moved = Moved(op, bounds, ts, types)
	b.G.Ops = append(b.G.Ops, n)
	return n.Out
}

// next makes out the next version of the State that old names.
func (b *Builder) next(out, old Value, op Op) {
	o, x := b.G.Values[old], &b.G.Values[out]
	want(o.Type == x.Type, "%s: state %q is %v, written as %v", op.Kind(), o.Name, o.Type, x.Type)
	x.Kind, x.Name, x.Purpose, x.Root, x.Tier, x.Train = State, o.Name, o.Purpose, o.Root, o.Tier, o.Train
}

// one appends an operation with a single output.
func (b *Builder) one(op Op, in ...Value) Value { return b.Apply(op, in...)[0] }

// Width is the innermost axis of v.
func (b *Builder) Width(v Value) int { return b.G.Values[v].Type.Shape.Last() }
