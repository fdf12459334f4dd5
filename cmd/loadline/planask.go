package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"loadline/model"
	"loadline/planner/search"
	"loadline/planner/shape"
	"loadline/planner/writers"
)

// explored are the flags of plan that a page may set: none of them names a file.
var explored = []string{
	"model", "hardware", "task", "framework", "objective", "seq", "global-batch", "batch", "context", "concurrency", "output", "memory", "host-memory", "nvme", "ranks", "zero", "tp", "pp", "cp", "ep",
	"precision", "recompute", "offload", "optimizer", "adapter", "adapter-rank", "loss-head", "quant", "kv-type", "gpu-layers",
}

// Bounds of a query.
const (
	maxQueryBytes = 4 << 10
	maxValueBytes = 128
)

// readQuery reads flags out of a query: known ones, each once, and none long.
func readQuery(raw string) (map[string]string, error) {
	if len(raw) > maxQueryBytes {
		return nil, usage("ask with fewer settings", "a query of %d bytes: want at most %d", len(raw), maxQueryBytes)
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, usage("ask with flag=value, joined by &", "the query: %v", err)
	}
	out := map[string]string{}
	for name, v := range values {
		switch {
		case !slices.Contains(explored, name):
			return nil, usage(didYouMean(name, explored, "--", "loadline plan --help lists the flags"), "there is no setting %.40q", name)
		case len(v) != 1:
			return nil, usage("give one", "%s is there %d times", name, len(v))
		case len(v[0]) > maxValueBytes:
			return nil, usage("give a shorter one", "%s: a value of %d bytes: want at most %d", name, len(v[0]), maxValueBytes)
		}
		out[name] = v[0]
	}
	return out, nil
}

// planSources are what the explorer plans from: what is built in, and what its command line named.
type planSources struct {
	cards    *shape.Cards
	machines *search.Machines
	own      map[string]*planModel // of the command line, by the name that the page shows
	factors  map[string]float64
	at       string // the command line's hardware
	from     string // the file of the command line's machines
}

// openExplorer reads what an explorer plans from.
func (a *app) openExplorer(h *hardwareFlags, t *trainFlags) (*explorer, error) {
	e := &explorer{planSources: planSources{own: map[string]*planModel{}}}
	var err error
	if e.cards, err = loadCards(); err != nil {
		return nil, err
	}
	if e.machines, err = h.machines(); err != nil {
		return nil, err
	}
	e.at, e.from = h.hardware, h.from
	if e.at != "" {
		if _, err := e.machines.Parse(e.at); err != nil {
			return nil, h.nonsense(err)
		}
	}
	if t.model != "" || t.preset != "" {
		m, err := t.planModel()
		if err != nil {
			return nil, err
		}
		if _, ok := e.cards.ByName(m.Name); !ok {
			name := filepath.Base(m.Shape.Name)
			e.own[name], t.model = m, name
		}
	}
	_, profile, err := h.learnt()
	if err != nil {
		return nil, err
	}
	e.factors = profile.Factors()
	return e, nil
}

// query is the part of the explorer's address that the command line's own flags make.
func (e *explorer) query(c *cobra.Command) string {
	out := url.Values{}
	for name := range e.own {
		out.Set("model", name)
	}
	if e.at != "" {
		out.Set("hardware", e.at)
	}
	for _, name := range explored {
		if x := c.Flags().Lookup(name); out.Get(name) == "" && x.Value.String() != "" && (x.Changed || name == "model") {
			out.Set(name, x.Value.String())
		}
	}
	return out.Encode()
}

// find is the model of a name. No name is a path here.
func (e *explorer) find(name string) (*planModel, error) {
	if m, ok := e.own[name]; ok {
		return m, nil
	}
	if s, ok := e.cards.ByName(name); ok {
		return &planModel{Name: name, Shape: s}, nil
	}
	if _, _, err := model.Preset(name); err == nil {
		return presetModel(name)
	}
	if name == "" {
		return nil, usage("--model Llama-3.1-8B", "which model?")
	}
	near := e.cards.Nearest(name)
	return nil, usage("--model "+near, "there is no model %q; the nearest built-in model is %s", name, near)
}

// exploredPlan is a plan with what a page shows of it.
type exploredPlan struct {
	*search.Plan
	Line  string         `json:"line"`
	Files []writers.File `json:"files"`
}

// exploredDocument is the answer to a page.
type exploredDocument struct {
	*search.Answer
	Plans   []exploredPlan `json:"plans"`
	Command string         `json:"command"` // that asks the same
}

// answer plans what the flags of a query ask, with all that plan itself checks.
func (e *explorer) answer(values map[string]string) (*exploredDocument, error) {
	t, s, h := &trainFlags{}, &serveFlags{}, &hardwareFlags{}
	c := &cobra.Command{Use: "plan"}
	t.register(c)
	s.register(c)
	h.register(c, t)
	var args []string
	for _, name := range explored {
		if v, ok := values[name]; ok {
			args = append(args, "--"+name+"="+v)
		}
	}
	if err := c.Flags().Parse(args); err != nil {
		return nil, flagError(c, err)
	}
	h.known, h.from = e.machines, e.from
	if h.hardware == "" {
		return nil, usage("--hardware RTX-4090", "which hardware?")
	}
	h.guessTask(c)
	if err := h.check(c); err != nil {
		return nil, err
	}
	m, err := e.find(t.model)
	if err != nil {
		return nil, err
	}
	q, err := h.question(c, t, s, m)
	if err != nil {
		return nil, err
	}
	q.Factors = e.factors
	a, err := search.Plans(q)
	if err != nil {
		return nil, h.nonsense(err)
	}
	d := &exploredDocument{Answer: a, Plans: []exploredPlan{}, Command: "loadline plan"}
	for i := range a.Plans {
		p := exploredPlan{&a.Plans[i], a.Plans[i].Line(&a.Question), []writers.File{}}
		if a.Fits {
			if files, err := writers.Write(h.job(m, &a.Question, &a.Plans[i])); err == nil {
				p.Files = files
			}
		}
		d.Plans = append(d.Plans, p)
	}
	for _, x := range args {
		name, v, _ := strings.Cut(x, "=")
		if name == "--model" {
			d.Command += " " + shellWord(v)
			continue
		}
		d.Command += " " + name + " " + shellWord(v)
	}
	return d, nil
}

// shellWord is a word as a shell reads it.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,/:=+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// choice is a model of the page's list.
type choice struct {
	Name   string `json:"name"`
	Params int64  `json:"parameters"`
	Layers int    `json:"layers"`
	MoE    bool   `json:"moe"`
}

// choicesDocument is what a page may choose from, and what it begins with.
type choicesDocument struct {
	Models     []choice            `json:"models"`
	Hardware   []listedCard        `json:"hardware"`
	Frameworks map[string][]string `json:"frameworks"` // by task
	Quants     []string            `json:"quants"`
	Optimizers []string            `json:"optimizers"`
	Model      string              `json:"model"`
	Card       string              `json:"card"`
	Cards      int                 `json:"cards"` // of a node
	Nodes      int                 `json:"nodes"`
	Task       string              `json:"task"`
}

// choices lists what has a name, and finds what the names of a page's address mean. One that means nothing stays, for /plan to refuse.
func (e *explorer) choices(modelName, machine string) *choicesDocument {
	d := &choicesDocument{
		Models: []choice{}, Hardware: []listedCard{}, Frameworks: map[string][]string{}, Quants: search.Quants(), Optimizers: search.Optimizers(),
		Model: cmp.Or(modelName, "Llama-3.1-8B"), Cards: 1, Nodes: 1, Task: search.Serve,
	}
	add := func(name string, s *shape.Shape) {
		d.Models = append(d.Models, choice{name, s.Params(), s.Depth(), s.MoE()})
	}
	for _, name := range slices.Sorted(maps.Keys(e.own)) {
		add(name, e.own[name].Shape)
	}
	for _, name := range e.cards.Names() {
		s, _ := e.cards.ByName(name)
		add(name, s)
	}
	if _, ok := e.own[d.Model]; !ok {
		if s, ok := e.cards.ByName(d.Model); ok {
			d.Model = s.Name
		} else if m, err := e.find(d.Model); err == nil {
			add(d.Model, m.Shape)
		}
	}
	d.Card = cmp.Or(machine, e.at, "RTX-4090")
	if m, err := e.machines.Parse(d.Card); err == nil {
		d.Card, d.Cards, d.Nodes = m.Card.Name, m.PerNode, m.Nodes
	}
	for _, x := range e.machines.Cards() {
		d.Hardware = append(d.Hardware, listedCard{x.Name, x.Memory, x.Reported(), x.Usable()})
	}
	for _, task := range []string{search.Train, search.Finetune, search.Serve} {
		d.Frameworks[task] = search.Frameworks(task)
	}
	return d
}

// writeJSON answers with a document.
func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // our own documents hold nothing that JSON cannot
		code, body = http.StatusInternalServerError, []byte(`{"error":"the answer is no JSON","try":""}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // who hangs up needs no answer
}
