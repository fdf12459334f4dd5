package search

import (
	"fmt"
	"strconv"
	"strings"
)

// Command is the command line that asks for one plan of an answer again, everything in it held.
func (a *Answer) Command(p *Plan) string {
	q, c := &a.Question, &p.Config
	model, machine := a.Asked[0], a.Asked[1]
	if model == "" {
		model = q.Shape.Name
	}
	if machine == "" {
		machine = q.Machine.Card.Name
		switch {
		case q.Machine.Nodes > 1:
			machine = fmt.Sprintf("%dx%dx%s", q.Machine.Nodes, q.Machine.PerNode, machine)
		case q.Machine.PerNode > 1:
			machine = fmt.Sprintf("%dx%s", q.Machine.PerNode, machine)
		}
	}
	words := []string{"loadline", "plan", quoted(model), "--hardware", quoted(machine), "--task", q.Task, "--framework", c.System}
	add := func(flag string, value any) {
		if s := fmt.Sprint(value); s != "" {
			words = append(words, "--"+flag, quoted(s))
		}
	}
	above := func(flag string, n, least int) {
		if n >= least {
			add(flag, n)
		}
	}
	if q.Memory > 0 {
		add("memory", int64(q.Memory))
	}
	add("ranks", c.Ranks)
	above("tp", c.TP, 1)
	above("pp", c.PP, 1)
	if q.Task == Serve {
		add("context", q.Context)
		add("concurrency", q.Concurrency)
		if q.Stored == nil {
			add("quant", c.Quant)
		}
		add("kv-type", c.KVType)
		if c.System == "llamacpp" {
			add("gpu-layers", c.GPULayers)
		}
		return strings.Join(words, " ")
	}
	above("cp", c.CP, 2)
	above("ep", c.EP, 2)
	add("zero", c.ZeRO)
	add("seq", q.Seq)
	add("batch", c.MicroBatch)
	above("global-batch", q.GlobalBatch, 1)
	add("precision", c.Precision)
	add("recompute", c.Recompute)
	add("offload", c.Offload)
	add("optimizer", c.Optimizer)
	add("loss-head", c.LossHead)
	add("adapter", c.Adapter)
	if c.Adapter != "none" && c.Adapter != "" {
		above("adapter-rank", c.AdapterRank, 1)
	}
	return strings.Join(words, " ")
}

// quoted returns a word as a shell takes it.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./,:=+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	if strings.ContainsAny(s, "\n\t") {
		return strconv.Quote(s)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
