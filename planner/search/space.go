package search

import (
	"slices"
	"strings"

	"loadline/planner/frameworks"
	"loadline/planner/shape"
)

// axes are the values that a system's search runs over; held values are alone on theirs.
type axes struct {
	ranks, tp, pp, cp, ep, chunks                  []int
	zero, layers, micro                            []int
	precision, adapter, optimizer, head, quant, kv []string
	recompute, offload                             []string
	level                                          int
}

// powers returns 1, 2, 4, ... up to n, and n.
func powers(n int) []int {
	var out []int
	for k := 1; k <= n; k *= 2 {
		out = append(out, k)
	}
	if n > 0 && out[len(out)-1] != n {
		out = append(out, n)
	}
	return out
}

func heldInt(held int, free ...int) []int {
	if held > 0 {
		return []int{held}
	}
	return free
}

func heldWord(held string, free ...string) []string {
	if held != "" {
		return []string{held}
	}
	return free
}

// axes returns the space of a system. Level 1 adds what changes the model's answers.
func (q *Question) axes(system string, level int) axes {
	h, s := &q.Hold, q.Shape
	cards := q.Machine.Cards()
	a := axes{
		ranks: heldInt(h.Ranks, powers(cards)...), tp: heldInt(h.TP, 1), pp: heldInt(h.PP, 1), cp: heldInt(h.CP, 1), ep: heldInt(h.EP, 1), chunks: []int{1},
		zero: []int{0}, layers: []int{s.Depth()}, micro: heldInt(h.MicroBatch, 1),
		precision: heldWord(h.Precision, "bf16"), adapter: heldWord(h.Adapter, "none"), optimizer: heldWord(h.Optimizer, "adamw"), head: heldWord(h.LossHead, "full"),
		level: level, quant: []string{"bf16"}, kv: heldWord(h.KVType, "f16"), recompute: heldWord(h.Recompute, "none", "full"), offload: heldWord(h.Offload, "none"),
	}
	if noBF16(&q.Machine.Card) {
		a.precision = heldWord(h.Precision, "fp16")
	}
	if system == Own {
		a.micro = heldInt(h.MicroBatch, powers(max(1, min(64, (1<<17)/q.Seq)))...)
		q.ownAxes(&a)
		return a
	}
	if q.Task == Serve {
		q.servingAxes(system, level, &a)
		return a
	}
	if q.Objective == Speed && h.Ranks == 0 && (q.GlobalBatch == 0 || q.GlobalBatch >= cards) {
		a.ranks = []int{cards} // with work for all, fewer are not faster
	}
	a.micro = heldInt(h.MicroBatch, powers(max(1, min(64, (1<<21)/q.Seq)))...)
	if q.Seq >= 16384 {
		a.cp = heldInt(h.CP, powers(min(cards, 32))...)
	}
	q.trainingAxes(system, level, &a)
	if h.ZeRO != nil {
		a.zero = []int{*h.ZeRO}
	}
	return a
}

func (q *Question) trainingAxes(system string, level int, a *axes) {
	h, cards := &q.Hold, q.Machine.Cards()
	inNode := powers(min(q.Machine.PerNode, 16))
	adapters := []string{"none"}
	if q.Task == Finetune {
		adapters = []string{"none", "lora"}
	}
	switch system {
	case "deepspeed":
		a.zero = []int{0, 1, 2, 3}
		a.offload = heldWord(h.Offload, "none", "optimizer", "optimizer,weights")
		a.head = heldWord(h.LossHead, "full", "chunked")
	case "torchtitan":
		a.tp, a.pp, a.zero, adapters = heldInt(h.TP, inNode...), heldInt(h.PP, powers(min(cards, 32, q.Shape.Depth()))...), []int{3}, []string{"none"}
		a.recompute = heldWord(h.Recompute, "none", "selective", "full")
	case "megatron":
		a.tp, a.pp, a.zero, adapters = heldInt(h.TP, inNode...), heldInt(h.PP, powers(min(cards, 64, q.Shape.Depth()))...), []int{0, 1}, []string{"none"}
		a.recompute = heldWord(h.Recompute, "none", "selective", "full")
		a.offload = heldWord(h.Offload, "none", "optimizer")
		a.chunks = heldInt(h.Interleave, 1, 2, 4)
		if q.Shape.MoE() {
			a.ep = heldInt(h.EP, powers(min(cards, 64))...)
		}
	case "torchtune":
		a.zero = []int{0, 3}
		if q.Task == Train && level == 0 && q.Framework == "any" { // weights and moments in 16 bits
			a.ranks = nil
		}
		a.head, a.recompute = heldWord(h.LossHead, "chunked"), heldWord(h.Recompute, "none", "full")
		if level > 0 {
			a.optimizer = heldWord(h.Optimizer, "adamw", "torchao8bit", "torchao4bit")
		}
		if level > 0 && q.Task == Finetune {
			adapters = append(adapters, "qlora")
		}
	case "peft":
		adapters = []string{"lora"}
		if level > 0 {
			adapters = append(adapters, "qlora")
		}
	case "fsdp-qlora":
		adapters, a.recompute = []string{"lora"}, heldWord(h.Recompute, "full")
		if level > 0 {
			adapters = []string{"qlora"}
		}
		a.zero, a.offload = []int{0, 3}, heldWord(h.Offload, "none", "weights")
	}
	a.adapter = heldWord(h.Adapter, adapters...)
	if h.Adapter == "" && q.Task == Train {
		a.adapter = []string{"none"}
	}
}

// known tells whether a system's formulas cover a combination. It fills in DP, micro-batches and sequences a replica.
func (q *Question) known(c *Config) bool {
	s := q.Shape
	if c.TP*c.PP*c.CP > c.Ranks || c.Ranks%(c.TP*c.PP*c.CP) != 0 || c.PP > s.Depth() || s.Heads%c.TP != 0 || s.Heads%c.CP != 0 {
		return false
	}
	if c.TP > q.Machine.PerNode && q.Hold.TP == 0 {
		return false
	}
	if c.Interleave > 1 && (c.PP == 1 || s.Depth()%(c.PP*c.Interleave) != 0) {
		return false
	}
	c.DP = c.Ranks / (c.TP * c.PP * c.CP)
	if c.EP > 1 && (c.Ranks/c.PP%c.EP != 0 || !expertsDivide(s, c.EP)) {
		return false
	}
	return true
}

func expertsDivide(s *shape.Shape, n int) bool {
	return !slices.ContainsFunc(s.Layers, func(l shape.Layer) bool { return l.Experts%n != 0 })
}

// combines tells whether a training configuration's techniques go together in its system.
func (q *Question) combines(c *Config) bool {
	adapts := c.Adapter != "none"
	if c.System == Own {
		return ownCombines(c)
	}
	if c.Precision == "fp32" || !frameworks.Trains(c.System, c.Precision, c.Adapter) {
		return false
	}
	switch c.System {
	case "deepspeed":
		if c.Adapter == "qlora" || c.Optimizer != "adamw" || c.Recompute == "selective" || c.TP*c.PP*c.EP > 1 || c.Offload == "weights" {
			return false
		}
		if c.Offload != "none" && c.ZeRO == 0 || c.Offload == "optimizer,weights" && c.ZeRO < 3 {
			return false
		}
	case "torchtitan":
		if adapts || c.Optimizer != "adamw" || c.Offload != "none" || c.ZeRO != 3 || c.EP > 1 || c.LossHead != "full" {
			return false
		}
	case "megatron":
		if adapts || c.Optimizer != "adamw" || c.ZeRO > 1 || c.LossHead != "full" || strings.Contains(c.Offload, "weights") {
			return false
		}
	case "torchtune":
		if c.TP*c.PP*c.CP*c.EP > 1 || (c.ZeRO == 3) != (c.Ranks > 1) || c.Offload != "none" || c.Recompute == "selective" || c.LossHead != "chunked" {
			return false
		}
		if adapts && c.Optimizer != "adamw" {
			return false
		}
	case "peft":
		if c.TP*c.PP*c.CP*c.EP > 1 || !adapts || c.ZeRO > 0 || c.Offload != "none" || c.Optimizer != "adamw" || c.Recompute == "selective" || c.LossHead != "full" {
			return false
		}
	case "fsdp-qlora":
		if c.TP*c.PP*c.CP*c.EP > 1 || !adapts || (c.ZeRO == 3) != (c.Ranks > 1) || strings.Contains(c.Offload, "optimizer") || c.Optimizer != "adamw" || c.Recompute != "full" || c.LossHead != "full" {
			return false
		}
	}
	if adapts && strings.Contains(c.Offload, "optimizer") && q.Hold.Offload == "" { // an adapter's moments are not worth it
		return false
	}
	if c.ZeRO > 0 && c.DP*c.CP == 1 && c.Offload == "none" && c.System != "torchtitan" {
		return c.ZeRO == max(0, valueOr(q.Hold.ZeRO, -1)) // nothing to share
	}
	return true
}

func valueOr(p *int, def int) int {
	if p == nil {
		return def
	}
	return *p
}

// batches sets the micro-batches of a step, and tells whether the global batch divides.
func (q *Question) batches(c *Config) bool {
	c.Accumulate = 1
	if q.GlobalBatch == 0 {
		if c.PP > 1 {
			c.Accumulate = 4 * c.PP // enough to hide most of the pipeline's bubble
		}
		return true
	}
	each := c.DP * c.MicroBatch
	if q.GlobalBatch%each != 0 {
		return false
	}
	c.Accumulate = q.GlobalBatch / each
	if c.System == "torchtitan" || c.Interleave > 1 { // micro-batches go round in groups of the pipeline's length
		return c.Accumulate%c.PP == 0
	}
	return true
}

// walk calls try with every configuration of a system's space, micro-batches ascending; try says whether a larger
// micro-batch is worth looking at.
func (q *Question) walk(system string, level int, try func(c Config) bool) {
	a := q.axes(system, level)
	for _, ranks := range a.ranks {
		for _, tp := range a.tp {
			for _, pp := range a.pp {
				for _, cp := range a.cp {
					for _, ep := range a.ep {
						fitted := false
						for i, chunks := range a.chunks {
							c := Config{System: system, Ranks: ranks, TP: tp, PP: pp, CP: cp, EP: ep, Interleave: chunks, AdapterRank: q.Hold.AdapterRank}
							if i > 0 && !fitted || !q.known(&c) { // stages in more pieces keep more
								continue
							}
							few := a
							if system == "megatron" && q.Hold.ZeRO == nil && c.DP*c.CP > 1 {
								few.zero = []int{1} // shared states are smaller, and updated sooner
							}
							q.techniques(&few, c, func(c Config) bool {
								ok := try(c)
								fitted = fitted || ok
								return ok
							})
						}
					}
				}
			}
		}
	}
}

// techniques walks what a layout of ranks leaves open.
func (q *Question) techniques(a *axes, c Config, try func(c Config) bool) {
	for _, c.Precision = range a.precision {
		for _, c.Adapter = range a.adapter {
			for _, c.Optimizer = range a.optimizer {
				for _, c.LossHead = range a.head {
					for _, c.Quant = range a.quant {
						for _, c.KVType = range a.kv {
							q.savings(a, c, try)
						}
					}
				}
			}
		}
	}
}

// savings walks the techniques that trade time for memory.
func (q *Question) savings(a *axes, c Config, try func(c Config) bool) {
	for _, c.ZeRO = range a.zero {
		for _, c.Recompute = range a.recompute {
			for _, c.Offload = range a.offload {
				for _, c.GPULayers = range a.layers {
					if q.Task != Serve && !q.combines(&c) || q.Task == Serve && !q.serves(&c, a.level) {
						continue
					}
					for _, c.MicroBatch = range a.micro {
						if q.Task != Serve && !q.batches(&c) {
							continue
						}
						if !try(c) {
							break
						}
					}
				}
			}
		}
	}
}
