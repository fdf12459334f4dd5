package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"loadline/internal/regular"
	"loadline/mem"
	"loadline/planner/pricing"
	"loadline/planner/search"
)

// maxDeepSpeedBytes bounds the file that --deepspeed names.
const maxDeepSpeedBytes = 1 << 20

// listedModel is a line of plan --list models.
type listedModel struct {
	Name   string `json:"name"`
	Params int64  `json:"parameters"`
	Active int64  `json:"active_parameters"` // that one token meets
	KV     int    `json:"kv_elements_per_token"`
}

// listedCard is a line of plan --list hardware.
type listedCard struct {
	Name   string    `json:"name"`
	Memory mem.Bytes `json:"memory_bytes"`
	Usable mem.Bytes `json:"usable_bytes"` // what peaks are measured against
	// Framework is Usable less the driver's context.
	Framework mem.Bytes `json:"framework_bytes"`
}

// planList lists what has a name.
func (a *app) planList(h *hardwareFlags) error {
	if h.list.value == "models" {
		cards, err := loadCards()
		if err != nil {
			return err
		}
		list, rows := []listedModel{}, [][]string{{"model", "parameters", "active", "KV elements a token"}}
		for _, name := range cards.Names() {
			s, _ := cards.ByName(name)
			m := listedModel{name, s.Params(), s.ActiveParams(), s.KVElemsPerToken()}
			list = append(list, m)
			rows = append(rows, []string{m.Name, grouped(m.Params), grouped(m.Active), grouped(int64(m.KV))})
		}
		table(a.text(), rows)
		return a.listed(map[string]any{"models": list})
	}
	known, err := h.machines()
	if err != nil {
		return err
	}
	list, rows := []listedCard{}, [][]string{{"hardware", "memory", "usable", "for the framework"}}
	for _, c := range known.Cards() {
		list = append(list, listedCard{c.Name, c.Memory, c.Reported(), c.Usable()})
		rows = append(rows, []string{c.Name, c.Memory.String(), c.Reported().String(), c.Usable().String()})
	}
	table(a.text(), rows)
	return a.listed(map[string]any{"hardware": list})
}

// listed prints the document of a list, if one is wanted.
func (a *app) listed(d any) error {
	if !a.json {
		return nil
	}
	return a.document(d)
}

// planDeepSpeed prices a DeepSpeed configuration.
func (a *app) planDeepSpeed(c *cobra.Command, h *hardwareFlags, t *trainFlags) error {
	if err := h.check(c); err != nil {
		return err
	}
	m, err := t.planModel()
	if err != nil {
		return err
	}
	j := pricing.Job{Shape: m.Shape, Ranks: t.ranks, Seq: t.seq, MicroBatch: t.batch}
	var at *search.Machine
	if h.hardware != "" {
		known, err := h.machines()
		if err != nil {
			return err
		}
		machine, err := known.Parse(h.hardware)
		if err != nil {
			return h.nonsense(err)
		}
		at = &machine
		if !c.Flags().Changed("ranks") {
			j.Ranks = machine.Cards()
		}
	}
	for _, n := range []struct {
		flag string
		n    int
	}{{"ranks", j.Ranks}, {"seq", j.Seq}, {"batch", j.MicroBatch}} {
		if n.n > pricing.MaxCount {
			return usage(fmt.Sprintf("--%s %d", n.flag, pricing.MaxCount), "--%s %d: want at most %d; the nearest valid value is %d", n.flag, n.n, pricing.MaxCount, pricing.MaxCount)
		}
	}
	if err := present("--deepspeed", h.deepspeed); err != nil {
		return err
	}
	body, err := regular.ReadAll(h.deepspeed, maxDeepSpeedBytes)
	if err != nil {
		return fmt.Errorf("--deepspeed: %w", err)
	}
	rep, err := pricing.DeepSpeed(body, j)
	if err != nil {
		return advise(fmt.Errorf("--deepspeed %s: %w", h.deepspeed, err), "name a file as deepspeed.initialize takes it")
	}
	w := a.text()
	fmt.Fprintf(w, "%s: what it costs each of %s for %s\n", h.deepspeed, count(j.Ranks, "rank"), m.Shape.Name)
	rows := [][]string{{"key = value", "device", "host", "disk"}}
	for _, p := range rep.Prices {
		rows = append(rows, []string{plain(p.Key) + " = " + plain(p.Value), p.Device.String(), p.Host.String(), p.Disk.String()})
	}
	table(w, append(rows, []string{"together", rep.Device.String(), rep.Host.String(), rep.Disk.String()}))
	for _, p := range rep.Prices {
		if p.Why != "" {
			fmt.Fprintf(w, "  %s: %s\n", plain(p.Key), p.Why)
		}
	}
	for _, u := range rep.Unknown {
		fate := "DeepSpeed passes it over in silence"
		if u.Refused {
			fate = "DeepSpeed stops at it"
		}
		fmt.Fprintf(w, "unknown key %s: %s", plain(u.Key), fate)
		if u.Nearest != "" {
			fmt.Fprintf(w, "; the nearest is %s", u.Nearest)
		}
		fmt.Fprintln(w)
	}
	for _, s := range rep.Contradictions {
		fmt.Fprintf(w, "contradiction: %s\n", plain(s))
	}
	for _, s := range rep.Deprecated {
		fmt.Fprintf(w, "deprecated: %s\n", plain(s))
	}
	if rep.Saving > 0 {
		fmt.Fprintf(w, "while saving, rank 0 needs %v of host memory more\n", rep.Saving)
	}
	fmt.Fprintln(w, "together is what the keys of this file ask for, where all weights are trained: weights, gradients, states, and of buckets, layers' inputs (with gradient checkpointing) and logits\n"+
		"what it has keys for; what the allocator keeps, the driver's context and what DeepSpeed does by default without a key are not in it")
	d := &pricedDocument{Report: rep, Compared: []pricedGroup{}}
	if at == nil {
		return a.listed(d)
	}
	same, none := samePlan(j, rep.Settings, *at)
	if same == nil {
		fmt.Fprintf(w, "no verdict: plan --framework deepspeed says nothing of the rest: %s\n", none)
		return a.listed(d)
	}
	d.compare(same)
	d.print(w)
	if err := a.listed(d); err != nil || *d.Fits {
		return err
	}
	e := &tooSmallError{text: fmt.Sprintf("plan: does not fit: %s with %s: %v a rank, of %v", m.Shape.Name, h.deepspeed, d.Need, d.Limit), next: "raise the stage, offload, or loadline plan --framework deepspeed to search what fits"}
	e.Want, e.Limit, e.Bound = d.Need, d.Limit, mem.Device.String()
	return e
}
