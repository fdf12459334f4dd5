package search

import (
	"strings"

	"loadline/mem"
	"loadline/planner"
	"loadline/planner/frameworks"
	"loadline/planner/hardware"
)

// job returns the configuration as the formulas take it.
func (q *Question) job(c *Config) frameworks.Job {
	j := frameworks.Job{
		Shape: q.Shape, Ranks: c.Ranks, TP: c.TP, PP: c.PP, CP: c.CP, EP: c.EP, SequenceParallel: c.TP > 1,
		Shard: frameworks.Sharding(c.ZeRO), MicroBatch: c.MicroBatch, Seq: q.Seq, Accumulate: c.Accumulate, Compute: c.Precision,
		FP8: c.Precision == "fp8", Capability: capability(&q.Machine.Card), Compiled: c.System == "torchtitan" || c.System == "torchtune",
		ChunkedCE: c.LossHead == "chunked", Optimizer: c.Optimizer, Nodes: q.Machine.Nodes, GlobalBatch: c.Accumulate * c.DP * c.MicroBatch,
		OffloadParams: strings.Contains(c.Offload, "weights"),
	}
	if c.Interleave > 1 {
		j.ChunkLayers = q.Shape.Depth() / (c.PP * c.Interleave)
	}
	if c.EP > 1 { // experts are whole, and spread
		j.ETP = 1
	}
	if j.FP8 {
		j.Compute = "bf16"
	}
	if strings.Contains(c.Offload, "optimizer") {
		j.OffloadOptim = 1
	}
	switch c.Recompute {
	case "selective":
		j.Recompute, j.Modules = frameworks.Selective, []string{"layernorm", "mlp", "moe_act"}
		if c.System == "torchtitan" {
			j.Recompute = frameworks.PerOp
		}
	case "full":
		j.Recompute = frameworks.Full
	}
	if c.Adapter != "none" {
		j.Adapter = frameworks.Adapter{Method: "lora", Rank: c.AdapterRank, Targets: "all"}
		j.Adapter.Trainable = loraParams(q, c.AdapterRank)
	}
	if c.Adapter == "qlora" {
		j.Weights = frameworks.QuantByName("nf4")
	}
	return j
}

// loraParams returns the parameters of adapters of rank r on every projection.
func loraParams(q *Question, r int) float64 {
	s, n := q.Shape, 0.0
	h, mats := float64(s.Hidden), 2.0
	if s.Gated {
		mats = 3
	}
	for i, l := range s.Layers {
		w, k := float64(s.QWidth()), float64(s.KVWidth(i))
		n += float64(r) * (2*(h+w) + 2*(h+k) + mats*(h+float64(max(l.FFN, s.SharedFFN))))
	}
	return n
}

// noBF16 tells whether a card is of before BF16.
func noBF16(c *hardware.Card) bool {
	return strings.Contains(c.Notes, "no bf16") || strings.HasPrefix(c.Name, "V100") || c.Name == "T4"
}

// capability returns CUDA's compute capability times ten, 0 where it makes no difference.
func capability(c *hardware.Card) int {
	for _, k := range []struct {
		word string
		n    int
	}{{"H100", 90}, {"H200", 90}, {"H800", 90}, {"H20", 90}, {"GH200", 90}, {"B200", 100}, {"B300", 100}, {"A100", 80}, {"A800", 80}} {
		if strings.Contains(c.Name, k.word) {
			return k.n
		}
	}
	return 0
}

// stage predicts the memory of one pipeline stage, counted from the last.
func (q *Question) stage(c Config, stage int) (Plan, error) {
	j := q.job(&c)
	j.Stage = stage
	if c.System == "torchtitan" { // its local batch is of all micro-batches that the pipeline holds at once
		j.MicroBatch *= c.PP
	}
	p, err := planner.Predict(c.System, j, q.Machine.Card)
	if err != nil {
		return Plan{}, err
	}
	return q.plan(c, p.Estimate, p.Need, p.Low, p.High), nil
}

// training predicts one configuration.
func (q *Question) training(c Config) (Plan, error) {
	out, err := q.stage(c, 0)
	if err != nil {
		return Plan{}, err
	}
	if c.System == "megatron" && c.PP > 1 { // the last stage has the head, the first waits longest
		first, err := q.stage(c, c.PP-1)
		if err != nil {
			return Plan{}, err
		}
		if first.Peak > out.Peak {
			out = first
		}
	}
	j, card := q.job(&c), q.Machine.Card
	profile := frameworks.ProfileOf(strings.TrimPrefix(c.System, "fsdp-"))
	t := frameworks.TrainStep(j, card, profile)
	extra := q.traffic(&c, &j, profile, &out)
	if extra > t.Seconds {
		t.Bound = "link"
	}
	t.Seconds += extra
	out.StepSeconds, out.TokensPerSecond, out.Bound = t.Seconds, t.PerSecond(), t.Bound
	return out, nil
}

// traffic returns the seconds that the step's formula leaves out: between nodes, of context and expert parallelism,
// and to disk.
func (q *Question) traffic(c *Config, j *frameworks.Job, p frameworks.Profile, out *Plan) float64 {
	s, m := q.Shape, &q.Machine
	micro, h := float64(c.Accumulate), float64(s.Hidden)
	tokens := float64(c.MicroBatch) * float64(q.Seq) / float64(c.CP)
	layers := float64(s.Depth()) / float64(c.PP)
	link, node := m.Card.Link*0.35, m.nodeLink()
	if link == 0 {
		link = m.Card.HostLink() / 2
	}
	link = max(link, 1e8)
	shown := 1 - p.Overlap
	seconds := 0.0
	if c.CP > 1 { // keys and values go round, and their gradients
		rate := link
		if c.TP*c.CP > m.PerNode {
			rate = min(rate, node)
		}
		kv := 0.0
		for i := range s.Layers {
			kv += 2 * float64(s.KVWidth(i))
		}
		seconds += micro * tokens * kv / float64(c.PP*c.TP) * 2 * 3 * float64(c.CP-1) / rate * shown
	}
	if c.EP > 1 {
		rate := link
		if c.TP*c.EP > m.PerNode {
			rate = min(rate, node)
		}
		seconds += micro * layers * tokens * float64(max(1, s.TopK)) * h * 2 * 4 * float64(c.EP-1) / float64(c.EP) / rate / float64(c.TP) * shown
	}
	shared := c.DP * c.CP
	if m.Nodes > 1 && c.Ranks > m.PerNode && shared > 1 && node < link {
		slower := 1/node - 1/link
		weights := 2 * float64(s.Params()) / float64(c.TP*c.PP)
		if c.ZeRO == 3 {
			seconds += micro * weights * 3 * slower * shown
		} else {
			trained := weights
			if j.Adapter.Method != "" {
				trained = 2 * j.Adapter.Trainable
			}
			seconds += 2 * trained * slower * shown
		}
	}
	if out.Disk > 0 {
		seconds += 2 * float64(out.Disk) / m.disk()
	}
	return seconds
}

// plan fills in the memory of a configuration. Need is beside the driver's context.
func (q *Question) plan(c Config, e frameworks.Estimate, need, low, high mem.Bytes) Plan {
	card, m := &q.Machine.Card, &q.Machine
	p := Plan{Config: c, Ranks: c.Ranks, estimate: e}
	if len(q.Factors) > 0 {
		before := need
		need = q.corrected(c.System, &p.estimate, need)
		low, high = scale(low, need, before), scale(high, need, before)
	}
	p.Peak = need + hardware.Context
	p.Range = [2]mem.Bytes{low + hardware.Context, high + hardware.Context}
	p.usable = card.Reported()
	if q.Memory > 0 {
		p.usable = min(p.usable, q.Memory)
	}
	p.OOMChance = spreadOf(low, need).Over(need, p.usable-hardware.Context)
	inNode := mem.Bytes(min(c.Ranks, max(1, m.PerNode)))
	p.Host = e.Usage.Total(mem.Host) * inNode
	if p.Host > m.host() {
		if p.Host > m.host()+m.NVMe || m.NVMe == 0 {
			p.OOMChance = 1
		} else {
			p.Disk, p.Host = p.Host, 0
		}
	}
	return p
}
