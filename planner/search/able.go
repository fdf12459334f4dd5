package search

import (
	"fmt"
	"slices"
	"strings"

	"loadline/planner/frameworks"
)

// able refuses a precision or adapter that no system of the question has, and names what is nearest.
func (q *Question) able() error {
	h := &q.Hold
	if q.Task == Serve || q.Framework == Own || q.Own && q.Framework == "any" {
		return nil
	}
	precision := h.Precision
	if precision == "" && noBF16(&q.Machine.Card) {
		precision = "fp16"
	}
	var systems []string
	for _, s := range q.systems() {
		if q.Framework == "any" || q.Framework == s {
			systems = append(systems, s)
		}
	}
	does := func(precision, adapter string) []string {
		return slices.DeleteFunc(slices.Clone(systems), func(s string) bool { return !frameworks.Trains(s, precision, adapter) })
	}
	if len(does(precision, h.Adapter)) > 0 {
		return nil
	}
	others := slices.DeleteFunc(q.systems(), func(s string) bool { return !frameworks.Trains(s, precision, h.Adapter) })
	with := ""
	if h.Adapter != "" && h.Adapter != "none" {
		with = " with " + h.Adapter
	}
	one, known := frameworks.AbilityOf(q.Framework)
	switch {
	case !known: // any: no system has both
		for _, p := range []string{"bf16", "fp16"} {
			if len(does(p, h.Adapter)) > 0 && (p != "bf16" || !noBF16(&q.Machine.Card)) {
				return &Invalid{What: "precision", Got: precision, Why: fmt.Sprintf("no framework trains in it%s (torchtitan and megatron train all weights in fp8)", with), Nearest: p}
			}
		}
		return nil
	case h.Adapter != "" && !slices.Contains(one.Adapters, h.Adapter):
		return &Invalid{What: "adapter", Got: h.Adapter, Why: fmt.Sprintf("%s has %s", q.Framework, strings.Join(one.Adapters, ", ")), Nearest: one.Adapters[len(one.Adapters)-1]}
	case h.Precision == "" || noBF16(&q.Machine.Card) && !slices.Contains(one.Precisions, "fp16"):
		if len(others) == 0 {
			others = []string{"any"}
		}
		return &Invalid{What: "framework", Got: q.Framework, Why: fmt.Sprintf("%s has no bf16, and %s does not train in fp16", q.Machine.Card.Name, q.Framework), Nearest: others[0]}
	}
	why := fmt.Sprintf("%s trains in %s", q.Framework, strings.Join(one.Precisions, " or "))
	if len(others) > 0 {
		why += fmt.Sprintf(", and in %s%s %s does", precision, with, strings.Join(others, " or "))
	}
	nearest := one.Precisions[0]
	if noBF16(&q.Machine.Card) {
		nearest = "fp16"
	}
	return &Invalid{What: "precision", Got: precision, Why: why, Nearest: nearest}
}
