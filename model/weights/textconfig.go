package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"loadline/internal/regular"
	"loadline/model"
)

// readConfig reads a config.json. That of a model that sees and hears too has the decoder's part under text_config.
func readConfig(path string) (model.Config, error) {
	body, err := regular.ReadAll(path, maxJSONBytes)
	if err != nil {
		return model.Config{}, err
	}
	c, err := model.DecodeConfig(body)
	if err == nil {
		return c, nil
	}
	inner, ok, e := textConfig(body)
	if e != nil {
		return model.Config{}, errors.Join(err, e)
	}
	if ok {
		c, err = model.DecodeConfig(inner)
	}
	if err != nil {
		return model.Config{}, fmt.Errorf("%w (in %s)", err, filepath.Clean(path))
	}
	return c, nil
}

// textConfig makes a config.json of a text_config, with the tokens of the model around it, and tells whether there is one. Gemma 3's
// leave out what transformers has for defaults.
func textConfig(body []byte) (inner []byte, ok bool, err error) {
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return nil, false, nil
	}
	var text map[string]json.RawMessage
	if json.Unmarshal(outer["text_config"], &text) != nil || text == nil {
		return nil, false, nil
	}
	absent := func(key string, value json.RawMessage) {
		if _, ok := text[key]; !ok && len(value) > 0 {
			text[key] = value
		}
	}
	for _, key := range []string{"eos_token_id", "bos_token_id", "tie_word_embeddings"} {
		absent(key, outer[key])
	}
	if string(text["model_type"]) == `"gemma3_text"` {
		for key, value := range map[string]string{
			"vocab_size": "262208", "num_attention_heads": "8", "num_key_value_heads": "4", "max_position_embeddings": "131072",
			"hidden_size": "2304", "intermediate_size": "9216", "num_hidden_layers": "26",
		} {
			absent(key, json.RawMessage(value))
		}
	}
	inner, err = json.Marshal(text)
	return inner, true, err
}
