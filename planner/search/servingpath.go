package search

import (
	"fmt"
	"slices"
	"strings"

	"loadline/mem"
)

// servingPath explains a serving plan.
func (q *Question) servingPath(p *Plan, level int) []string {
	s := q.Shape
	out := []string{fmt.Sprintf("%s parameters are %v in 16 bits, of %s's %v", count(float64(s.Params())), mem.Bytes(2*s.Params()), q.holder(), p.usable)}
	out = append(out, q.weightsPath(p, level), q.cachePath(p))
	if line := q.waitPath(p); line != "" {
		out = append(out, line)
	}
	if line := q.placePath(p); line != "" {
		out = append(out, line)
	}
	return append(out, fmt.Sprintf("a token follows the last after %s ms, bound by %s", Number(1e3*p.StepSeconds, 3), p.Bound))
}

// weightsPath explains the format of the weights.
func (q *Question) weightsPath(p *Plan, level int) string {
	c := &p.Config
	var others []string
	for _, f := range formats {
		if f.name != c.Quant && c.Quant != "stored" && f.level <= max(level, 1) && (q.reads(c.System, &f) || f.name == "bf16") {
			others = append(others, q.whatIf(p, f.name, func(c *Config) { c.Quant = f.name }))
		}
	}
	what := map[string]string{
		"bf16": "weights in 16 bits", "fp8": "weights and products in FP8: half the bytes to read, twice the arithmetic", "awq-int4": "W4A16: a quarter of the bytes to read for every token",
		"stored": "weights as the file stores them",
	}[c.Quant]
	switch {
	case c.Quant == "stored":
		what += fmt.Sprintf(": %.3g bits each", bitsOf(q.stored(c)))
	case c.Quant == q.ships():
		what = fmt.Sprintf("weights in %s, as the model is published, %.2f bits each in the layers", strings.ToUpper(c.Quant), bitsOf(q.stored(c)))
	case what == "":
		what = fmt.Sprintf("weights in %s, %.2f bits each", strings.ToUpper(c.Quant), bitsOf(q.stored(c)))
	}
	if cost := perplexity(c.Quant); cost != "" {
		what += ", " + cost
	}
	if i := slices.IndexFunc(formats, func(f format) bool { return f.name == c.Quant }); i >= 0 && c.Quant != q.ships() {
		holds := q.holds()
		switch f := formats[i]; {
		case f.level > 0 && q.Hold.Quant != "":
			what += "; as held"
		case f.level == 2:
			what += "; nothing of four bits or more " + holds
		case f.level == 1 && q.Objective != Speed:
			what += "; the objective is " + map[string]string{Cost: "cost", Fewest: "few cards"}[q.Objective] + ", not the answers' last digit"
		case f.level == 1 && level == 1:
			what += "; nothing of eight bits or more, beside keys and values in 16 bits, " + holds
		case f.level == 1 && level > 1:
			what += "; nothing of eight bits or more " + holds
		}
	}
	return because(what, others...)
}

// holds says what a plan does that has room.
func (q *Question) holds() string {
	if q.Concurrency > 1 {
		return fmt.Sprintf("holds %d sequences at once", q.Concurrency)
	}
	return "fits"
}

// cachePath explains the cache.
func (q *Question) cachePath(p *Plan) string {
	c, s := &p.Config, q.Shape
	part := kvBits(c.KVType) / 8
	kv := s.KVElemsAt(q.Context)*part + s.StateBytes()
	full, windowed, layers, window := 0.0, 0.0, 0, 0
	for i, l := range s.Layers {
		if l.Window > 0 && l.Window < q.Context {
			windowed, layers, window = windowed+float64(s.KVElems(i))*part, layers+1, max(window, l.Window)
			continue
		}
		full += float64(s.KVElems(i)) * part
	}
	cache := fmt.Sprintf("keys and values in %s: %v a token", c.KVType, mem.Bytes(full))
	if layers > 0 {
		cache = fmt.Sprintf("keys and values in %s: %v a token in the %d layers that see everything, and %v a token in %d that see %d, and keep no more", c.KVType, mem.Bytes(full), s.Depth()-layers, mem.Bytes(windowed), layers, window)
	}
	at := q.Concurrency
	if p.Running > 0 {
		at = p.Running
	}
	cache += fmt.Sprintf(", %v a sequence of %d, %v for %d", mem.Bytes(kv), q.Context, mem.Bytes(kv*float64(at)), at)
	if c.System == "vllm" || c.System == "sglang" {
		cache += "; paged, so that only tokens that exist take room, and prefixes are shared"
		if s.MLA() {
			cache += fmt.Sprintf("; a rank's kv_blocks are %v, since its pages pad latents to a multiple of 128 elements, and tensor ranks each hold them whole", p.estimate.Usage[mem.Device][mem.KVBlocks])
		}
	}
	if c.KVType != "f16" {
		if q.Hold.KVType != "" {
			cache += "; as held"
		} else {
			cache += "; " + q.whyEight(c)
		}
		return because(cache, q.whatIf(p, "f16", func(c *Config) { c.KVType = "f16" }))
	}
	return because(cache, q.whatIf(p, "8 bits", func(c *Config) {
		c.KVType = "fp8"
		if c.System == "llamacpp" {
			c.KVType = "q8_0"
		}
	}))
}

// whyEight says why the cache is not in 16 bits.
func (q *Question) whyEight(c *Config) string {
	whole := *c
	whole.KVType = "f16"
	if !q.serves(&whole, servingLevels) {
		return "in eight bits as held"
	}
	p, err := q.evaluate(whole)
	switch {
	case err != nil || !p.Fits():
		return "in eight bits, since 16 do not fit"
	case q.queues(&p):
		return fmt.Sprintf("in eight bits, since with 16 only %d sequences run at once", p.Running)
	}
	return "in eight bits, since 16 are slower at this length"
}

// waitPath says how many sequences run at once where some may wait, or nothing.
func (q *Question) waitPath(p *Plan) string {
	if p.Running == 0 {
		return ""
	}
	room := fmt.Sprintf("room for %d tokens of keys and values, %d sequences of %d", p.CacheTokens, p.Most, q.Context)
	if q.queues(p) {
		return fmt.Sprintf("%d of %d sequences run at once, and the other %d wait for their turn: %s", p.Running, q.Concurrency, q.Concurrency-p.Running, room)
	}
	if q.Concurrency == 1 {
		return room
	}
	return fmt.Sprintf("all %d run at once: %s", q.Concurrency, room)
}

// allAtOnce says what it would take that no sequence waits.
func (q *Question) allAtOnce(p *Plan) string {
	c := &p.Config
	each := p.estimate.Usage[mem.Device][mem.KVBlocks] / mem.Bytes(max(1, c.Concurrency))
	need := p.Peak + each*mem.Bytes(ceilDiv(q.Concurrency, c.DP)-c.Concurrency)
	return fmt.Sprintf("all %d sequences at once need %v a rank: %v more than %s has", q.Concurrency, need, max(0, need-p.usable), q.holder())
}

// placePath says where the layers are, or nothing where there is one place.
func (q *Question) placePath(p *Plan) string {
	c, s := &p.Config, q.Shape
	switch {
	case q.Machine.Card.Vendor == HostVendor:
		return fmt.Sprintf("all %d layers on the CPU: there is no card", s.Depth())
	case c.System == "llamacpp":
		return because(fmt.Sprintf("%d of %d layers on the cards", c.GPULayers, s.Depth()), q.whatIf(p, "one more", func(c *Config) {
			c.GPULayers = min(s.Depth(), c.GPULayers+1)
		}))
	}
	return because(fmt.Sprintf("tensor %d × pipeline %d, %d replicas", c.TP, c.PP, c.DP),
		q.whatIf(p, fmt.Sprintf("tensor %d", 2*c.TP), func(c *Config) { c.TP *= 2 }), q.whatIf(p, fmt.Sprintf("tensor %d", c.TP/2), func(c *Config) { c.TP = max(1, c.TP/2) }))
}

// holder names what has the memory of a rank.
func (q *Question) holder() string {
	if q.Machine.Card.Vendor == HostVendor {
		return "the machine"
	}
	return "a card"
}
