package compile

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// Optimizer names an update rule.
type Optimizer uint8

// The optimizers.
const (
	AdamW Optimizer = iota
	SGD
	Lion
	Adafactor
)

// optimizerNames are the names that ParseOptimizer reads.
var optimizerNames = [...]string{"adamw", "sgd", "lion", "adafactor"}

// String is the name, in lower case.
func (o Optimizer) String() string { return optimizerNames[o] }

// Optimizers lists the names.
func Optimizers() []string { return slices.Clone(optimizerNames[:]) }

// ParseOptimizer reads a name.
func ParseOptimizer(s string) (Optimizer, error) {
	if i := slices.Index(optimizerNames[:], s); i >= 0 {
		return Optimizer(i), nil
	}
	return 0, fmt.Errorf("optimizer %q: want %s", s, strings.Join(optimizerNames[:], ", "))
}

// TrainOptions are the options of the gradient and update passes.
type TrainOptions struct {
	Optimizer                Optimizer
	Beta1, Beta2, Eps, Decay float32 // Beta1 and Beta2 are AdamW's and Lion's, Eps AdamW's. Decay applies to tensors of two or more axes
	Momentum                 float32 // SGD
	Nesterov                 bool    // SGD with momentum
	NoMaster                 bool    // a bf16 weight has no f32 master: its update is rounded stochastically
	Clip                     float32 // largest global norm of the gradient; 0 is no clipping
	Accumulate               int     // micro-batches a step; 0 and 1 mean one
}

// Names of what Train adds to a graph.
const (
	HyperInput   = "hyper"               // f32 (8): see graph.HyperLR and its neighbours
	NormOutput   = "grad_norm"           // output (1), with clipping
	gradPrefix   = "grad."               // accumulated gradients
	mPrefix      = "adam.m."             // first moments
	vPrefix      = "adam.v."             // second moments
	bufPrefix    = "sgd.buf."            // momentum
	lionPrefix   = "lion.m."             // Lion's mean
	factorPrefix = "adafactor."          // all of Adafactor's moments: small, and whole on every rank
	rowPrefix    = factorPrefix + "row." // means of rows, or of the elements of a tensor of one axis
	colPrefix    = factorPrefix + "col." // means of columns
	masterPrefix = "master."             // f32 masters of weights in the compute type
)

// Train appends the backward half and the update to a graph that ends in a loss.
//
// With one micro-batch a step it returns one graph. Without clipping every update stands right after the last operation
// that contributes to its gradient and frees it at once; with clipping, which needs the norm of all gradients, updates stand
// at the end. With accumulation it returns two graphs: one micro-batch, which adds to gradients kept as States, and the
// update, which zeroes them. Train changes g.
func Train(g *graph.Graph, o TrainOptions) ([]*graph.Graph, error) {
	if g.Loss == graph.None {
		return nil, fmt.Errorf("compile: graph %q has no loss", g.Name)
	}
	if o.NoMaster {
		for _, v := range g.States() {
			if x := &g.Values[v]; x.Train && x.Type.DType != dtype.F32 && x.Type.DType != dtype.BF16 {
				return nil, fmt.Errorf("compile: weight %q is %v: only bf16 is trained without masters", x.Name, x.Type.DType)
			}
		}
	}
	if o.Accumulate > 1 {
		return accumulate(g, o), nil
	}
	b := graph.Edit(g)
	u := updater{Builder: b, o: o}
	var params []graph.Value
	for _, v := range g.States() {
		if g.Values[v].Train {
			params = append(params, v)
		}
	}
	if o.Clip > 0 {
		grads := b.Differentiate(nil, nil)
		u.clipped(params, func(v graph.Value) graph.Value { return grads[v] })
		return []*graph.Graph{g}, nil
	}
	after := map[int][]graph.Value{} // by forward operation: those whose gradient's last contribution comes from it
	for last, i := lastUse(g), 0; i < len(params); i++ {
		after[last[params[i]]] = append(after[last[params[i]]], params[i])
	}
	b.Differentiate(nil, func(op int, grads []graph.Value) {
		for _, v := range after[op] {
			if grads[v] != graph.None {
				b.At(g.Values[v].Layer, "update", graph.Backward)
				u.update(v, grads[v], graph.None)
			}
		}
	})
	return []*graph.Graph{g}, nil
}

// lastUse is, by parameter, the first forward operation that reads it: the last one on the way back.
func lastUse(g *graph.Graph) []int {
	last := make([]int, len(g.Values))
	for v := range last {
		last[v] = -1
	}
	for i := range g.Ops {
		for _, v := range g.Ops[i].In {
			if v != graph.None && last[v] < 0 {
				last[v] = i
			}
		}
	}
	return last
}

// accumulate builds the two graphs of a step of several micro-batches.
func accumulate(g *graph.Graph, o TrainOptions) []*graph.Graph {
	name := g.Name
	g.Name = name + ".micro"
	b := graph.Edit(g)
	var params []graph.Value
	acc := map[graph.Value]graph.Value{}
	for _, v := range g.States() {
		if x := g.Values[v]; x.Train {
			params = append(params, v)
			b.At(x.Layer, "update", graph.Forward)
			acc[v] = b.State(gradPrefix+x.Name, graph.Type{DType: dtype.F32, Shape: x.Type.Shape}, mem.Grads)
		}
	}
	b.At(graph.Outside, "", graph.Forward)
	b.Differentiate(func(v graph.Value) graph.Value { return acc[v] }, nil)

	ub := graph.NewBuilder(name+".update", g.Bounds)
	u := updater{Builder: ub, o: o}
	var ws []graph.Value
	grads := map[graph.Value]graph.Value{}
	for _, v := range params {
		x := &g.Values[v]
		ub.At(x.Layer, "update", graph.Update)
		w := ub.Param(x.Name, x.Type)
		ws = append(ws, w)
		grads[w] = ub.State(gradPrefix+x.Name, graph.Type{DType: dtype.F32, Shape: x.Type.Shape}, mem.Grads)
	}
	ub.G.Layers = g.Layers
	get := func(w graph.Value) graph.Value { return grads[w] }
	if o.Clip > 0 {
		u.clipped(ws, get)
	} else {
		for _, w := range ws {
			ub.At(ub.G.Values[w].Layer, "update", graph.Update)
			u.update(w, grads[w], graph.None)
		}
	}
	for _, w := range ws {
		ub.At(ub.G.Values[w].Layer, "update", graph.Update)
		ub.Apply(graph.Zero{}, grads[w])
	}
	return []*graph.Graph{g, ub.G}
}

// updater appends updates.
type updater struct {
	*graph.Builder
	o TrainOptions
}

// hyperInput declares the hyper-parameters' input once.
func (u *updater) hyperInput() graph.Value {
	if v := u.Find(HyperInput); v != graph.None {
		return v
	}
	return u.Input(HyperInput, graph.F(graph.D(graph.HyperLen)))
}

// clipped appends the global norm (phase one) and the updates scaled by it (phase two).
func (u *updater) clipped(params []graph.Value, grad func(graph.Value) graph.Value) {
	hyper := u.hyperInput()
	var sums []graph.Value
	for _, v := range params {
		if d := grad(v); d != graph.None {
			u.At(u.G.Values[v].Layer, "clip", graph.Update)
			sums = append(sums, u.Apply(graph.SumSquares{}, d)[0])
		}
	}
	u.At(graph.Outside, "clip", graph.Update)
	out := u.Apply(graph.ClipScale{Max: u.o.Clip}, append(sums, hyper)...)
	u.Output(NormOutput, out[1])
	for _, v := range params {
		if d := grad(v); d != graph.None {
			u.At(u.G.Values[v].Layer, "update", graph.Update)
			u.update(v, d, out[0])
		}
	}
}

// update appends one parameter's update. scale may be None.
func (u *updater) update(w, d, scale graph.Value) {
	x := u.G.Values[w]
	hyper := u.hyperInput()
	decay := u.o.Decay
	if x.Type.Shape.N < 2 {
		decay = 0
	}
	f := graph.Type{DType: dtype.F32, Shape: x.Type.Shape}
	var t graph.Target
	master := graph.None
	switch {
	case x.Type == f:
	case u.o.NoMaster:
		t.Key = stochasticKey(x.Name)
	default:
		master = u.State(masterPrefix+x.Name, f, mem.MasterWeights)
	}
	moment := func(prefix string, t graph.Type) graph.Value { return u.State(prefix+x.Name, t, mem.OptimState) }
	var op graph.Op
	var in []graph.Value
	switch u.o.Optimizer {
	case AdamW:
		op = graph.AdamW{Beta1: u.o.Beta1, Beta2: u.o.Beta2, Eps: u.o.Eps, Decay: decay, Target: t}
		in = []graph.Value{w, d, moment(mPrefix, f), moment(vPrefix, f), hyper, scale}
	case SGD:
		buf := graph.None
		if u.o.Momentum != 0 {
			buf = moment(bufPrefix, f)
		}
		op = graph.SGD{Momentum: u.o.Momentum, Decay: decay, Nesterov: u.o.Nesterov, Target: t}
		in = []graph.Value{w, d, buf, hyper, scale}
	case Lion:
		op = graph.Lion{Beta1: u.o.Beta1, Beta2: u.o.Beta2, Decay: decay, Target: t}
		in = []graph.Value{w, d, moment(lionPrefix, f), hyper, scale}
	case Adafactor:
		rt, ct := graph.AdafactorTypes(f)
		col, c := graph.None, graph.None
		a := graph.AdafactorUpdate{Decay: decay, Target: t}
		row := moment(rowPrefix, rt)
		if n := f.Shape.N; n >= 2 {
			a.Rows, a.Cols = f.Shape.Dims[n-2].N, f.Shape.Last()
			col = moment(colPrefix, ct)
		}
		out := u.Apply(graph.AdafactorMoments{}, d, row, col, hyper, scale)
		if col != graph.None {
			c = out[3]
		}
		op, in = a, []graph.Value{w, d, out[1], c, hyper}
	}
	if master != graph.None {
		in = append(in, master)
	}
	u.Apply(op, in...)
}

// stochasticKey is a number of a weight's own, not 0.
func stochasticKey(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name)) // a hash takes everything
	return max(h.Sum32(), 1)
}
