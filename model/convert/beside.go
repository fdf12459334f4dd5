package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"loadline/internal/regular"
	"loadline/model/weights"
)

// BesideNames names the small files of a Hugging Face directory, its configuration and tokenizer left out, that go with its weights: how to
// sample, what the tokenizer's special tokens are, and the chat template.
func BesideNames() []string {
	return []string{generationName, tokenizerConfigName, "chat_template.jinja", "chat_template.json", "special_tokens_map.json"}
}

// maxSettingsBytes is the longest of them that is read.
const maxSettingsBytes = 4 << 20

// Beside returns those of a model by name, as a directory that takes over its tokenizer should have them: a directory's own, or what a GGUF
// file says.
func Beside(m *weights.Model) (map[string][]byte, error) {
	if m.GGUF() {
		return settings(m)
	}
	files := map[string][]byte{}
	for _, name := range BesideNames() {
		body, err := regular.ReadAll(filepath.Join(m.Path, name), maxSettingsBytes)
		switch {
		case err == nil:
			files[name] = body
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("convert: %w", err)
		}
	}
	return files, nil
}

// settings makes generation_config.json and tokenizer_config.json of what a GGUF file says.
func settings(m *weights.Model) (map[string][]byte, error) {
	files := map[string][]byte{}
	generation := object{"eos_token_id": m.Config.EOSTokenIDs}
	if m.Config.BOSTokenID >= 0 {
		generation["bos_token_id"] = m.Config.BOSTokenID
	}
	s, err := m.Sampling()
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	samplingFields(generation, s)
	if len(m.Config.EOSTokenIDs) > 0 || len(generation) > 1 {
		if files[generationName], err = encode(generation); err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
	}
	tokens := object{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false, "model_max_length": m.Config.MaxPositionEmbeddings}
	for name, text := range m.Special() {
		tokens[name] = text
	}
	if text, ok := m.Template(); ok {
		tokens["chat_template"] = text
	}
	if files[tokenizerConfigName], err = encode(tokens); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return files, nil
}
