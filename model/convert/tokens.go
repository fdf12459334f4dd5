package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"loadline/internal/regular"
	"loadline/model/gguf"
	"loadline/model/tokenizer"
)

// Kinds of tokens, as SentencePiece and GGUF number them.
const (
	kindNormal  = 1
	kindUnknown = 2
	kindControl = 3
	kindUser    = 4
	kindUnused  = 5
	kindByte    = 6
)

const spaceSign = "▁"

// file is a tokenizer.json as far as a GGUF file has room for it.
type file struct {
	Added []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer json.RawMessage `json:"normalizer"`
	Pre        json.RawMessage `json:"pre_tokenizer"`
	Model      struct {
		Type         string          `json:"type"`
		Vocab        json.RawMessage `json:"vocab"`
		Merges       json.RawMessage `json:"merges"`
		Unknown      *string         `json:"unk_token"`
		ByteFallback bool            `json:"byte_fallback"`
		IgnoreMerges bool            `json:"ignore_merges"`
	} `json:"model"`
}

// tokens writes the tokenizer of a directory as keys of a GGUF file, and compares what it then gives with what it gave.
func (o *Options) tokens(meta *gguf.Metadata, x *crossing) error {
	path := filepath.Join(o.In, tokenizerName)
	body, err := regular.ReadAll(path, maxBesideBytes)
	if errors.Is(err, fs.ErrNotExist) {
		if err = o.pieces(meta, x); errors.Is(err, fs.ErrNotExist) {
			o.Say("neither " + tokenizerName + " nor " + piecesName + ": the file gets no tokenizer")
			return nil
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	want, err := tokenizer.Parse(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("convert: %w (in %s)", err, path)
	}
	var f file
	if err := json.Unmarshal(body, &f); err != nil {
		return fmt.Errorf("convert: %w (in %s)", err, path)
	}
	v := &vocabulary{f: &f, size: x.Config.VocabSize}
	if err := v.read(); err != nil {
		return fmt.Errorf("convert: %w (in %s)", err, path)
	}
	v.specials(meta, want, x.Special())
	if err := v.write(meta, want); err != nil {
		return fmt.Errorf("convert: %w (in %s)", err, path)
	}
	if text, ok := x.Template(); ok {
		meta.Set("tokenizer.chat_template", text)
	}
	return nil
}

// write writes tokens and merges in the form that gives the same tokens.
func (v *vocabulary) write(meta *gguf.Metadata, want *tokenizer.Tokenizer) error {
	switch m := &v.f.Model; {
	case m.Type == "BPE" && bytes.Contains(v.f.Pre, []byte(`"ByteLevel"`)):
		return v.byteLevel(meta, want)
	case m.Type == "BPE" && m.ByteFallback:
		return v.sentencePiece(meta, want)
	}
	return fmt.Errorf("a tokenizer of type %s is not written as a GGUF file's", v.f.Model.Type)
}

// vocabulary is tokens and merges.
type vocabulary struct {
	f      *file
	size   int // rows of the embedding: there are as many tokens
	tokens []string
	types  []int32
	merges []string
	rank   map[string]int // the first merge that makes a token
	id     map[string]int
}

// read reads tokens and merges.
func (v *vocabulary) read() error {
	var vocab map[string]int
	if err := json.Unmarshal(v.f.Model.Vocab, &vocab); err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	last := 0
	for _, id := range vocab {
		last = max(last, id)
	}
	for _, a := range v.f.Added {
		last = max(last, a.ID)
	}
	if v.size == 0 {
		v.size = last + 1
	}
	if last >= v.size {
		return fmt.Errorf("token %d, the model has an embedding of %d", last, v.size)
	}
	v.id = vocab
	v.tokens, v.types = make([]string, v.size), make([]int32, v.size) //mem:ok as many as the embedding has rows, which the tokenizer's bound covers
	for s, id := range vocab {
		v.tokens[id], v.types[id] = s, kindNormal
		if v.f.Model.ByteFallback && len(s) == 6 && strings.HasPrefix(s, "<0x") {
			v.types[id] = kindByte
		}
	}
	for _, a := range v.f.Added {
		v.tokens[a.ID], v.types[a.ID] = a.Content, kindUser
		if a.Special {
			v.types[a.ID] = kindControl
		}
	}
	if u := v.f.Model.Unknown; u != nil && v.f.Model.ByteFallback {
		if id, ok := vocab[*u]; ok {
			v.types[id] = kindUnknown
		}
	}
	for id := range v.tokens {
		if v.types[id] == 0 {
			v.tokens[id], v.types[id] = fmt.Sprintf("[PAD%d]", id), kindUnused
		}
	}
	return v.readMerges()
}

// readMerges reads pairs, of either form.
func (v *vocabulary) readMerges() error {
	if len(v.f.Model.Merges) == 0 {
		return errors.New("the model has no merges")
	}
	if json.Unmarshal(v.f.Model.Merges, &v.merges) != nil {
		var pairs [][2]string
		if err := json.Unmarshal(v.f.Model.Merges, &pairs); err != nil {
			return fmt.Errorf("merges: %w", err)
		}
		v.merges = v.merges[:0]
		for _, p := range pairs {
			v.merges = append(v.merges, p[0]+" "+p[1])
		}
	}
	v.rank = make(map[string]int, len(v.merges))
	for i, m := range v.merges {
		left, right, _ := strings.Cut(m, " ")
		if _, ok := v.rank[left+right]; !ok {
			v.rank[left+right] = i
		}
	}
	return nil
}

// specials writes which tokens mean what.
func (v *vocabulary) specials(meta *gguf.Metadata, t *tokenizer.Tokenizer, texts map[string]string) {
	for _, s := range [][2]string{{"bos_token", "bos"}, {"eos_token", "eos"}, {"unk_token", "unknown"}, {"pad_token", "padding"}} {
		if id := slices.Index(v.tokens, texts[s[0]]); id >= 0 && texts[s[0]] != "" {
			meta.Set("tokenizer.ggml."+s[1]+"_token_id", uint32(id))
		}
	}
	before, after := t.Frame()
	if len(before) > 0 {
		meta.Set("tokenizer.ggml.bos_token_id", uint32(before[0]))
	}
	meta.Set("tokenizer.ggml.add_bos_token", len(before) > 0)
	if len(after) > 0 {
		meta.Set("tokenizer.ggml.eos_token_id", uint32(after[0]))
	}
	meta.Set("tokenizer.ggml.add_eos_token", len(after) > 0)
}

// candidates are the values of tokenizer.ggml.pre in the order in which they are tried: those with the patterns of the file, then the
// usual ones, then all others.
func (v *vocabulary) candidates() (names []string) {
	text := string(v.f.Pre)
	quoted := func(pattern string) bool {
		pattern = strings.ReplaceAll(pattern, `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`, `(?i:'s|'t|'re|'ve|'m|'ll|'d)`)
		for _, p := range []string{pattern, strings.ReplaceAll(pattern, `(?i:`, `(?:`)} {
			if q, err := json.Marshal(p); err == nil && strings.Contains(text, string(q)) {
				return true
			}
		}
		return false
	}
	var rest []string
	for _, p := range tokenizer.GGUFPres() {
		if !p.Bytes {
			continue
		}
		if p.Name == "llama3" {
			p.Name = "llama-bpe" // the name of the same in all files
		}
		if !slices.ContainsFunc(p.Patterns, func(x string) bool { return !quoted(x) }) && p.IgnoreMerges == v.f.Model.IgnoreMerges {
			names = append(names, p.Name)
		} else {
			rest = append(rest, p.Name)
		}
	}
	for _, usual := range []string{"llama-bpe", "qwen2", "gpt-2", "starcoder", "dbrx", "gpt-4o", "tekken", "deepseek-v3", "deepseek-llm"} {
		if i := slices.Index(rest, usual); i >= 0 {
			names, rest = append(names, usual), slices.Delete(rest, i, i+1)
		}
	}
	return append(names, rest...)
}

// byteLevel writes merges of bytes, under the name of the way of cutting texts that gives the same tokens.
func (v *vocabulary) byteLevel(meta *gguf.Metadata, want *tokenizer.Tokenizer) error {
	meta.Set("tokenizer.ggml.model", "gpt2")
	meta.Set("tokenizer.ggml.tokens", v.tokens)
	meta.Set("tokenizer.ggml.token_type", v.types)
	meta.Set("tokenizer.ggml.merges", v.merges)
	names := v.candidates()
	var last error
	for _, name := range names {
		meta.Set("tokenizer.ggml.pre", name)
		got, err := fromMeta(*meta)
		if err == nil {
			err = sameTokens(want, got)
		}
		if err == nil {
			return nil
		}
		if last == nil {
			last = err
		}
	}
	return fmt.Errorf("none of the %d values of tokenizer.ggml.pre cuts texts as its pre_tokenizer does (%s: %w)", len(names), names[0], last)
}

// sentencePiece writes merges of characters as SentencePiece's scores.
func (v *vocabulary) sentencePiece(meta *gguf.Metadata, want *tokenizer.Tokenizer) error {
	scores := make([]float32, len(v.tokens)) //mem:ok as many as tokens
	for id, s := range v.tokens {
		switch rank, ok := v.rank[s]; {
		case v.types[id] != kindNormal:
		case ok:
			scores[id] = -float32(rank)
		default:
			scores[id] = -1e9
		}
	}
	meta.Set("tokenizer.ggml.model", "llama")
	meta.Set("tokenizer.ggml.pre", "default")
	meta.Set("tokenizer.ggml.tokens", v.tokens)
	meta.Set("tokenizer.ggml.scores", scores)
	meta.Set("tokenizer.ggml.token_type", v.types)
	var last error
	for _, prefix := range []bool{true, false} {
		meta.Set("tokenizer.ggml.add_space_prefix", prefix)
		got, err := fromMeta(*meta)
		if err == nil {
			err = sameTokens(want, got)
		}
		if err == nil {
			return nil
		}
		last = errors.Join(last, err)
	}
	return fmt.Errorf("as SentencePiece's scores it gives other tokens: %w", last)
}

// fromMeta makes the tokenizer that a GGUF file's readers make.
func fromMeta(meta gguf.Metadata) (*tokenizer.Tokenizer, error) {
	g, err := tokenizer.NewGGUF(meta.Get)
	if err != nil {
		return nil, err
	}
	return tokenizer.FromGGUF(g)
}

// probes are texts that ways of cutting them tell apart. All are in composed form: GGUF has no word for normalizers that compose.
func probes() []string {
	return []string{
		"Hello world", " Hello  world   and    more", "I'm you're he'd she'll we've it's don't I'M YOU'RE HE'D", "1 12 123 1234 12345 123456789 3.14159 1,000,000",
		"a1b22c333d4444", "HelloWorld helloWorld HELLOWorld XMLHttpRequest iPhone", "foo_bar __init__ snake_case kebab-case", "x = y + z; if (a != b) { return c[0]->d; }",
		"\n", "\n\n", "a\nb\n\nc\r\nd\r\n\r\ne", "tabs\tand\t\tmore\t \t x", "trailing   ", "   leading", "line one  \n  line two\n\n   line three", "...!!!???", "?! (yes) [no] {so} <it> \"is\" 'so'",
		"https://example.com/a/b?c=d&e=f#g", "a/b//c", "user@example.com", "100% $5.00 €7 £8 #9", "Ünïcödé naïve café Straße", "Привет, мир! Как дела?", "你好，世界！今天是2024年。",
		"こんにちは世界、カタカナ", "안녕하세요 세계", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "👍🏽 🎉 👨‍👩‍👧 🇫🇷", "½ ² ③ Ⅷ 一二三", "x\u0301 q\u0308", "a\u00a0b\u2003c\u200bd", "\u201cquoted\u201d \u2018so\u2019 \u2014 \u2026",
		"def f(x):\n    return x**2  # comment\n\n\nclass A:\n\tpass", "ΑΒΓ αβγ", "\\frac{a}{b} \\n", "0x1F 1e-9 v1.2.3", "ALLCAPS lowercase MiXeD", "can't CAN'T Can't 'tis 'twas O'Neil",
	}
}

// sameTokens compares two tokenizers on texts.
func sameTokens(want, got *tokenizer.Tokenizer) error {
	for _, text := range probes() {
		w, g := want.Encode(text), got.Encode(text)
		if !slices.Equal(w, g) {
			return fmt.Errorf("%.40q is %s, want %s", text, some(g), some(w))
		}
	}
	return nil
}

// some is the first of some numbers.
func some(ids []int32) string {
	if len(ids) > 8 {
		return strings.TrimSuffix(fmt.Sprint(ids[:8]), "]") + " …]"
	}
	return fmt.Sprint(ids)
}
