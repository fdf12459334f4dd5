package search

import (
	"fmt"

	"loadline/mem"
)

// path retraces the decision tree of memory techniques, every branch with the numbers that decide it here.
func (q *Question) path(p *Plan, level int) []string {
	if q.Task == Serve {
		return q.servingPath(p, level)
	}
	c, s := &p.Config, q.Shape
	params := float64(s.Params())
	room := p.usable
	whole := mem.Bytes(16 * params)
	out := []string{}
	switch {
	case halfStates(c):
		out = append(out, fmt.Sprintf("%s parameters with Adam are 8 bytes each in torchtune, %v, of the %v usable of a card: weights, gradients and moments are all in BF16, %s", count(params), whole/2, room, noMasters))
	case c.Adapter == "none" && whole > room:
		out = append(out, fmt.Sprintf("%s parameters with Adam are 16 bytes each, %v, more than the %v usable of %s: states have to be shared, offloaded or shrunk", count(params), whole, room, q.holder()))
	case c.Adapter == "none":
		out = append(out, fmt.Sprintf("%s parameters with Adam are 16 bytes each, %v of the %v usable of %s", count(params), whole, room, q.holder()))
	default:
		out = append(out, because(fmt.Sprintf("an adapter of rank %d trains %s of %s parameters, so that gradients and moments are small", c.AdapterRank, count(loraParams(q, c.AdapterRank)), count(params)),
			q.whatIf(p, "full training", func(c *Config) { c.Adapter = "none" })))
	}
	out = append(out, q.precision(p))
	layout := fmt.Sprintf("ranks: data %d × tensor %d × pipeline %d × context %d, experts over %d", c.DP, c.TP, c.PP, c.CP, c.EP)
	if c.Interleave > 1 {
		layout += fmt.Sprintf(", %d stages of layers on each pipeline rank, so that it waits less", c.Interleave)
	}
	out = append(out, because(layout,
		q.whatIf(p, "stages of layers in one piece", func(c *Config) { c.Interleave = 1 }), q.whatIf(p, fmt.Sprintf("interleave %d", 2*c.Interleave), func(c *Config) { c.Interleave *= 2 }),
		q.whatIf(p, fmt.Sprintf("tensor %d", 2*c.TP), func(c *Config) { c.TP *= 2 }), q.whatIf(p, fmt.Sprintf("tensor %d", c.TP/2), func(c *Config) { c.TP = max(1, c.TP/2) }),
		q.whatIf(p, fmt.Sprintf("pipeline %d", 2*c.PP), func(c *Config) { c.PP *= 2 }), q.whatIf(p, fmt.Sprintf("pipeline %d", c.PP/2), func(c *Config) { c.PP = max(1, c.PP/2) })))
	var stages []string
	for z := range 4 {
		stages = append(stages, q.whatIf(p, fmt.Sprintf("stage %d", z), func(c *Config) { c.ZeRO = z }))
	}
	out = append(out, because(zeroChoice(c), stages...))
	var policies []string
	for _, r := range []string{"none", "selective", "full"} {
		policies = append(policies, q.whatIf(p, r, func(c *Config) { c.Recompute = r }))
	}
	out = append(out, because("recompute "+c.Recompute, policies...))
	var offloads []string
	for _, o := range []string{"none", "optimizer", "weights", "optimizer,weights"} {
		offloads = append(offloads, q.whatIf(p, o, func(c *Config) { c.Offload = o }))
	}
	out = append(out, because("offload "+c.Offload, offloads...))
	if c.Optimizer != "adamw" {
		out = append(out, because("optimizer "+c.Optimizer+", since nothing with full states fits", q.whatIf(p, "adamw", func(c *Config) { c.Optimizer = "adamw" })))
	}
	other := map[string]string{"full": "chunked", "chunked": "full"}[c.LossHead]
	out = append(out, because("loss head "+c.LossHead, q.whatIf(p, other, func(c *Config) { c.LossHead = other })))
	out = append(out, because(fmt.Sprintf("micro-batch %d of %d tokens, %d a step", c.MicroBatch, q.Seq, c.Accumulate),
		q.whatIf(p, fmt.Sprint(2*c.MicroBatch), func(c *Config) { c.MicroBatch *= 2 }), q.whatIf(p, fmt.Sprint(c.MicroBatch/2), func(c *Config) { c.MicroBatch /= 2 })))
	return append(out, fmt.Sprintf("a step takes %s s, bound by %s", Number(p.StepSeconds, 3), p.Bound))
}

// halfStates tells whether a plan trains all weights without FP32 copies of them.
func halfStates(c *Config) bool { return c.System == "torchtune" && c.Adapter == "none" }

// noMasters is what that means.
const noMasters = "without FP32 master weights: updates below a 256th of a weight round away, so that it may learn less than with 16 bytes a parameter"

func zeroChoice(c *Config) string {
	if c.DP*c.CP == 1 && c.ZeRO == 0 {
		return "ZeRO stage 0: there is no other data-parallel rank to share with"
	}
	return fmt.Sprintf("ZeRO stage %d: %s", c.ZeRO, zeroWords[c.ZeRO])
}

var zeroWords = [...]string{"every rank holds all states", "optimizer states shared", "gradients too", "weights too, gathered when used"}

// precision explains the number format of training.
func (q *Question) precision(p *Plan) string {
	c := p.Config
	var other []string
	if q.Machine.Card.FP8 > 0 && c.Precision != "fp8" {
		other = append(other, q.whatIf(p, "fp8, which has to be asked for,", func(c *Config) { c.Precision = "fp8" }))
	}
	why := map[string]string{
		"bf16": "BF16 has FP32's range, so that no loss scaling is needed",
		"fp16": "FP16, since the card has no BF16: losses are scaled, and overflowing steps skipped",
		"fp8":  "FP8 products as asked for; what waits for the backward pass stays in 16 bits, so that memory does not change",
	}[c.Precision]
	if c.Precision == "fp16" && !noBF16(&q.Machine.Card) {
		why = "FP16 as asked for: losses are scaled, and overflowing steps skipped"
	}
	if c.Adapter == "qlora" {
		why += "; the frozen weights are in NF4, 4.5 bits each, since 16 bits do not fit"
	}
	return because(why, other...)
}

// count writes a number of parameters.
func count(n float64) string {
	switch {
	case n >= 1e12:
		return Number(n/1e12, 3) + " T"
	case n >= 1e9:
		return Number(n/1e9, 3) + " B"
	}
	return Number(n/1e6, 3) + " M"
}
