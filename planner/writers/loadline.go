package writers

import (
	"fmt"
	"strings"

	"loadline/mem"
	"loadline/planner/search"
)

// loadline writes every flag of plan that holds this plan, so that plan --config gives it again.
func (j *Job) loadline() File {
	c, q := &j.Plan.Config, &j.Question
	var lines []Setting
	add := func(key string, value any, why string) { lines = append(lines, Setting{key, fmt.Sprint(value), why}) }
	size := func(key string, n mem.Bytes, why string) {
		if n > 0 {
			add(key, int64(n), fmt.Sprintf("%s: %v", why, n))
		}
	}
	add("model", jsonText(j.Model), "the planned model")
	if j.HardwareFile != "" {
		add("hardware-file", jsonText(j.HardwareFile), "where the machine is described")
	}
	add("hardware", jsonText(j.hardware()), "the machine")
	if j.HardwareFile == "" && j.Hardware == "" {
		size("host-memory", q.Machine.Host, "of a node")
		size("nvme", q.Machine.NVMe, "of a node")
	}
	size("memory", q.Memory, "the limit of a card")
	add("task", q.Task, "what for")
	add("framework", c.System, "of those that do the task")
	if q.Objective != search.Speed {
		add("objective", q.Objective, "what the best plan is best in")
	}
	add("ranks", c.Ranks, "cards that are used")
	add("tp", c.TP, "tensor parallel ranks")
	add("pp", c.PP, "pipeline stages")
	if q.Task == search.Serve {
		add("context", q.Context, "the planned length")
		add("output", q.Output, "of it generated")
		add("concurrency", q.Concurrency, "sequences at a time")
		if q.Stored == nil && c.System != search.Own {
			add("quant", c.Quant, "the format of weights")
		}
		add("kv-type", c.KVType, j.kvWords())
		if c.System == "llamacpp" {
			add("gpu-layers", c.GPULayers, fmt.Sprintf("of %d layers", q.Shape.Depth()))
		}
		return File{"loadline.yaml", j.planHead() + yaml(lines)}
	}
	add("cp", c.CP, "ranks that share a sequence")
	add("ep", c.EP, "ranks that share experts")
	if c.System == "megatron" {
		add("interleave", c.Interleave, "stages of layers on a pipeline rank")
	}
	add("zero", c.ZeRO, "how far ranks share states")
	add("seq", q.Seq, "the planned length")
	add("batch", c.MicroBatch, "sequences a rank and micro-batch")
	if q.GlobalBatch > 0 { // where nobody asked for one it follows from the others, and from what changes them in the reasons
		add("global-batch", j.globalBatch(), j.whyBatch())
	}
	add("precision", c.Precision, "the type of arithmetic")
	add("recompute", c.Recompute, j.whyRecompute())
	add("offload", jsonText(c.Offload), "what waits in host memory")
	if q.Task == search.Finetune {
		add("adapter", c.Adapter, "what is trained in place of all weights")
		if c.Adapter != "none" {
			add("adapter-rank", c.AdapterRank, "the planned rank")
		}
	}
	add("optimizer", c.Optimizer, "the states of a trained parameter")
	add("loss-head", c.LossHead, "whether logits are whole")
	return File{"loadline.yaml", j.planHead() + yaml(lines)}
}

// planHead says what the file is for.
func (j *Job) planHead() string {
	return "# For loadline plan --config loadline.yaml, which gives this plan again; no other verb takes it.\n" + j.head()
}

// hardware is the machine as --hardware takes it.
func (j *Job) hardware() string {
	if j.Hardware != "" {
		return j.Hardware
	}
	m := &j.Question.Machine
	name := strings.ReplaceAll(m.Card.Name, " ", "-")
	if m.Nodes > 1 || m.PerNode > 16 { // one count of many cards would be taken as nodes of eight
		return fmt.Sprintf("%dx%dx%s", max(1, m.Nodes), m.PerNode, name)
	}
	return fmt.Sprintf("%dx%s", max(1, m.PerNode), name)
}
