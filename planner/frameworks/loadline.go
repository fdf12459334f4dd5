package frameworks

import "loadline/mem"

// Loadline predicts our own training on one rank roughly: it orders settings, of which the best are then compiled, and
// their exact bytes take the place of these. Sources: model.TrainGraph (what a layer keeps with flash attention),
// compile.Fuse (logits of a few rows at a time), compile.Train (masters where weights are narrow, gradients, moments).
func Loadline(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s, t, p := j.Shape, j.tokens(), float64(j.Shape.Params())
	var a tally
	wide := 4.0
	if j.Compute == "bf16" || j.Compute == "fp16" {
		wide = 2
		a.add(mem.MasterWeights, 4*p)
	}
	a.add(mem.Weights, wide*p)
	grads := p // of a sum over micro-batches
	if one(j.Accumulate) == 1 {
		grads = max(largestLayer(s), embedElems(s)) // each is used as soon as it is there
	}
	a.add(mem.Grads, 4*grads)
	a.add(mem.OptimState, 8*p)
	kept, layer := 0.0, 0.0
	for _, l := range s.Layers {
		q, k := widths(s, l)
		one := wide * (4*float64(s.Hidden) + 2*q + 2*k + 3*active(s, l))
		layer = max(layer, one)
		if j.Recompute == Full {
			one = wide * float64(s.Hidden)
		}
		kept += one
	}
	if j.Recompute != Full {
		layer = 0
	}
	a.add(mem.Activations, t*kept)
	a.add(mem.Workspace, t*layer+wide*float64(s.Vocab)*min(t, 256))
	e := a.estimate()
	e.Driver = ownRuntime
	return e, nil
}

// ownRuntime is about what Loadline's process holds beside its arenas: the Go runtime and scratch of threads.
const ownRuntime = 64 * mem.MiB
