package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"loadline/model"
	"loadline/model/gguf"
	"loadline/model/tokenizer"
)

// Names of the files beside a model's tensors.
const (
	configName          = "config.json"
	generationName      = "generation_config.json"
	tokenizerName       = "tokenizer.json"
	tokenizerConfigName = "tokenizer_config.json"
)

// object is JSON in the making.
type object = map[string]any

// directoryFiles writes what a Hugging Face directory has beside its tensors.
func (o *Options) directoryFiles(dir string, x *crossing, tensors []*tensor) error {
	body, err := model.EncodeConfig(x.Config)
	if err == nil {
		body, err = withType(body, tensors)
	}
	if err == nil {
		err = writeFile(filepath.Join(dir, configName), body)
	}
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	f, err := gguf.Open(o.In)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer f.Close() // read only
	files, err := settings(x.Model)
	if err != nil {
		return err
	}
	if _, ok := f.Meta().Get("tokenizer.ggml.model"); ok {
		file, err := tokenizerFile(f.Meta())
		if err != nil {
			return fmt.Errorf("convert: %w (in %s)", err, o.In)
		}
		files[tokenizerName] = file
	} else {
		o.Say("the file has no tokenizer: none is written")
		delete(files, tokenizerConfigName)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeFile(filepath.Join(dir, name), files[name]); err != nil {
			return fmt.Errorf("convert: %w", err)
		}
	}
	return nil
}

// encode is a value as JSON, with no more escaped than has to be.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

func writeJSON(path string, v any) error {
	body, err := encode(v)
	if err == nil {
		err = writeFile(path, body)
	}
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return nil
}

// TokenizerJSON is the tokenizer of a GGUF file as a tokenizer.json.
func TokenizerJSON(path string) ([]byte, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	defer f.Close() // read only
	body, err := tokenizerFile(f.Meta())
	if err != nil {
		return nil, fmt.Errorf("convert: %s: %w", path, err)
	}
	return body, nil
}

// tokenizerFile makes a tokenizer.json of a GGUF file's keys, and compares what it gives with what llama.cpp would.
func tokenizerFile(meta gguf.Metadata) ([]byte, error) {
	g, err := tokenizer.NewGGUF(meta.Get)
	if err != nil {
		return nil, err
	}
	want, err := tokenizer.FromGGUF(g)
	if err != nil {
		return nil, err
	}
	j := object{"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "added_tokens": added(g, want), "post_processor": frame(g, want)}
	switch g.Model {
	case "gpt2":
		err = byteLevelFile(j, g)
	case "llama":
		sentencePieceFile(j, g)
	default:
		err = fmt.Errorf("a tokenizer of kind %s is not written as %s", g.Model, tokenizerName)
	}
	if err != nil {
		return nil, err
	}
	body, err := encode(j)
	if err != nil {
		return nil, err
	}
	got, err := tokenizer.Parse(bytes.NewReader(body))
	if err == nil {
		err = sameTokens(want, got)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer.ggml.pre %q cannot be written as %s: %w", g.Pre, tokenizerName, err)
	}
	return body, nil
}

// kind is the kind of a token.
func kind(g *tokenizer.GGUF, id int) int32 {
	if id < len(g.Types) {
		return g.Types[id]
	}
	return kindNormal
}

// added lists the tokens that stand for themselves: the special ones of t, which has llama.cpp's mind about some, and the user's.
func added(g *tokenizer.GGUF, t *tokenizer.Tokenizer) []object {
	list := []object{}
	for id, s := range g.Tokens {
		k, special := kind(g, id), t.IsSpecial(int32(id))
		if s != "" && (special || k == kindUser || k == kindControl || k == kindUnknown) {
			list = append(list, object{
				"id": id, "content": s, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special,
			})
		}
	}
	return list
}

// frame is what stands around a text.
func frame(g *tokenizer.GGUF, t *tokenizer.Tokenizer) any {
	before, after := t.Frame()
	if len(before)+len(after) == 0 {
		return nil
	}
	single, special := []object{}, object{}
	put := func(ids []int32) {
		for _, id := range ids {
			s := g.Tokens[id]
			single = append(single, object{"SpecialToken": object{"id": s, "type_id": 0}})
			special[s] = object{"id": s, "ids": []int32{id}, "tokens": []string{s}}
		}
	}
	put(before)
	single = append(single, object{"Sequence": object{"id": "A", "type_id": 0}})
	put(after)
	pair := append(slices.Clone(single), object{"Sequence": object{"id": "B", "type_id": 1}})
	return object{"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}
}

// vocab is tokens by their texts; of two of one text the first.
func vocab(g *tokenizer.GGUF) map[string]int {
	ids := make(map[string]int, len(g.Tokens))
	for id, s := range g.Tokens {
		if _, twice := ids[s]; !twice && s != "" && utf8.ValidString(s) {
			ids[s] = id
		}
	}
	return ids
}

// byteLevelFile fills in merges of bytes.
func byteLevelFile(j object, g *tokenizer.GGUF) error {
	pre, err := tokenizer.FindGGUFPre(g.Pre)
	if err != nil {
		return err
	}
	if !pre.Bytes {
		return fmt.Errorf("tokenizer.ggml.pre %q is not written as %s", g.Pre, tokenizerName)
	}
	var steps []object
	for _, p := range pre.Patterns {
		steps = append(steps, object{"type": "Split", "pattern": object{"Regex": p}, "behavior": "Isolated", "invert": false})
	}
	level := func(regex bool) object {
		return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex}
	}
	steps = append(steps, level(false))
	j["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": steps}
	j["decoder"] = level(true)
	j["model"] = object{
		"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil, "fuse_unk": false,
		"byte_fallback": false, "ignore_merges": pre.IgnoreMerges, "vocab": vocab(g), "merges": known(g),
	}
	return nil
}

// known are the merges whose parts and whole are tokens.
func known(g *tokenizer.GGUF) [][2]string {
	ids := vocab(g)
	pairs := make([][2]string, 0, len(g.Merges))
	for _, m := range g.Merges {
		i := 0
		if m != "" {
			i = strings.IndexByte(m[1:], ' ') + 1 // a part may begin with a space
		}
		if i <= 0 {
			continue
		}
		left, right := m[:i], m[i+1:]
		_, a := ids[left]
		_, b := ids[right]
		_, c := ids[left+right]
		if a && b && c {
			pairs = append(pairs, [2]string{left, right})
		}
	}
	return pairs
}

// sentencePieceFile fills in merges of characters, in the order of the scores of what they make.
func sentencePieceFile(j object, g *tokenizer.GGUF) {
	prefix := g.AddSpacePrefix == nil || *g.AddSpacePrefix
	escape := object{"type": "Replace", "pattern": object{"String": " "}, "content": spaceSign}
	steps := []object{escape}
	if prefix {
		steps = []object{{"type": "Prepend", "prepend": spaceSign}, escape}
	}
	j["normalizer"] = object{"type": "Sequence", "normalizers": steps}
	j["pre_tokenizer"] = nil
	decoders := []object{
		{"type": "Replace", "pattern": object{"String": spaceSign}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
	}
	if prefix {
		decoders = append(decoders, object{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	j["decoder"] = object{"type": "Sequence", "decoders": decoders}
	var unknown any
	for id, s := range g.Tokens {
		if kind(g, id) == kindUnknown {
			unknown = s
			break
		}
	}
	j["model"] = object{
		"type": "BPE", "dropout": nil, "unk_token": unknown, "continuing_subword_prefix": nil, "end_of_word_suffix": nil, "fuse_unk": true,
		"byte_fallback": true, "ignore_merges": false, "vocab": vocab(g), "merges": scored(g),
	}
}

// scored makes merges of scores, as transformers' generate_merges does: every way of cutting a token into two, the better tokens first.
func scored(g *tokenizer.GGUF) [][2]string {
	ids := vocab(g)
	type pair struct {
		text     [2]string
		score    float32
		id, l, r int
	}
	var all []pair
	for id, s := range g.Tokens {
		if kind(g, id) != kindNormal || ids[s] != id || id >= len(g.Scores) {
			continue
		}
		for i := range s {
			l, ok := ids[s[:i]]
			r, ok2 := ids[s[i:]]
			if i > 0 && ok && ok2 && kind(g, l) == kindNormal && kind(g, r) == kindNormal {
				all = append(all, pair{[2]string{s[:i], s[i:]}, g.Scores[id], id, l, r})
			}
		}
	}
	sort.SliceStable(all, func(i, k int) bool {
		a, b := &all[i], &all[k]
		switch {
		case a.score != b.score:
			return a.score > b.score
		case a.id != b.id:
			return a.id < b.id
		case a.l != b.l:
			return a.l < b.l
		}
		return a.r < b.r
	})
	pairs := make([][2]string, len(all))
	for i := range all {
		pairs[i] = all[i].text
	}
	return pairs
}
