package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/mem"
	"loadline/planner/search"
)

// maxCompared bounds --compare.
const maxCompared = 32

// compareFlags are the flags of plan --compare.
type compareFlags struct{ list string }

func (x *compareFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&x.list, "compare", "", "with --hardware: one table of `A,B,...`: frameworks, hardware, models, values of another flag, or NAME=VALUE+NAME=VALUE,...")
}

// compared is one item of --compare: what it sets, by flag.
type compared struct {
	name string
	set  [][2]string
}

// comparable lists flags whose values may be given bare, in the order in which a word is looked for, with those that each knows. Of
// hardware and models the names are too many to list.
func comparable(task string) []struct {
	flag   string
	values []string
} {
	all := []struct {
		flag   string
		values []string
	}{
		{"framework", slices.Concat(search.Frameworks(search.Train), search.Frameworks(search.Finetune), search.Frameworks(search.Serve), []string{search.Own})},
		{"precision", []string{"bf16", "fp16", "fp8"}}, {"recompute", []string{"none", "selective", "full"}}, {"quant", search.Quants()}, {"kv-type", []string{"f16", "fp8", "q8_0", "q4_0"}},
		{"adapter", []string{"none", "lora", "qlora"}}, {"optimizer", search.Optimizers()}, {"offload", []string{"none", "optimizer", "weights"}}, {"loss-head", []string{"full", "chunked"}},
		{"task", []string{search.Train, search.Finetune, search.Serve}}, {"objective", []string{search.Speed, search.Cost, search.Fewest}},
	}
	other := serving
	if task == search.Serve {
		other = append([]string{"precision"}, training...)
	}
	return slices.DeleteFunc(all, func(x struct {
		flag   string
		values []string
	}) bool {
		return slices.Contains(other, x.flag)
	})
}

// items reads the list. Bare words are all values of one flag.
func (x *compareFlags) items(h *hardwareFlags, known func(flag, word string) bool) ([]compared, error) {
	const try = "--compare vllm,llamacpp or --compare 8xH100,8xA100-80GB or --compare tp=2,tp=4"
	var items []compared
	var bare []string
	for _, text := range strings.Split(x.list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			return nil, usage(try, "--compare %s: an item is empty", x.list)
		}
		if slices.ContainsFunc(items, func(i compared) bool { return strings.EqualFold(i.name, text) }) {
			return nil, usage(try, "--compare %s: %s is there twice", x.list, text)
		}
		items = append(items, compared{name: text})
		if strings.Contains(text, "=") {
			for _, part := range strings.Split(text, "+") {
				name, value, ok := strings.Cut(strings.TrimPrefix(part, "--"), "=")
				if !ok || value == "" {
					return nil, usage(try, "--compare %s: %s: want NAME=VALUE", x.list, part)
				}
				if !slices.Contains(explored, name) {
					return nil, usage(didYouMean(name, explored, "--compare ", try), "--compare %s: there is no setting %s", x.list, name)
				}
				items[len(items)-1].set = append(items[len(items)-1].set, [2]string{name, value})
			}
			continue
		}
		bare = append(bare, text)
	}
	if len(items) < 2 || len(items) > maxCompared {
		return nil, usage(try, "--compare %s: want 2 to %d items, got %d", x.list, maxCompared, len(items))
	}
	if len(bare) == 0 {
		return items, nil
	}
	flag := ""
	for _, one := range comparable(h.task.value) {
		if !slices.ContainsFunc(bare, func(w string) bool { return !slices.Contains(one.values, strings.ToLower(w)) }) {
			flag = one.flag
			break
		}
	}
	for _, f := range []string{"hardware", "model"} {
		if flag == "" && !slices.ContainsFunc(bare, func(w string) bool { return !known(f, w) }) {
			flag = f
		}
	}
	if flag == "" {
		var words []string
		for _, one := range comparable(h.task.value) {
			words = append(words, one.values...)
		}
		for _, w := range bare {
			if !slices.Contains(words, strings.ToLower(w)) && !known("hardware", w) && !known("model", w) {
				return nil, usage(didYouMean(w, words, "--compare ", try), "--compare %s: %s is no framework, hardware, model or value of a flag that is known here", x.list, w)
			}
		}
		return nil, usage(try, "--compare %s: want values of one flag, these are of several", x.list)
	}
	for i := range items {
		if items[i].set == nil {
			items[i].set = [][2]string{{flag, items[i].name}}
		}
	}
	return items, nil
}

// comparedAnswer is an item's answer, or why it has none.
type comparedAnswer struct {
	Name  string            `json:"name"`
	Set   map[string]string `json:"set"`   // by flag
	Error string            `json:"error"` // empty where there is an answer
	*hardwareDocument
}

// compareDocument is the document of plan --compare.
type compareDocument struct {
	Fits    bool             `json:"fits"`  // any
	Best    string           `json:"best"`  // the item with the best plan by the objective; empty where none fits
	Plans   []search.Plan    `json:"plans"` // the best of every item that fits, best first
	Compare []comparedAnswer `json:"compare"`
}

// ask answers the question of c's flags with some of them set anew.
func (a *app) ask(c *cobra.Command, h *hardwareFlags, set [][2]string) (*planModel, *search.Answer, error) {
	t2, s2, h2 := &trainFlags{}, &serveFlags{}, &hardwareFlags{}
	one := &cobra.Command{Use: c.Use}
	t2.register(one)
	s2.register(one)
	h2.register(one, t2)
	var failed error
	put := func(name, value string) {
		if err := one.Flags().Set(name, value); err != nil && failed == nil {
			failed = flagError(one, err)
		}
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		if one.Flags().Lookup(f.Name) != nil && f.Value.String() != "" {
			put(f.Name, f.Value.String())
		}
	})
	if model := c.Flags().Lookup("model").Value.String(); model != "" {
		put("model", model)
	}
	for _, x := range set {
		if x[0] == "model" {
			put("preset", "")
		}
		put(x[0], x[1])
	}
	if failed != nil {
		return nil, nil, failed
	}
	h2.known = h.known
	if h2.hardware == "" {
		h2.hardware = h.hardware
	}
	if h2.hardware == "" {
		return nil, nil, usage("--hardware RTX-4090, or another machine", "which hardware is compared on? want --hardware")
	}
	h2.guessTask(one)
	if err := h2.check(one); err != nil {
		return nil, nil, err
	}
	m, err := t2.planModel()
	if err != nil {
		return nil, nil, err
	}
	q, err := h2.question(one, t2, s2, m)
	if err != nil {
		return nil, nil, err
	}
	_, profile, err := h2.learnt()
	if err != nil {
		return nil, nil, err
	}
	q.Factors = profile.Factors()
	answer, err := a.plans(one, h2, t2, q)
	return m, answer, err
}

// planCompare answers for every item of --compare, in one table.
func (a *app) planCompare(c *cobra.Command, x *compareFlags, h *hardwareFlags) error {
	for _, name := range typed(c) {
		if slices.Contains([]string{"html", "write-config", "deepspeed"}, name) {
			return usage("leave it out", "--%s says nothing to --compare", name)
		}
	}
	machines, err := h.machines()
	if err != nil {
		return err
	}
	cards, err := loadCards()
	if err != nil {
		return err
	}
	h.guessTask(c)
	items, err := x.items(h, func(flag, word string) bool {
		if flag == "hardware" {
			_, err := machines.Parse(word)
			return err == nil
		}
		_, ok := cards.ByName(word)
		return ok || exists(word)
	})
	if err != nil {
		return err
	}
	d := &compareDocument{Plans: []search.Plan{}, Compare: []comparedAnswer{}}
	rows := [][]string{{"", "fits", "peak", "p10", "p90", "of", "run out", "tokens/s", "seconds", "plan"}}
	var first error
	var best *search.Plan
	for _, item := range items {
		entry := comparedAnswer{Name: item.name, Set: map[string]string{}}
		for _, s := range item.set {
			entry.Set[s[0]] = s[1]
		}
		_, answer, err := a.ask(c, h, item.set)
		if err != nil {
			if first == nil {
				first = err
			}
			entry.Error = oneLine(words(err))
			d.Compare = append(d.Compare, entry)
			rows = append(rows, []string{item.name, "-", "", "", "", "", "", "", "", entry.Error})
			continue
		}
		entry.hardwareDocument = &hardwareDocument{Answer: answer, Framework: answer.Plans[0].Config.System, Written: []string{}}
		d.Compare = append(d.Compare, entry)
		p := &answer.Plans[0]
		fits := "no"
		if answer.Fits {
			fits, d.Fits = "yes", true
			d.Plans = append(d.Plans, *p)
			if best == nil || search.Better(&answer.Question, p, best) {
				best, d.Best = p, item.name
			}
		}
		rows = append(rows, []string{item.name, fits, p.Peak.String(), p.Range[0].String(), p.Range[1].String(), answer.Limit.String(), fmt.Sprintf("%.1f%%", 100*p.OOMChance),
			search.Number(p.TokensPerSecond, 4), search.Number(p.StepSeconds, 3), p.Line(&answer.Question)})
	}
	if first != nil && len(rows) > 1 && !slices.ContainsFunc(d.Compare, func(e comparedAnswer) bool { return e.Error == "" }) {
		return first
	}
	q := &search.Question{Objective: h.objective.value}
	slices.SortStableFunc(d.Plans, func(p, o search.Plan) int {
		switch {
		case search.Better(q, &p, &o):
			return -1
		case search.Better(q, &o, &p):
			return 1
		}
		return 0
	})
	w := a.text()
	plans := make([]string, len(rows)) // to the left, behind the numbers
	for i, r := range rows {
		plans[i], rows[i] = r[len(r)-1], r[:len(r)-1]
	}
	var columns strings.Builder
	table(&columns, rows)
	for i, line := range strings.Split(strings.TrimRight(columns.String(), "\n"), "\n") {
		fmt.Fprintf(w, "%s  %s\n", line, plans[i])
	}
	if best != nil {
		fmt.Fprintf(w, "best by %s: %s\n", h.objective.value, d.Best)
	}
	err = a.listed(d)
	if !d.Fits {
		e := &tooSmallError{text: "plan: does not fit: none of " + x.list, next: "free what the flags hold, or name more or larger cards: loadline plan --list hardware"}
		e.Bound = mem.Device.String()
		for _, c := range d.Compare {
			if c.hardwareDocument != nil {
				e.Limit, e.Want = c.Limit, c.Plans[0].Peak
			}
		}
		if err != nil {
			return err
		}
		return e
	}
	return err
}
