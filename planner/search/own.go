package search

import (
	"cmp"
	"fmt"
	"slices"

	"loadline/mem"
	"loadline/planner/frameworks"
)

// Own is the name of the system that this program is.
const Own = "loadline"

// ownAxes is the space of our own runs: what they compile here, on one rank.
func (q *Question) ownAxes(a *axes) {
	h := &q.Hold
	a.ranks, a.tp, a.pp, a.cp, a.ep, a.zero = heldInt(h.Ranks, 1), heldInt(h.TP, 1), heldInt(h.PP, 1), heldInt(h.CP, 1), heldInt(h.EP, 1), []int{0}
	a.precision, a.head, a.quant, a.kv = heldWord(h.Precision, "bf16", "fp32"), heldWord(h.LossHead, "chunked"), []string{"f32"}, heldWord(h.KVType, "f16")
	a.recompute, a.offload = heldWord(h.Recompute, "none", "full"), heldWord(h.Offload, "none")
	if q.Task == Serve {
		a.recompute, a.precision, a.micro = []string{"none"}, []string{"fp32"}, []int{1}
	}
}

// ownCombines tells whether our own runs have a combination.
func ownCombines(c *Config) bool {
	return c.Ranks*c.TP*c.PP*c.CP*c.EP == 1 && c.Adapter == "none" && (c.Offload == "none" || c.Offload == "optimizer") && c.LossHead == "chunked" && c.Recompute != "selective" && c.Precision != "fp8"
}

// own returns the best three of our own settings by the closed forms: what is worth compiling.
func (q *Question) own() []Plan {
	if !q.Own || q.Framework != "any" && q.Framework != Own {
		return nil
	}
	var fits, over []Plan
	q.walk(Own, 0, func(c Config) bool {
		p, err := q.evaluate(c)
		switch {
		case err != nil:
			return false
		case p.OOMChance < 0.5: // the closed form is rough
			fits = append(fits, p)
			return true
		}
		over = append(over, p)
		return false
	})
	slices.SortStableFunc(fits, func(a, b Plan) int { return cmp.Or(q.compare(&a, &b), cmp.Compare(a.Peak, b.Peak)) })
	if len(fits) == 0 && len(over) > 0 {
		fits = []Plan{slices.MinFunc(over, func(a, b Plan) int { return cmp.Compare(a.Peak, b.Peak) })}
	}
	return fits[:min(3, len(fits))]
}

// ownServing predicts the engine of generate and serve roughly, for what is then compiled.
func (q *Question) ownServing(c Config) (Plan, error) {
	kv := 32.0
	if q.Hold.KVType != "" {
		kv = kvBits(c.KVType)
	}
	j := frameworks.Job{Shape: q.Shape, Ranks: 1, MicroBatch: q.Concurrency, Seq: q.Context, Weights: frameworks.Quant{Name: "fp32", Bits: 32, EmbedBits: 32}, KVBits: kv}
	var e frameworks.Estimate
	e.Usage.Add(mem.Device, mem.Weights, mem.Bytes(4*q.Shape.Params()))
	e.Usage.Add(mem.Device, mem.KVBlocks, mem.Bytes(4*q.Shape.KVElemsAt(q.Context)*float64(q.Concurrency)))
	need := e.Allocated()
	low, high := frameworks.Spread{Sigma: 0.1}.Range(need)
	p := q.plan(c, e, need, low, high)
	t := frameworks.Generate(j, q.Machine.Card, frameworks.Serving{Bandwidth: 0.7, Matmul: 0.5, LayerSeconds: 20e-6, PassSeconds: 50e-6}, q.Output)
	p.StepSeconds, p.Bound = t.Seconds/float64(q.Output), t.Bound
	p.TokensPerSecond = float64(q.Concurrency*q.Output) / t.Seconds
	return p, nil
}

// Include puts plans of our own, compiled by now, among the others: their bytes are exact. Each has its configuration,
// peak, times, purposes, options and reasons. Plans that do not fit are left out where others do.
func (a *Answer) Include(own []Plan) {
	q := &a.Question
	var fits, over []Plan
	for _, p := range slices.Concat(own, a.Plans) {
		if p.Fits() {
			fits = append(fits, p)
		} else {
			over = append(over, p)
		}
	}
	if len(fits)+len(over) == 0 {
		return
	}
	if len(fits) == 0 {
		a.Plans = []Plan{slices.MinFunc(over, func(x, y Plan) int { return cmp.Or(cmp.Compare(x.OOMChance, y.OOMChance), cmp.Compare(x.Peak, y.Peak)) })}
		if least := &a.Plans[0]; least.Config.System == Own {
			a.Next = fmt.Sprintf("the least found is %v a rank, of %v usable; a machine with %v would do", least.Peak, a.Limit, least.Peak)
		}
		return
	}
	a.Plans = q.best(fits)
	for i := 1; i < len(a.Plans); i++ {
		a.Plans[i].Why = "beside the best, with " + difference(&a.Plans[0].Config, &a.Plans[i].Config) + ", " + against(&a.Plans[i], &a.Plans[0])
	}
	if !a.Fits || a.Next == "" {
		a.Fits, a.Next = true, "nothing in this space is faster for more memory: the step is bound by "+a.Plans[0].Bound
	}
	for i := range own {
		if p := &own[i]; p.Fits() {
			a.Frontier = append(a.Frontier, Point{p.Line(q), p.Peak, p.TokensPerSecond})
		}
	}
	slices.SortStableFunc(a.Frontier, func(x, y Point) int {
		return cmp.Or(cmp.Compare(x.Peak, y.Peak), cmp.Compare(y.TokensPerSecond, x.TokensPerSecond))
	})
	fastest := 0.0
	a.Frontier = slices.DeleteFunc(a.Frontier, func(p Point) bool {
		slower := p.TokensPerSecond <= fastest
		fastest = max(fastest, p.TokensPerSecond)
		return slower
	})
}
