package shape

import (
	"strings"
	"testing"
)

// TestCheck holds that no value of a config.json is passed over in silence.
func TestCheck(t *testing.T) {
	const base = `"model_type":"llama","hidden_size":64,"num_attention_heads":4,"vocab_size":100`
	for more, want := range map[string]string{
		`"num_hidden_layers":"2"`: "num_hidden_layers", `"num_hidden_layers":2,"tie_word_embeddings":"no"`: "tie_word_embeddings", `"num_hidden_layers":2,"head_dim":-16`: "head_dim",
		`"num_hidden_layers":2,"sliding_window":"4k"`: "sliding_window", `"num_hidden_layers":2,"sliding_window":-5`: "sliding_window", `"num_hidden_layers":2,"intermediate_size":[1,null]`: "intermediate_size",
		`"num_hidden_layers":2,"layer_types":["full_attention"]`: "names 1 layers", `"num_hidden_layers":1,"layer_types":["foo"]`: `"foo"`, `"num_hidden_layers":1,"layer_types":"foo"`: "layer_types",
		`"num_hidden_layers":2,"num_key_value_heads":3`: "nearest valid value is 2", `"num_hidden_layers":2,"num_attention_heads":5`: "nearest valid value is 4", `"num_hidden_layers":2,"num_key_value_heads":8`: "nearest valid value is 4",
		`"num_hidden_layers":2,"num_attention_heads":2147483647`: "heads", `"num_hidden_layers":2,"num_experts":8,"num_experts_per_tok":9,"moe_intermediate_size":8`: "nearest valid value is 8",
		`"num_hidden_layers":2,"sliding_window":-1`: "", `"num_hidden_layers":2,"sliding_window":null,"num_key_value_heads":null`: "", `"num_hidden_layers":1,"layer_types":["mamba"]`: "", `"num_hidden_layers":2,"layer_types":null`: "",
		`"num_hidden_layers":2,"num_attention_heads":5,"head_dim":16`: "",
	} {
		_, err := Parse("x", []byte(`{`+base+`,`+more+`}`))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: got %v", more, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want one line with %q", more, err, want)
		}
	}
}
