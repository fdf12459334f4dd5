package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"loadline/internal/regular"
	"loadline/mem"
	"loadline/model"
	"loadline/model/tokenizer"
	"loadline/train/checkpoint"
)

// servedModel is an open model as the verbs take it that run one.
type servedModel struct {
	path   string
	config model.Config
	source func(state string, p []byte) error
	// tokenizer reads the model's tokenizer inside a limit.
	tokenizer func(limit mem.Bytes) (*tokenizer.Tokenizer, error)
	// template is the source of the chat template, if there is one.
	template func() (string, bool, error)
	close    func() error
}

// openServed opens the model at a path. The caller closes it.
func openServed(path string) (*servedModel, error) {
	if _, _, err := modelConfig(path); err != nil {
		return nil, err
	}
	m, err := checkpoint.OpenModel(path)
	if err != nil {
		return nil, err
	}
	return &servedModel{
		path: m.Path, config: m.Config, source: m.Source, close: m.Close,
		tokenizer: func(limit mem.Bytes) (*tokenizer.Tokenizer, error) {
			if m.Tokenizer == "" {
				return nil, advise(fmt.Errorf("%s has no tokenizer.json", m.Path), "put the model's tokenizer.json beside its config.json")
			}
			return loadTokenizer(m.Tokenizer, limit)
		},
		template: func() (string, bool, error) { return directoryTemplate(m.Path) },
	}, nil
}

// Files of a Hugging Face directory that chats read besides.
const (
	templateName        = "chat_template.jinja"
	tokenizerConfigName = "tokenizer_config.json"
)

// maxTokenizerConfig is the longest tokenizer_config.json, and the longest template, that is read: some list thousands of tokens.
const maxTokenizerConfig = 8 << 20

// tokenizerConfig is what chats read of tokenizer_config.json.
type tokenizerConfig struct {
	Template json.RawMessage `json:"chat_template"` // a text, or a list of texts with names
	BOS      namedToken      `json:"bos_token"`
	EOS      namedToken      `json:"eos_token"`
}

// namedToken is the text of a special token, which is given as it is or as an object with more about it.
type namedToken string

// UnmarshalJSON implements json.Unmarshaler.
func (n *namedToken) UnmarshalJSON(p []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(p, (*string)(n)) == nil {
		return nil
	}
	err := json.Unmarshal(p, &object)
	*n = namedToken(object.Content)
	return err
}

// readTokenizerConfig reads tokenizer_config.json; the zero value stands for none.
func readTokenizerConfig(dir string) (c tokenizerConfig, err error) {
	path := filepath.Join(dir, tokenizerConfigName)
	if !exists(path) {
		return c, nil
	}
	text, err := regular.ReadAll(path, maxTokenizerConfig)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// directoryTemplate finds the chat template of a directory, in a file of its own or in tokenizer_config.json; of several, the default.
func directoryTemplate(dir string) (string, bool, error) {
	if path := filepath.Join(dir, templateName); exists(path) {
		text, err := regular.ReadAll(path, maxTokenizerConfig)
		return string(text), err == nil, err
	}
	c, err := readTokenizerConfig(dir)
	if err != nil || len(c.Template) == 0 || string(c.Template) == "null" {
		return "", false, err
	}
	var one string
	if json.Unmarshal(c.Template, &one) == nil {
		return one, true, nil
	}
	var many []struct{ Name, Template string }
	if err := json.Unmarshal(c.Template, &many); err != nil || len(many) == 0 {
		return "", false, fmt.Errorf("%s: chat_template is neither a text nor a list of templates", filepath.Join(dir, tokenizerConfigName))
	}
	i := max(slices.IndexFunc(many, func(t struct{ Name, Template string }) bool { return t.Name == "default" }), 0)
	return many[i].Template, true, nil
}

// templateTokens are the special tokens that templates name, as tokenizer_config.json has them or else as the model does.
func templateTokens(m *servedModel, t *tokenizer.Tokenizer) (map[string]string, error) {
	c, err := readTokenizerConfig(m.path)
	if err != nil {
		return nil, err
	}
	bos, eos := string(c.BOS), string(c.EOS)
	if bos == "" && m.config.BOSTokenID >= 0 {
		bos = t.Token(int32(m.config.BOSTokenID))
	}
	if eos == "" && t.EOS() >= 0 {
		eos = t.Token(t.EOS())
	}
	if eos == "" {
		for _, id := range m.config.EOSTokenIDs {
			if eos == "" && id >= 0 {
				eos = t.Token(int32(id))
			}
		}
	}
	return map[string]string{"bos_token": bos, "eos_token": eos}, nil
}

// closeServed closes a model after err.
func closeServed(m *servedModel, err error) error { return errors.Join(err, m.close()) }

// turnEnds are the tokens that end a turn in the templates in use; models name one of them or two as the end of a text.
func turnEnds() []string {
	return []string{
		"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|end_of_turn|>",
		"<|END_OF_TURN_TOKEN|>", "<end_of_utterance>", "</s>", "<|user|>",
	}
}

// chatEnds are the tokens that end a reply: those that end a text of the model, and those special ones that end a turn.
func chatEnds(m *servedModel, t *tokenizer.Tokenizer) []int32 {
	ends := append(int32s(m.config.EOSTokenIDs), t.EOS())
	for _, text := range turnEnds() {
		if id := t.ID(text); id >= 0 && t.IsSpecial(id) {
			ends = append(ends, id)
		}
	}
	return ends
}
