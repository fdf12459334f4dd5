package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// GGUF is a vocabulary as the metadata of a GGUF file has it, under the keys tokenizer.ggml.* unless said. A nil pointer is a key
// that is not there.
type GGUF struct {
	Model  string   // tokenizer.ggml.model
	Pre    string   // tokenizer.ggml.pre
	Tokens []string // tokenizer.ggml.tokens
	Scores []float32
	Types  []int32 // token_type
	Merges []string

	BOS, EOS, Unknown, Separator *int64 // bos_token_id, eos_token_id, unknown_token_id, seperator_token_id
	AddBOS, AddEOS               *bool
	AddSpacePrefix               *bool
	RemoveExtraWhitespaces       *bool
	Lowercase, StripAccents      *bool  // tokenizer.ggml.normalizer.*
	Charsmap                     []byte // precompiled_charsmap
	Name, Architecture           string // general.name, general.architecture
}

// ggufBuilder makes a Tokenizer as llama.cpp does.
type ggufBuilder struct {
	g        *GGUF
	t        *Tokenizer
	types    []int32
	byteID   [256]int32
	bos, eos int64
	unknown  int64
	sep      int64
	prefix   bool // a space before a text
	addBOS   bool
	addEOS   bool
	escaped  bool // a vocabulary of merges that writes spaces as ▁
}

// FromGGUF makes the tokenizer of a GGUF file, which gives the tokens that llama.cpp gives.
func FromGGUF(g *GGUF) (*Tokenizer, error) {
	switch n := len(g.Tokens); {
	case n == 0:
		return nil, fmt.Errorf("tokenizer: the file has no tokenizer.ggml.tokens")
	case n > maxVocab:
		return nil, fmt.Errorf("tokenizer: the file has %d tokens, want at most %d", n, maxVocab)
	case g.Scores != nil && len(g.Scores) < n:
		return nil, fmt.Errorf("tokenizer: the file has %d scores for %d tokens", len(g.Scores), n)
	case g.Types != nil && len(g.Types) < n:
		return nil, fmt.Errorf("tokenizer: the file has %d token types for %d tokens", len(g.Types), n)
	}
	b := &ggufBuilder{g: g, t: &Tokenizer{fragments: true}, bos: -1, eos: -1, unknown: -1, sep: -1}
	b.types = make([]int32, len(g.Tokens)) //mem:ok bounded by the file
	for i := range b.types {
		b.types[i] = pieceNormal
		if g.Types != nil {
			b.types[i] = g.Types[i]
		}
	}
	build := map[string]func() error{"llama": b.llama, "gpt2": b.gpt2, "gemma4": b.gpt2, "bert": b.bert, "t5": b.t5}[g.Model]
	if build == nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.ggml.model is %q, want llama, gpt2, gemma4, bert or t5", g.Model)
	}
	b.retype()
	if err := build(); err != nil {
		return nil, err
	}
	return b.t, b.finish()
}

// controls are the texts of tokens that llama.cpp takes for control tokens whatever the file says: they end a turn, or stand around
// what is to be filled in.
func controls() []string {
	return []string{
		"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>",
		"<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
		"<｜end▁of▁sentence｜>", "[e~[", "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
		"<|prefix|>", "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>",
		"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>", "<|fim_pad|>",
		"<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
	}
}

// retype corrects the types of well-known tokens.
func (b *ggufBuilder) retype() {
	control := map[string]bool{}
	for _, c := range controls() {
		control[c] = true
	}
	user := map[string]bool{"<|channel|>": true, "<|message|>": true, "<|start|>": true, "<|constrain|>": true}
	has := map[string]int{}
	for i, s := range b.g.Tokens {
		if control[s] {
			b.types[i] = pieceControl
			has[s] = i
		}
		if user[s] {
			b.types[i] = pieceUser
		}
	}
	_, isReturn := has["<|return|>"]
	_, isCall := has["<|call|>"]
	_, isCalls := has["<|calls|>"]
	_, isFlush := has["<|flush|>"]
	call := isCall || isCalls
	if end, ok := has["<|end|>"]; ok && call && (isReturn || isFlush) {
		b.types[end] = pieceUser
	}
	if end, ok := has["</s>"]; ok {
		if _, ok := has["<|tool_response>"]; ok {
			b.types[end] = pieceNormal
		}
	}
}

// finish takes the special tokens.
func (b *ggufBuilder) finish() error {
	t := b.t
	name := strings.ToLower(b.g.Name)
	phi3 := strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	var list []addedToken
	for id, k := range b.types {
		if k != pieceControl && k != pieceUser && k != pieceUnknown {
			continue
		}
		s := b.g.Tokens[id]
		if s == "" || len(s) > maxAddedBytes {
			continue
		}
		a := addedToken{id: int32(id), content: s, special: k != pieceUser, inVocab: true}
		a.rstrip = phi3 && s != "<unk>" && s != "<s>" && s != EndOfText
		a.lstrip = s == "<mask>" && b.stripsMask() || s == "[MASK]" && strings.Contains(name, "modern-bert")
		list = append(list, a)
	}
	seen := map[string]bool{}
	list = slices.DeleteFunc(list, func(a addedToken) bool {
		twice := seen[a.content]
		seen[a.content] = true
		return twice
	})
	t.bare = false
	if err := t.initAdded(list); err != nil {
		return err
	}
	id := func(given *int64, usual int64) int32 {
		if usual >= int64(len(b.types)) {
			usual = -1
		}
		if given != nil && *given >= 0 && *given < int64(len(b.types)) {
			usual = *given
		}
		return int32(usual)
	}
	bos, sep := id(b.g.BOS, b.bos), id(b.g.Separator, b.sep)
	t.eos = id(b.g.EOS, b.eos)
	addBOS, addEOS := isTrue(b.g.AddBOS, b.addBOS), isTrue(b.g.AddEOS, b.addEOS)
	if b.g.Model == "bert" {
		addBOS, addEOS = true, false
		if sep >= 0 {
			t.frame.after = []int32{sep}
		}
	}
	if addBOS && bos >= 0 {
		t.frame.before = []int32{bos}
	}
	if addEOS && t.eos >= 0 {
		t.frame.after = []int32{t.eos}
	}
	return nil
}

// stripsMask tells whether the mask takes the space before it.
func (b *ggufBuilder) stripsMask() bool {
	for _, pre := range []string{"jina-v2-de", "jina-v2-es", "jina-v2-code"} {
		if strings.Contains(b.g.Pre, pre) {
			return true
		}
	}
	return strings.Contains(b.g.Architecture, "nomic-bert-moe") || strings.Contains(b.g.Architecture, "jina-bert-v3")
}
