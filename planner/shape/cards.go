package shape

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loadline/internal/edits"
)

//go:embed cards.json
var cardsJSON []byte

// card is a well-known model: its names, the count its makers publish, and what matters of its config.json. Source is the repository on
// the Hugging Face hub that the config.json is of, or a paper.
type card struct {
	Names  []string        `json:"names"`
	Source string          `json:"source"`
	Params int64           `json:"params"`
	Config json.RawMessage `json:"config"`
}

// Cards holds the built-in models.
type Cards struct {
	names []string
	byKey map[string]*Shape
}

// Load reads the built-in cards.
func Load() (*Cards, error) {
	var list []card
	if err := json.Unmarshal(cardsJSON, &list); err != nil {
		return nil, fmt.Errorf("shape: cards: %w", err)
	}
	all := &Cards{byKey: map[string]*Shape{}}
	for _, c := range list {
		s, err := Parse(c.Names[0], c.Config)
		if err != nil {
			return nil, err
		}
		s.PublishedParams = c.Params
		if m := hubID.FindString(c.Source); m != "" {
			s.Hub = strings.TrimSuffix(m, ",")
		}
		all.names = append(all.names, s.Name)
		for _, n := range c.Names {
			if other := all.byKey[key(n)]; other != nil && other != s {
				return nil, fmt.Errorf("shape: two cards are named %q", n)
			}
			all.byKey[key(n)] = s
		}
	}
	return all, nil
}

// Names returns the models' names, in the order of the cards.
func (c *Cards) Names() []string { return slices.Clone(c.names) }

// hubID is a repository at the start of a card's source; notes on it follow a comma.
var hubID = regexp.MustCompile(`^[\w.-]+/[\w.-]+(,|$)`)

// SameName tells whether two names are one, but for makers, spaces, case and punctuation.
func SameName(a, b string) bool { return key(a) == key(b) }

var (
	notName  = regexp.MustCompile(`[^a-z0-9.]+`)
	settings = regexp.MustCompile(`(?i)[-_ ](instruct|chat|it|base|hf|bf16|fp8|f16|fp16|awq|gptq|int4|int8|q[0-9]_[a-z0-9_]+|gguf|128k)\b`)
	sized    = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?) ?([bm])\b`)
)

// key is a name without makers, spaces and punctuation: "meta-llama/Llama-3.2-3B" and "llama 3.2 3b" are one.
func key(name string) string {
	if i := strings.LastIndex(name, "/"); i >= 0 {
		name = name[i+1:]
	}
	return notName.ReplaceAllString(strings.ToLower(name), "")
}

// ByName finds a card by any of its names, written any way, with or without words such as Instruct.
func (c *Cards) ByName(name string) (*Shape, bool) {
	for range 4 {
		if s, ok := c.byKey[key(name)]; ok {
			return s, true
		}
		loc := settings.FindAllStringIndex(name, -1)
		if len(loc) == 0 {
			break
		}
		last := loc[len(loc)-1]
		name = name[:last[0]] + name[last[1]:]
	}
	return nil, false
}

// Nearest returns the name of the card closest to name, to tell a user who mistyped.
func (c *Cards) Nearest(name string) string {
	best, least := "", math.MaxInt
	for _, n := range c.names {
		if d := edits.Distance(key(n), key(name)); d < least {
			best, least = n, d
		}
	}
	return best
}

// SizeIn returns the parameters that a name such as "Llama-2-7B" or "350m" speaks of: the last size in it.
func SizeIn(name string) (params float64, ok bool) {
	all := sized.FindAllStringSubmatch(name, -1)
	if len(all) == 0 {
		return 0, false
	}
	last := all[len(all)-1]
	n, err := strconv.ParseFloat(last[1], 64)
	if err != nil || n <= 0 || n > 1e5 {
		return 0, false
	}
	if strings.EqualFold(last[2], "m") {
		return n * 1e6, true
	}
	return n * 1e9, true
}

// OfSize returns the built-in card whose parameter count is nearest in ratio, for a model of which only the size is known.
func (c *Cards) OfSize(params float64) *Shape {
	var best *Shape
	least := math.Inf(1)
	for _, n := range c.names {
		s := c.byKey[key(n)]
		if s.MoE() || s.Arch != "llama" && s.Arch != "qwen" && s.Arch != "qwen2" && s.Arch != "mistral" {
			continue
		}
		if d := math.Abs(math.Log(float64(s.Params()) / params)); d < least {
			best, least = s, d
		}
	}
	return best
}
