package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"loadline/internal/regular"
	"loadline/mem"
	"loadline/model"
	"loadline/model/gguf"
	"loadline/model/tokenizer"
)

// Names of files beside a model.
const (
	tokenizerName       = "tokenizer.json"
	sentencePieceName   = "tokenizer.model"
	tokenizerConfigName = "tokenizer_config.json"
	specialTokensName   = "special_tokens_map.json"
	templateName        = "chat_template.jinja"
	templateJSONName    = "chat_template.json"
)

// maxTemplateBytes is the longest chat template that is read.
const maxTemplateBytes = 1 << 20

// ErrNoTokenizer says that a model comes without one.
var ErrNoTokenizer = errors.New("no tokenizer")

// TokenizerError says that reading a tokenizer takes more memory than there is.
type TokenizerError struct {
	Path        string
	Need, Limit mem.Bytes
}

// Error returns one line.
func (e *TokenizerError) Error() string {
	return fmt.Sprintf("weights: reading the tokenizer of %s takes up to %v, the limit is %v", e.Path, e.Need, e.Limit)
}

// TokenizerPath is the file that a model's tokenizer is read from: tokenizer.json, tokenizer.model or the GGUF file.
func TokenizerPath(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("weights: %w", err)
	}
	if !st.IsDir() {
		return path, nil
	}
	dirs := []string{path}
	if step, ok := newest(path); ok {
		dirs = []string{step, path}
	}
	for _, d := range dirs {
		for _, name := range []string{tokenizerName, sentencePieceName} {
			if p := filepath.Join(d, name); exists(p) {
				return p, nil
			}
		}
	}
	if found, isGGUF, err := Find(path); err == nil && isGGUF {
		return found, nil
	}
	return "", fmt.Errorf("weights: %s has neither %s nor %s: %w", path, tokenizerName, sentencePieceName, ErrNoTokenizer)
}

// LoadTokenizer reads the tokenizer at a path that TokenizerPath has given. Reading takes no more heap than limit; 0 is no limit.
func LoadTokenizer(path string, limit mem.Bytes) (*tokenizer.Tokenizer, error) {
	isGGUF := IsGGUF(path)
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && !isGGUF && limit > 0 { // Load says what is wrong otherwise
		if need := mem.Bytes(tokenizer.LoadHeapBytes(st.Size())); need > limit {
			return nil, &TokenizerError{path, need, limit}
		}
	}
	if !isGGUF {
		return tokenizer.Load(path)
	}
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	defer f.Close() // read only
	if need := mem.Bytes(tokenizer.LoadHeapBytes(f.Header().DataAt)); limit > 0 && need > limit {
		return nil, &TokenizerError{path, need, limit}
	}
	g, err := tokenizer.NewGGUF(f.Meta().Get)
	if err != nil {
		return nil, fmt.Errorf("weights: %w (in %s)", err, path)
	}
	t, err := tokenizer.FromGGUF(g)
	if err != nil {
		return nil, fmt.Errorf("weights: %w (in %s)", err, path)
	}
	return t, nil
}

// Tokenizer reads the tokenizer, as LoadTokenizer does.
func (m *Model) Tokenizer(limit mem.Bytes) (*tokenizer.Tokenizer, error) {
	path, err := TokenizerPath(m.Path)
	if err != nil {
		return nil, err
	}
	return LoadTokenizer(path, limit)
}

// Template is the chat template, if there is one.
func (m *Model) Template() (string, bool) {
	text, err := m.ReadTemplate()
	return text, err == nil && text != ""
}

// ReadTemplate is Template, and says what is wrong with files that are there and cannot be read. Without a template it gives none and no error.
func (m *Model) ReadTemplate() (string, error) {
	if m.GGUF() {
		f, err := gguf.Open(m.Path)
		if err != nil {
			return "", fmt.Errorf("weights: %w", err)
		}
		defer f.Close() // read only
		text, _ := f.Meta().Text("tokenizer.chat_template")
		if len(text) > maxTemplateBytes {
			return "", fmt.Errorf("weights: the chat template has %d bytes, want at most %d (in %s)", len(text), maxTemplateBytes, m.Path)
		}
		return text, nil
	}
	var wrong error
	if text, err := regular.ReadAll(filepath.Join(m.Path, templateName), maxTemplateBytes); err == nil {
		return string(text), nil
	} else if exists(filepath.Join(m.Path, templateName)) {
		wrong = err
	}
	for _, name := range []string{tokenizerConfigName, templateJSONName} {
		var c struct {
			Template json.RawMessage `json:"chat_template"`
		}
		if err := m.readJSON(name, &c); err != nil {
			if wrong == nil && exists(filepath.Join(m.Path, name)) {
				wrong = err
			}
			continue
		}
		if text, ok := template(c.Template); ok {
			return text, nil
		}
	}
	if wrong != nil {
		return "", fmt.Errorf("weights: chat template: %w", wrong)
	}
	return "", nil
}

// template is a chat_template: a text, or a list of named ones, of which it takes the one called default.
func template(value json.RawMessage) (string, bool) {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text, text != ""
	}
	var list []struct{ Name, Template string }
	if json.Unmarshal(value, &list) == nil {
		for _, x := range list {
			if x.Name == "default" {
				return x.Template, true
			}
		}
	}
	return "", false
}

// readJSON reads a file of the directory.
func (m *Model) readJSON(name string, into any) error {
	data, err := regular.ReadAll(filepath.Join(m.Path, name), maxJSONBytes)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Special is the texts of bos_token, eos_token, unk_token and pad_token, as far as there are any: what chat templates are given.
func (m *Model) Special() map[string]string {
	special := map[string]string{}
	if m.GGUF() {
		f, err := gguf.Open(m.Path)
		if err != nil {
			return special
		}
		defer f.Close() // read only
		tokens, _ := f.Meta().Texts("tokenizer.ggml.tokens")
		for name, key := range map[string]string{"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"} {
			if id, ok := f.Meta().Int("tokenizer.ggml." + key + "_token_id"); ok && id >= 0 && id < int64(len(tokens)) {
				special[name] = strings.Clone(tokens[id])
			}
		}
		return special
	}
	for _, file := range []string{specialTokensName, tokenizerConfigName} { // the second is the newer
		var all map[string]json.RawMessage
		if m.readJSON(file, &all) != nil {
			continue
		}
		for _, name := range []string{"bos_token", "eos_token", "unk_token", "pad_token"} {
			var text string
			var token struct {
				Content string `json:"content"`
			}
			if json.Unmarshal(all[name], &text) != nil && json.Unmarshal(all[name], &token) == nil {
				text = token.Content
			}
			if text != "" {
				special[name] = text
			}
		}
	}
	return special
}

// generationEnds reads the tokens that end a text from generation_config.json.
func generationEnds(dir string) ([]int64, error) {
	path := filepath.Join(dir, generationName)
	data, err := regular.ReadAll(path, maxJSONBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	var c struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("weights: %s: %w", path, err)
	}
	var one *int64
	if len(c.EOS) == 0 || json.Unmarshal(c.EOS, &one) == nil {
		if one == nil {
			return nil, nil
		}
		return []int64{*one}, nil
	}
	var list []int64
	if err := json.Unmarshal(c.EOS, &list); err != nil {
		return nil, fmt.Errorf("weights: %s: eos_token_id: %w", path, err)
	}
	return list, nil
}

// addEnds adds tokens that end a text to those of a configuration, and checks that all are tokens.
func addEnds(c *model.Config, more []int64) error {
	for _, id := range more {
		if id < 0 {
			continue
		}
		if id >= int64(c.VocabSize) {
			return fmt.Errorf("weights: token %d ends a text, in a vocabulary of %d", id, c.VocabSize)
		}
		if !slices.Contains(c.EOSTokenIDs, int(id)) {
			c.EOSTokenIDs = append(c.EOSTokenIDs, int(id))
		}
	}
	return nil
}

// endings are the texts of tokens that end a text or a turn in llama.cpp, whatever a file says of them (llama-vocab.cpp).
func endings() []string {
	return []string{
		"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>",
		"<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>",
	}
}

// ends lists the tokens that end a text: those that the file names, and those with the texts of endings.
func (g *metadata) ends(vocab int) []int64 {
	var ids []int64
	for _, key := range []string{"eos", "eot", "eom"} {
		if id, ok := g.meta.Int("tokenizer.ggml." + key + "_token_id"); ok && id >= 0 && id < int64(vocab) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	tokens, _ := g.meta.Texts("tokenizer.ggml.tokens")
	at := map[string]int64{}
	known := map[string]bool{}
	for _, s := range endings() {
		known[s] = true
	}
	for id, s := range tokens[:min(len(tokens), vocab)] {
		if known[s] {
			at[s] = int64(id)
		}
	}
	_, isReturn := at["<|return|>"]
	_, isCall := at["<|call|>"]
	if isReturn && isCall { // gpt-oss: a message of several ends with <|end|>
		delete(at, "<|end|>")
	}
	for _, s := range endings() {
		if id, ok := at[s]; ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
