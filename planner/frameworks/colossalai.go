package frameworks

import (
	"loadline/mem"
)

// ColossalAI predicts ColossalChat's preference training with low-level ZeRO-2 and gradient checkpointing. Every
// sample is a chosen and a rejected sequence. Sources: colossalai/zero/low_level/low_level_optim.py (fp32 master and
// moments over the ranks, or in host memory), applications/ColossalChat/coati/trainer/{dpo,orpo}.py (which logits live).
func ColossalAI(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s := j.Shape
	t := j.tokens() * one(j.Sequences)
	h, v, p, n := float64(s.Hidden), float64(s.Vocab), float64(s.Params()), one(j.Ranks)
	var a tally
	a.add(mem.Weights, 2*p*one(j.Models))
	if j.OffloadOptim > 0 {
		a.host[mem.OptimState] += 12 * p / n
	} else {
		a.add(mem.MasterWeights, 4*p/n)
		a.add(mem.OptimState, 8*p/n)
	}
	a.add(mem.Activations, 2*h*float64(s.Depth())*t)
	logit := 14.7
	if j.Models > 1 { // a reference model's logits and log-probabilities beside the policy's
		logit += 20.5
	}
	if j.Adapter.Variant == "orpo" { // the odds ratio needs probabilities of both sequences
		logit += 2
	}
	a.add(mem.Workspace, logit*t*v+1.2*gib)
	e := a.estimate()
	e.Driver = round(1.5 * gib)
	return e, nil
}
