package tokenizer

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// component is a part of a tokenizer.json's pipeline. It has the fields of every type; those of other types stay zero.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	Pretokenizers []component `json:"pretokenizers"`
	Decoders      []component `json:"decoders"`
	Processors    []component `json:"processors"`

	Pattern  *fileText `json:"pattern"`
	Content  string    `json:"content"`
	Behavior string    `json:"behavior"`
	Invert   bool      `json:"invert"`
	Prepend  string    `json:"prepend"`

	AddPrefixSpace   *bool  `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
	Replacement      string `json:"replacement"`
	PrependScheme    string `json:"prepend_scheme"`
	Split            *bool  `json:"split"`
	IndividualDigits bool   `json:"individual_digits"`
	Delimiter        string `json:"delimiter"`

	Left       *bool `json:"strip_left"`
	Right      *bool `json:"strip_right"`
	Clean      *bool `json:"clean_text"`
	Ideographs *bool `json:"handle_chinese_chars"`
	Accents    *bool `json:"strip_accents"`
	Lower      *bool `json:"lowercase"`
	Charsmap   any   `json:"precompiled_charsmap"`

	Start   int    `json:"start"`
	Stop    int    `json:"stop"`
	Prefix  string `json:"prefix"`
	Suffix  string `json:"suffix"`
	Cleanup bool   `json:"cleanup"`

	Single  []templatePiece            `json:"single"`
	Special map[string]templateSpecial `json:"special_tokens"`
	Sep     []any                      `json:"sep"`
	CLS     []any                      `json:"cls"`
}

// fileText is a literal or a regular expression.
type fileText struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

func isTrue(b *bool, absent bool) bool {
	if b == nil {
		return absent
	}
	return *b
}

func unsupported(kind, name string) error {
	return fmt.Errorf("tokenizer: %s of type %q is not supported", kind, name)
}

// newNormalizers makes the steps of a normalizer.
func newNormalizers(c *component) (normalizers, error) {
	if c == nil {
		return nil, nil
	}
	one := func(n normalizer) (normalizers, error) { return normalizers{n}, nil }
	switch c.Type {
	case "Sequence":
		var all normalizers
		for i := range c.Normalizers {
			n, err := newNormalizers(&c.Normalizers[i])
			if err != nil {
				return nil, err
			}
			all = append(all, n...)
		}
		return all, nil
	case "Prepend":
		return one(prefix(c.Prepend))
	case "Replace":
		return newReplace(c)
	case "NFC":
		return one(form(norm.NFC))
	case "NFD":
		return one(form(norm.NFD))
	case "NFKC":
		return one(form(norm.NFKC))
	case "NFKD":
		return one(form(norm.NFKD))
	case "Lowercase":
		return one(newMapped(lowerCase))
	case "Strip":
		return one(stripped{isTrue(c.Left, true), isTrue(c.Right, true)})
	case "StripAccents":
		return one(newMapped(withoutAccents))
	case "Nmt":
		return one(newMapped(nmt))
	case "BertNormalizer":
		return newBert(c), nil
	case "Precompiled":
		return newPrecompiled(c)
	}
	return nil, unsupported("a normalizer", c.Type)
}

func newReplace(c *component) (normalizers, error) {
	switch {
	case c.Pattern != nil && c.Pattern.String != nil && *c.Pattern.String != "":
		return normalizers{replaced{[]byte(*c.Pattern.String), []byte(c.Content)}}, nil
	case c.Pattern != nil && c.Pattern.Regex != nil && len(*c.Pattern.Regex) <= maxPattern:
		translated, err := translate(*c.Pattern.Regex)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: normalizer pattern %.60q is not supported: %w", *c.Pattern.Regex, err)
		}
		if n := newReplacedRuns(translated, []byte(c.Content)); n != nil {
			return normalizers{n}, nil
		}
		re, err := regexp.Compile(translated)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: normalizer pattern %.60q is not supported: %w", *c.Pattern.Regex, err)
		}
		return normalizers{replacedPattern{re, []byte(c.Content)}}, nil
	}
	return nil, fmt.Errorf("tokenizer: a normalizer of type Replace has no pattern")
}

func newBert(c *component) (all normalizers) {
	if isTrue(c.Clean, true) {
		all = append(all, newMapped(cleaned))
	}
	if isTrue(c.Ideographs, true) {
		all = append(all, newMapped(spacedIdeographs))
	}
	if lower := isTrue(c.Lower, true); isTrue(c.Accents, lower) {
		all = append(all, form(norm.NFD), newMapped(withoutAccents))
	}
	if isTrue(c.Lower, true) {
		all = append(all, newMapped(lowerCase))
	}
	return all
}

func newPrecompiled(c *component) (normalizers, error) {
	s, ok := c.Charsmap.(string)
	if c.Charsmap == nil || ok && s == "" {
		return nil, nil
	}
	if !ok {
		return nil, fmt.Errorf("tokenizer: precompiled_charsmap is not a text")
	}
	blob, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: precompiled_charsmap: %w", err)
	}
	m, err := newCharsmap(blob)
	if err != nil {
		return nil, err
	}
	return normalizers{newMappedGraphemes(m)}, nil
}

// preTokenizers collects the stages of a pre_tokenizer.
type preTokenizers struct {
	stages    []stage
	byteLevel bool // a ByteLevel stands in it
	known     map[string]alternative
}

// add appends the stages of a component. last says that no other component follows.
func (p *preTokenizers) add(c *component, last bool) error {
	if c == nil {
		return nil
	}
	cut := func(s splitter, b behavior, invert bool) { p.stages = append(p.stages, &split{s, b, invert}) }
	switch c.Type {
	case "Sequence":
		for i := range c.Pretokenizers {
			if err := p.add(&c.Pretokenizers[i], last && i == len(c.Pretokenizers)-1); err != nil {
				return err
			}
		}
	case "ByteLevel":
		if p.byteLevel {
			return fmt.Errorf("tokenizer: two ByteLevel pre_tokenizers are not supported")
		}
		p.byteLevel = true
		if isTrue(c.AddPrefixSpace, true) {
			p.stages = append(p.stages, spacePrefix{})
		}
		if isTrue(c.UseRegex, true) {
			cut(gpt2Words{}, isolated, false)
		}
		if !last {
			p.stages = append(p.stages, spelling{newAlphabet()})
		}
	case "Metaspace":
		return p.addMetaspace(c)
	case "Split":
		return p.addSplit(c)
	case "Whitespace":
		s, err := newSplitter(`[`+wordOrJoiner+`]+|[^\s`+wordOrJoiner+`]+`, p.known)
		if err != nil {
			return err
		}
		cut(s, removed, true)
	case "WhitespaceSplit":
		cut(newCharacters(unicode.IsSpace), removed, false)
	case "Punctuation":
		b, ok := behaviors()[c.Behavior]
		if !ok && c.Behavior != "" {
			return fmt.Errorf("tokenizer: a split behavior %q is not supported", c.Behavior)
		}
		cut(newCharacters(isPunctuation), b, false)
	case "Digits":
		b := contiguous
		if c.IndividualDigits {
			b = isolated
		}
		cut(newCharacters(unicode.IsNumber), b, false)
	case "BertPreTokenizer":
		cut(newCharacters(unicode.IsSpace), removed, false)
		cut(newCharacters(isPunctuation), isolated, false)
	case "CharDelimiterSplit":
		if c.Delimiter == "" {
			return fmt.Errorf("tokenizer: a pre_tokenizer of type CharDelimiterSplit has no delimiter")
		}
		cut(literal(c.Delimiter), removed, false)
	default:
		return unsupported("a pre_tokenizer", c.Type)
	}
	return nil
}

func (p *preTokenizers) addMetaspace(c *component) error {
	m := &metaspace{sign: []byte(c.Replacement), split: isTrue(c.Split, true)}
	switch c.PrependScheme {
	case "always":
		m.prepend = prependAlways
	case "first":
		m.prepend = prependFirst
	case "never":
	case "":
		if isTrue(c.AddPrefixSpace, true) {
			m.prepend = prependAlways
		}
	default:
		return fmt.Errorf("tokenizer: prepend_scheme %q is not supported", c.PrependScheme)
	}
	if len(m.sign) == 0 {
		m.sign = []byte(spaceSign)
	}
	p.stages = append(p.stages, m)
	return nil
}

func (p *preTokenizers) addSplit(c *component) error {
	b, ok := behaviors()[c.Behavior]
	if !ok {
		return fmt.Errorf("tokenizer: a split behavior %q is not supported", c.Behavior)
	}
	switch {
	case c.Pattern != nil && c.Pattern.String != nil && *c.Pattern.String != "":
		p.stages = append(p.stages, &split{literal(*c.Pattern.String), b, c.Invert})
		return nil
	case c.Pattern == nil || c.Pattern.Regex == nil:
		return fmt.Errorf("tokenizer: a pre_tokenizer of type Split has no pattern")
	}
	s, err := newSplitter(*c.Pattern.Regex, p.known)
	if err != nil {
		return err
	}
	if _, total := s.(gpt2Words); total && b == removed && c.Invert {
		b = isolated // all is matched, and what is matched stays
	}
	p.stages = append(p.stages, &split{s, b, c.Invert})
	return nil
}

// spelling writes bytes as the characters of the byte alphabet, for stages that look at those.
type spelling struct{ letters *alphabet }

func (s spelling) apply(e *encoder, i int, p []byte) {
	b := s.letters.appendSpelled(e.buffer(i), p)
	e.keep(i, b)
	e.piece(i+1, b)
}

// unspelling is its inverse.
type unspelling struct{ letters *alphabet }

func (s unspelling) apply(e *encoder, i int, p []byte) {
	if b, ok := s.letters.appendUnspelled(e.buffer(i), p); ok {
		e.keep(i, b)
		e.piece(i+1, b)
	}
}
