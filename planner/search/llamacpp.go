package search

import (
	"loadline/mem"
	"loadline/planner/frameworks"
)

// hostRate is the arithmetic of a CPU in 8-bit dot products, in FLOP a second.
const hostRate = 1e12

// llamaCpp predicts llama-server with GPULayers layers on the cards and the rest on the CPU.
func (q *Question) llamaCpp(c Config) (Plan, error) {
	s, w := q.Shape, q.stored(&c)
	const ubatch = 512
	ctx := q.Context * q.Concurrency
	cache, err := frameworks.CacheTypeByName(c.KVType)
	if err != nil {
		return Plan{}, err
	}
	on := float64(c.GPULayers) / float64(s.Depth())
	run := frameworks.LlamaCpp{Shape: s, Context: ctx, MicroB: ubatch, Flash: true, MLA: 3, K: cache, V: cache, Windowed: true, Devices: c.Ranks, HostBits: w.Bits, Sequences: q.Concurrency}
	linear, ends := s.LinearParams()*bitsOf(w)/8, (float64(s.Params())-s.LinearParams())*embedBitsOf(w)/8
	head := ends
	if !s.Tied {
		head = ends / 2
	}
	device, host := linear*on, linear*(1-on)+ends
	if c.GPULayers == s.Depth() { // the head follows the last layer; the embedding stays with the CPU
		device, host = device+head, ends-head
	}
	cards := float64(c.Ranks)
	var e frameworks.Estimate
	add := func(t mem.Tier, u mem.Purpose, x float64) { e.Usage.Add(t, u, mem.Bytes(x)) }
	add(mem.Device, mem.Weights, device/cards)
	add(mem.Device, mem.KVBlocks, run.KV()*on/cards)
	add(mem.Host, mem.Weights, host/cards)
	add(mem.Host, mem.KVBlocks, run.KV()*(1-on)/cards)
	if c.GPULayers > 0 {
		add(mem.Device, mem.Workspace, run.Compute())
	}
	need := e.Allocated()
	low, high := frameworks.Spread{Sigma: 0.02}.Range(need)
	p := q.plan(c, e, need, low, high)

	j := frameworks.Job{Shape: s, Ranks: 1, MicroBatch: q.Concurrency, Seq: q.Context, Weights: w, KVBits: kvBits(c.KVType)}
	v := frameworks.LlamaCppServing(w, q.Machine.Card)
	prompt := max(1, q.Context-q.Output)
	total := frameworks.Generate(j, q.Machine.Card, v, q.Output)
	j.Seq = prompt
	first := frameworks.Generate(j, q.Machine.Card, v, 0).Seconds
	step := (total.Seconds - first) / float64(q.Output) * on
	first *= on
	p.Bound = total.Bound
	if active := host * float64(s.ActiveParams()) / float64(s.Params()); on < 1 { // what stays is read by the CPU, and copied to the card for long batches
		b := float64(q.Concurrency)
		kv := run.KV() * (1 - on)
		slow := max((active+kv)/(0.7*q.Machine.hostBandwidth()), 2*b*float64(s.ActiveParams())*(1-on)/hostRate)
		step += slow
		first += host / q.Machine.Card.HostLink() * float64(ceilDiv(prompt*q.Concurrency, ubatch))
		if slow > step/2 {
			p.Bound = "host"
		}
	}
	p.StepSeconds = step
	p.TokensPerSecond = float64(q.Concurrency*q.Output) / (first + step*float64(q.Output))
	return p, nil
}

func bitsOf(w frameworks.Quant) float64 {
	if w.Bits == 0 {
		return 16
	}
	return w.Bits
}

func embedBitsOf(w frameworks.Quant) float64 {
	if w.EmbedBits == 0 {
		return 16
	}
	return w.EmbedBits
}
