package graph

import "slices"

// Backprop is what an operation's Gradient works with: the builder that appends, the node, and the gradients so far.
type Backprop struct {
	*Builder
	Node  *Node
	grads []Value // by value: the gradient so far, None where none flows
	needs []bool  // by value: whether a gradient is wanted

	dropped []Value // results of operations that Replace dropped
}

// Dout is the gradient of output i, or None where nothing depends on it.
func (w *Backprop) Dout(i int) Value { return w.grads[w.Node.Out[i]] }

// Needs tells whether the gradient of operand i is wanted.
func (w *Backprop) Needs(i int) bool {
	return i < len(w.Node.In) && w.Node.In[i] != None && w.needs[w.Node.In[i]]
}

// So is the gradient of operand i so far, or None: an operation that can continue the sum takes it and calls Set.
func (w *Backprop) So(i int) Value { return w.grads[w.Node.In[i]] }

// Set replaces the gradient of operand i, which now includes what So gave.
func (w *Backprop) Set(i int, d Value) { w.grads[w.Node.In[i]] = d }

// Add adds d to the gradient of operand i.
func (w *Backprop) Add(i int, d Value) {
	if !w.Needs(i) || d == None {
		return
	}
	if so := w.So(i); so != None {
		d = w.one(AddOp{}, so, d)
	}
	w.Set(i, d)
}

// Replace makes v take the place of the Loss and drops the operation being differentiated, whose work the
// gradient operation that makes v does as well.
func (w *Backprop) Replace(v Value) {
	g := w.G
	for i, o := range g.Outputs {
		if o == g.Loss {
			g.Outputs[i] = v
		}
	}
	g.Values[v].Name = g.Values[g.Loss].Name
	g.Loss = v
	w.dropped = append(w.dropped, w.Node.Out[0])
}

// Differentiate appends the backward half of g's Loss and returns the gradient of every value by id (None where
// there is none). seed gives gradients that are known beforehand by value, e.g. State accumulators to continue; it
// may be nil. each is called after the gradient operations of every forward operation, with that operation's
// index; it may be nil.
func (b *Builder) Differentiate(seed func(Value) Value, each func(op int, grads []Value)) []Value {
	g := b.G
	want(g.Loss != None, "no loss to differentiate")
	n := len(g.Ops)
	needs := make([]bool, len(g.Values))
	for i := range g.Values {
		needs[i] = g.Values[i].Train
	}
	for i := range g.Ops[:n] {
		for _, v := range g.Ops[i].In {
			if v != None && needs[v] {
				for _, o := range g.Ops[i].Out {
					needs[o] = g.Values[o].Type.DType.Float()
				}
			}
		}
	}
	want(needs[g.Loss], "the loss depends on no trainable value")
	grads := make([]Value, len(g.Values))
	for i := range grads {
		grads[i] = None
		if seed != nil && g.Values[i].Train {
			grads[i] = seed(Value(i))
		}
	}
	dead := -1
	layer, part, phase := b.layer, b.part, b.phase
	b.phase = Backward
	for i := n - 1; i >= 0; i-- {
		node := g.Ops[i] // a copy: Ops grows meanwhile
		b.layer, b.part = node.Layer, node.Part
		used := node.Out[0] == g.Loss
		for _, o := range node.Out {
			used = used || grads[o] != None
		}
		anyNeed := false
		for _, v := range node.In {
			anyNeed = anyNeed || v != None && needs[v]
		}
		if used && anyNeed {
			d, ok := node.Op.(Differentiable)
			want(ok, "%s has no gradient", node.Op.Kind())
			w := &Backprop{Builder: b, Node: &node, grads: grads, needs: needs}
			d.Gradient(w)
			if len(w.dropped) > 0 {
				dead = i
			}
		}
		if each != nil {
			each(i, grads)
		}
	}
	b.layer, b.part, b.phase = layer, part, phase
	if dead >= 0 {
		g.Ops = slices.Delete(g.Ops, dead, dead+1)
		for v := range g.Values {
			if d := &g.Values[v].Def; int(*d) > dead {
				(*d)--
			} else if int(*d) == dead {
				*d = -1
			}
		}
	}
	return grads
}
