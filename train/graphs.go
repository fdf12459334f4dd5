package train

import (
	"fmt"
	"slices"
	"strings"

	"loadline/compile"
	"loadline/graph"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor"
)

// Names of a job's programs. Without accumulation a step is StepProgram; with it MicroProgram for each micro-batch, then UpdateProgram.
// With a scaled loss NormProgram stands between them, and SkipProgram takes the place of UpdateProgram where the norm is not finite.
const (
	StepProgram   = "step"
	MicroProgram  = "step.micro"
	UpdateProgram = "step.update"
	NormProgram   = "step.norm"
	SkipProgram   = "step.skip"
	EvalProgram   = "eval"
	InitProgram   = "init"
	SaveProgram   = "save"
	ResumeProgram = "resume"
)

// state is a State of the job, as it is without sharding.
type state struct {
	name    string
	typ     graph.Type // of the storage, narrow or not
	purpose mem.Purpose
	sharded bool // each rank holds its shard
}

// master and grad are what the passes put before a weight's name in that of its f32 master and its accumulated gradient.
const (
	master = "master."
	grad   = "grad."
)

// weight is the name of the weight that a master or a gradient belongs to, or the State's own.
func (s *state) weight() string {
	switch s.purpose {
	case mem.MasterWeights:
		return strings.TrimPrefix(s.name, master)
	case mem.Grads:
		return strings.TrimPrefix(s.name, grad)
	}
	return s.name
}

// width is the bytes of an element.
func (s *state) width() int { return int(s.typ.DType.Bytes(1)) }

// kept tells whether the State is in the file of optimizer state: what a run needs beside its weights.
func (s *state) kept() bool { return s.purpose == mem.OptimState || s.purpose == mem.MasterWeights }

func (s *state) elems() int { return int(s.typ.Shape.Elems(graph.Bounds{})) }

// shard is the range of elements that rank holds.
func (s *state) shard(ranks, rank int) (lo, hi int) {
	if !s.sharded {
		return 0, s.elems()
	}
	return tensor.Shard(s.elems(), ranks, rank)
}

// graphs are what the job's programs are compiled from.
type graphs struct {
	main   *graph.Graph // forward and backward: what recompute and offload are about
	others []*graph.Graph
	states []state // weights in the model's order, then masters, moments, accumulated gradients
}

// buildGraphs builds every branch of a run.
func buildGraphs(o *Options) (*graphs, error) {
	whole := func(build func(model.Config, model.TrainOptions) (*graph.Graph, error), name string) (*graph.Graph, error) {
		g, err := build(o.Config, o.graphOptions(name))
		if err != nil {
			return nil, err
		}
		return compile.Autocast(compile.Fuse(g, compile.FuseOptions{Chunk: o.chunk()}), compile.AutocastOptions{Compute: o.compute()})
	}
	g, err := whole(model.TrainGraph, StepProgram)
	if err != nil {
		return nil, err
	}
	steps, err := compile.Train(g, o.trainOptions())
	if err != nil {
		return nil, err
	}
	all := &graphs{states: listStates(steps, o.zeroOptions())}
	if o.EvalEvery > 0 {
		e, err := whole(model.EvalGraph, EvalProgram)
		if err != nil {
			return nil, err
		}
		steps = append(steps, e)
	}
	if o.scaled() {
		steps = append(steps, all.norm(), all.skip())
	}
	steps = append(steps, all.init(), all.save(), all.resume())
	for i, g := range steps {
		if steps[i], err = compile.Zero(g, o.zeroOptions()); err != nil {
			return nil, err
		}
		if o.OffloadOptimizer {
			steps[i] = compile.OffloadStates(steps[i], compile.StatesOptions{Tier: o.OffloadTier(), Piece: o.piece, Keep: o.stay})
		}
	}
	all.main, all.others = steps[0], steps[1:]
	return all, nil
}

// checkTags refuses a tag of recompute that names no part of the forward half.
func (a *graphs) checkTags(tags []string) error {
	var parts []string
	for i := range a.main.Ops {
		if x := &a.main.Ops[i]; x.Part != "" && x.Phase == graph.Forward && !slices.Contains(parts, x.Part) {
			parts = append(parts, x.Part)
		}
	}
	for _, tag := range tags {
		if !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains("."+p+".", "."+tag+".") }) {
			return bad("recompute", "%q names no part of the model whose values are kept; there are %s", tag, strings.Join(parts, " "))
		}
	}
	return nil
}

// listStates lists the States of a step's graphs.
func listStates(gs []*graph.Graph, z compile.ZeroOptions) []state {
	var out []state
	seen := map[string]bool{}
	for _, p := range []mem.Purpose{mem.Weights, mem.MasterWeights, mem.OptimState, mem.Grads} {
		for _, g := range gs {
			for _, v := range g.States() {
				if x := g.Info(v); x.Purpose == p && !seen[x.Name] {
					seen[x.Name] = true
					out = append(out, state{x.Name, x.Type, x.Purpose, z.Sharded(x.Name, p, x.Type)})
				}
			}
		}
	}
	return out
}

// each builds a graph with one operation for every State.
func (a *graphs) each(name string, op func(s *state) graph.Op) *graph.Graph {
	b := graph.NewBuilder(name, graph.Bounds{})
	for i := range a.states {
		s := &a.states[i]
		x := op(s)
		if x == nil {
			continue
		}
		b.Part(graph.Outside, x.Kind(), func() {
			var v graph.Value
			if s.purpose == mem.Weights {
				v = b.Param(s.name, s.typ) // trainable, so that zero shards it as it does in a step
			} else {
				v = b.State(s.name, s.typ, s.purpose)
			}
			b.Apply(x, v)
		})
	}
	return b.G
}

// norm computes the global norm of the accumulated gradients, unscaled, and changes nothing: what decides between update and skip.
func (a *graphs) norm() *graph.Graph {
	b := graph.NewBuilder(NormProgram, graph.Bounds{})
	b.Part(graph.Outside, "norm", func() {
		var in []graph.Value
		for i := range a.states {
			if s := &a.states[i]; s.purpose == mem.Grads {
				in = append(in, b.Apply(graph.SumSquares{}, b.State(s.name, s.typ, s.purpose))[0])
			}
		}
		in = append(in, b.Input(compile.HyperInput, graph.F(graph.D(graph.HyperLen))))
		b.Output(compile.NormOutput, b.Apply(graph.ClipScale{Max: 1}, in...)[1])
	})
	return b.G
}

// skip gives the accumulated gradients up.
func (a *graphs) skip() *graph.Graph {
	return a.each(SkipProgram, func(s *state) graph.Op {
		if s.purpose == mem.Grads {
			return graph.Zero{}
		}
		return nil
	})
}

// init fills the weights and their masters from outside and the rest with zeros.
func (a *graphs) init() *graph.Graph {
	return a.each(InitProgram, func(s *state) graph.Op {
		if s.purpose == mem.Weights || s.purpose == mem.MasterWeights {
			return graph.Restore{}
		}
		return graph.Zero{}
	})
}

// save streams the weights, gathered whole where they are sharded, and the masters and moments that this rank holds. Accumulated gradients are zero
// between steps.
func (a *graphs) save() *graph.Graph {
	return a.each(SaveProgram, func(s *state) graph.Op {
		if s.purpose == mem.Grads {
			return nil
		}
		return graph.Save{}
	})
}

// resume fills the weights, masters and moments that this rank holds.
func (a *graphs) resume() *graph.Graph {
	return a.each(ResumeProgram, func(s *state) graph.Op {
		if s.purpose == mem.Grads {
			return graph.Zero{}
		}
		return graph.Restore{}
	})
}

// programs compiles everything but the main graph, none of which has anything to decide.
func (a *graphs) programs(o *Options) ([]*compile.Program, error) {
	var out []*compile.Program
	for _, g := range a.others {
		o.planning(g.Name)
		p, err := compile.Step(g, compile.Options{Machine: o.Machine})
		if err != nil {
			return nil, fmt.Errorf("train: %s: %w", g.Name, err)
		}
		out = append(out, p)
	}
	return out, nil
}
