package search

import (
	"fmt"
	"slices"
	"strings"

	"loadline/mem"
)

// limit is the most that a rank's peak may be.
func (q *Question) limit() mem.Bytes {
	n := q.Machine.Card.Reported()
	if q.Memory > 0 {
		n = min(n, q.Memory)
	}
	return n
}

// finish fills in what only answers show: purposes, stages, options and reasons.
func (q *Question) finish(p *Plan, level int) {
	p.ByPurpose = byPurpose(&p.estimate, p.Peak)
	p.Stages = q.stages(p)
	p.Options = q.options(&p.Config)
	p.Path = q.path(p, level)
	p.Why = strings.Join(p.Path, "; ")
}

// stages returns the peak of every pipeline stage, first to last, or of the one kind of rank.
func (q *Question) stages(p *Plan) []Stage {
	c := p.Config
	switch {
	case c.PP == 1:
		return []Stage{{"every rank", p.Peak, p.ByPurpose}}
	case c.System != "megatron":
		return []Stage{{"the largest rank", p.Peak, p.ByPurpose}}
	}
	var out []Stage
	for k := range c.PP {
		one, err := q.stage(c, c.PP-1-k)
		if err != nil {
			continue
		}
		name := fmt.Sprintf("stage %d of %d", k+1, c.PP)
		switch k {
		case 0:
			name += " (first)"
		case c.PP - 1:
			name += " (last, with the loss)"
		}
		out = append(out, Stage{name, one.Peak, byPurpose(&one.estimate, one.Peak)})
	}
	return out
}

// options lists the configuration by flag.
func (q *Question) options(c *Config) map[string]any {
	o := map[string]any{"framework": c.System, "task": q.Task, "ranks": c.Ranks, "tp": c.TP, "pp": c.PP, "dp": c.DP}
	if q.Task == Serve {
		o["quant"], o["kv-type"], o["context"], o["concurrency"] = c.Quant, c.KVType, q.Context, q.Concurrency
		if c.System == "llamacpp" {
			o["gpu-layers"] = c.GPULayers
		}
		return o
	}
	if c.System == "megatron" {
		o["interleave"] = c.Interleave
	}
	o["cp"], o["ep"], o["zero"], o["batch"], o["accumulate"], o["seq"] = c.CP, c.EP, c.ZeRO, c.MicroBatch, c.Accumulate, q.Seq
	o["precision"], o["recompute"], o["offload"], o["adapter"], o["optimizer"], o["loss-head"] = c.Precision, c.Recompute, c.Offload, c.Adapter, c.Optimizer, c.LossHead
	if c.Adapter != "none" {
		o["adapter-rank"] = c.AdapterRank
	}
	return o
}

// settings are what two configurations may differ in, by the name that people read.
func (c *Config) settings() [][2]string {
	return [][2]string{
		{"framework", c.System}, {"ranks", fmt.Sprint(c.Ranks)}, {"tp", fmt.Sprint(c.TP)}, {"pp", fmt.Sprint(c.PP)}, {"cp", fmt.Sprint(c.CP)}, {"ep", fmt.Sprint(c.EP)}, {"interleave", fmt.Sprint(c.Interleave)},
		{"zero", fmt.Sprint(c.ZeRO)}, {"batch", fmt.Sprint(c.MicroBatch)}, {"precision", c.Precision}, {"recompute", c.Recompute}, {"offload", c.Offload}, {"adapter", c.Adapter},
		{"optimizer", c.Optimizer}, {"loss head", c.LossHead}, {"weights", c.Quant}, {"kv type", c.KVType}, {"layers on the cards", fmt.Sprint(c.GPULayers)},
	}
}

// difference says what b has that a has not.
func difference(a, b *Config) string {
	var parts []string
	x := a.settings()
	for i, s := range b.settings() {
		if s != x[i] {
			parts = append(parts, s[0]+" "+s[1])
		}
	}
	if len(parts) == 0 {
		return "the same"
	}
	return strings.Join(parts, ", ")
}

// held lists what the question fixes.
func (q *Question) held() string {
	h := &q.Hold
	var parts []string
	for _, n := range []struct {
		name string
		n    int
	}{{"ranks", h.Ranks}, {"tp", h.TP}, {"pp", h.PP}, {"cp", h.CP}, {"ep", h.EP}, {"batch", h.MicroBatch}, {"global-batch", q.GlobalBatch}} {
		if n.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", n.name, n.n))
		}
	}
	if h.ZeRO != nil {
		parts = append(parts, fmt.Sprintf("zero %d", *h.ZeRO))
	}
	for _, w := range [][2]string{
		{"precision", h.Precision}, {"recompute", h.Recompute}, {"offload", h.Offload}, {"adapter", h.Adapter}, {"optimizer", h.Optimizer}, {"loss-head", h.LossHead}, {"quant", h.Quant},
		{"kv-type", h.KVType}, {"framework", q.Framework},
	} {
		if w[1] != "" {
			parts = append(parts, w[0]+" "+w[1])
		}
	}
	return strings.Join(parts, ", ")
}

// nextUp says the least memory that would buy speed: of the plans that do not fit and are faster, the smallest.
func (q *Question) nextUp(best *Plan, over []Plan) string {
	var least *Plan
	for i := range over {
		if p := &over[i]; p.TokensPerSecond > 1.05*best.TokensPerSecond && p.Ranks <= best.Ranks && (least == nil || p.Peak < least.Peak) {
			least = p
		}
	}
	if least == nil {
		return "nothing in this space is faster for more memory: the step is bound by " + best.Bound
	}
	short := least.Peak - least.usable
	gain := 100 * (least.TokensPerSecond/best.TokensPerSecond - 1)
	if short <= 0 {
		return fmt.Sprintf("%s would be %.0f%% faster at %v a rank, too near the %v usable: it would run out with a chance of %.0f%%",
			difference(&best.Config, &least.Config), gain, least.Peak, least.usable, 100*least.OOMChance)
	}
	return fmt.Sprintf("%s would be %.0f%% faster and needs %v a rank: %v more than is usable", difference(&best.Config, &least.Config), gain, least.Peak, short)
}

// rescue says what would make the least plan fit: more cards of the kind, or a larger one.
func (q *Question) rescue(least *Plan) string {
	say := fmt.Sprintf("the least found is %v a rank, of %v usable", least.Peak, least.usable)
	if least.Host > q.Machine.host() {
		say += fmt.Sprintf(", and %v of host memory a node, where there are %v", least.Host, q.Machine.host())
	}
	if q.Machine.Card.Vendor == HostVendor {
		return fmt.Sprintf("%s; a machine with %v free would do", say, least.Range[1])
	}
	if q.Hold.Ranks == 0 {
		more := *q
		more.Objective = Speed
		for range 10 {
			if more.Machine.PerNode < 8 {
				more.Machine.PerNode *= 2
			} else {
				more.Machine.Nodes *= 2
			}
			if more.Machine.Cards() > maxCards || q.GlobalBatch > 0 && more.Machine.Cards() > 64*q.GlobalBatch {
				break
			}
			if all, _ := more.search(); len(all.fits) > 0 {
				best := more.best(all.fits)[0]
				say = fmt.Sprintf("%s; %d such cards would do (%s)", say, more.Machine.Cards(), difference(&least.Config, &best.Config))
				if least.Host <= q.Machine.host() {
					say += fmt.Sprintf(", or cards with %v", least.Range[1])
				}
				return say
			}
		}
	}
	if least.Host > q.Machine.host() {
		return say
	}
	return fmt.Sprintf("%s; a card with %v would do", say, least.Range[1])
}

// whatIf says what a change to the chosen plan would do, or nothing where it makes no plan.
func (q *Question) whatIf(p *Plan, name string, change func(*Config)) string {
	c := p.Config
	change(&c)
	if c == p.Config || c.MicroBatch < 1 || !q.offers(&c, p.Config) {
		return ""
	}
	o, err := q.evaluate(c)
	if err != nil {
		return ""
	}
	if !o.Fits() {
		if o.Peak <= o.usable {
			if o.Host > q.Machine.host() {
				return fmt.Sprintf("%s needs %v of host memory, which has %v", name, o.Host, q.Machine.host())
			}
			return fmt.Sprintf("%s needs %v of %v usable, too near", name, o.Peak, o.usable)
		}
		return fmt.Sprintf("%s needs %v of %v usable", name, o.Peak, o.usable)
	}
	return name + " " + against(&o, p)
}

// offers tells whether a change to a plan is worth a word, and fills in what follows from it. What a question holds makes nothing worth it
// that was not, unless the plan is such a thing itself: so the reasons for a plan that was found are those for the same plan held.
func (q *Question) offers(c *Config, planned Config) bool {
	free := *q
	free.Hold = Hold{}
	if !free.possible(&planned) {
		return q.possible(c)
	}
	return free.possible(c)
}

// possible tells whether the task can be done in a configuration, and fills in what follows from it.
func (q *Question) possible(c *Config) bool {
	if !q.known(c) {
		return false
	}
	if q.Task == Serve {
		return q.serves(c, servingLevels)
	}
	return q.combines(c) && q.batches(c)
}

// because joins a choice with what its alternatives would do.
func because(choice string, alternatives ...string) string {
	alternatives = slices.DeleteFunc(alternatives, func(s string) bool { return s == "" })
	if len(alternatives) == 0 {
		return choice
	}
	return choice + " (" + strings.Join(alternatives, "; ") + ")"
}
