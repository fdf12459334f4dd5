package tokenizer

import "strings"

// GGUFPre is what a value of tokenizer.ggml.pre stands for.
type GGUFPre struct {
	Name         string   // the first of those that mean the same
	Patterns     []string // a text is cut by these, one after another
	IgnoreMerges bool     // a word that is a token stays one whatever the merges say
	Bytes        bool     // merges are of bytes, not of characters
}

// GGUFPres are the values of tokenizer.ggml.pre that are known, each meaning once.
func GGUFPres() (all []GGUFPre) {
	for _, p := range ggufPres() {
		all = append(all, p.public(strings.Fields(p.names)[0]))
	}
	return all
}

// FindGGUFPre finds what a value of tokenizer.ggml.pre stands for.
func FindGGUFPre(name string) (GGUFPre, error) {
	p, err := ggufPattern(name)
	if err != nil {
		return GGUFPre{}, err
	}
	return p.public(name), nil
}

func (p *ggufPre) public(name string) GGUFPre {
	return GGUFPre{Name: name, Patterns: p.patterns, IgnoreMerges: p.ignoreMerges, Bytes: !p.characters}
}
