package main

import (
	"fmt"
	"slices"
	"strings"
)

// checkContext refuses a context of so many tokens, where 0 leaves it to the verb, that the model has no positions for.
func checkContext(context, positions int) error {
	if context > positions {
		return usage(fmt.Sprintf("--context %d", positions), "--context %d: the model has %d positions", context, positions)
	}
	return nil
}

// checkLengths refuses a prompt of so many tokens, with as many new ones, that the context does not hold or the model has no positions for; a
// context of 0 is as long as both. What it proposes can be done.
func checkLengths(prompt, more, context, positions int) error {
	need := prompt + more
	switch {
	case prompt >= positions:
		return usage(fmt.Sprintf("a --prompt of at most %d tokens", positions-1), "the prompt has %d tokens: the model has %d positions", prompt, positions)
	case context == 0 && need > positions:
		return usage(fmt.Sprintf("--max-tokens %d", positions-prompt), "%d tokens of prompt and %d new ones: the model has %d positions", prompt, more, positions)
	case context > positions && need > positions:
		return usage(fmt.Sprintf("--context %d --max-tokens %d", positions, positions-prompt), "--context %d: the model has %d positions", context, positions)
	case context > positions:
		return checkContext(context, positions)
	case context == 0 || context >= need:
		return nil
	}
	var try []string
	if need <= positions {
		try = append(try, fmt.Sprintf("--context %d", need))
	} else if context < positions {
		try = append(try, fmt.Sprintf("--context %d --max-tokens %d", positions, positions-prompt))
	}
	if context > prompt {
		try = append(try, fmt.Sprintf("--max-tokens %d", context-prompt))
	}
	return usage(strings.Join(try, ", or "), "--context %d: the prompt has %d tokens and %d new ones are asked for", context, prompt, more)
}

// checkPositions refuses tests that take more tokens than the model has positions for, and proposes the longest lists of the same kind that
// it has them for.
func (b *benchModelFlags) checkPositions(tests []modelTest, positions int) error {
	at := slices.IndexFunc(tests, func(t modelTest) bool { return t.depth+t.tokens > positions })
	if at < 0 {
		return nil
	}
	t := tests[at]
	return usage(b.within(positions), "%s: %d tokens, the model has %d positions", t, t.depth+t.tokens, positions)
}

// within is the longest lists of the same kind of which no test takes more than so many tokens, in flags.
func (b *benchModelFlags) within(positions int) string {
	depth := b.depth
	if slices.Max(depth) >= positions { // there is no room behind it
		depth = atMost(depth, positions/2)
	}
	room := positions - slices.Max(depth)
	var try []string
	for _, f := range []struct {
		flag       string
		asked, can []int
	}{{"--depth", b.depth, depth}, {"--n-prompt", b.prompt, atMost(b.prompt, room)}, {"--n-gen", b.generate, atMost(b.generate, room)}} {
		if !slices.Equal(f.asked, f.can) {
			try = append(try, f.flag+" "+strings.Trim(strings.ReplaceAll(fmt.Sprint(f.can), " ", ","), "[]"))
		}
	}
	return strings.Join(try, " ")
}

// atMost is a list without repetitions in which nothing is larger than most.
func atMost(list []int, most int) (out []int) {
	for _, n := range list {
		if n = min(n, most); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
