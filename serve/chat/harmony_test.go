package chat

import (
	"slices"
	"strings"
	"testing"
)

// TestHarmony reads replies, a word a token.
func TestHarmony(t *testing.T) {
	var words []string
	id := func(text string) int32 {
		if i := slices.Index(words, text); i >= 0 {
			return int32(i)
		}
		words = append(words, text)
		return int32(len(words) - 1)
	}
	ids := func(text string) (out []int32) {
		for _, w := range strings.Fields(text) {
			out = append(out, id(w))
		}
		return out
	}
	h := NewHarmony(id, func(token int32) string { return words[token] })
	for _, x := range []struct{ name, prompt, reply, answer, thought string }{
		{"both", "<|start|> user <|message|> hi <|end|> <|start|> assistant",
			"<|channel|> analysis <|message|> hm so <|end|> <|start|> assistant <|channel|> final <|message|> Hello there <|return|>", "Hello there", "hm so"},
		{"the answer alone", "<|start|> assistant", "<|channel|> final <|message|> Hello", "Hello", ""},
		{"no channel", "<|start|> assistant", "<|message|> Hello <|end|>", "Hello", ""},
		{"a call", "<|start|> assistant", "<|channel|> commentary to=functions.f <|constrain|> json <|message|> {} <|call|>", "", "{} <|call|>"},
		{"cut in its header", "<|start|> assistant", "<|channel|> final", "", ""},
		{"begun by the prompt", "<|start|> assistant <|channel|> final <|message|> So", "it is", "it is", ""},
		{"thinking begun by the prompt", "<|start|> assistant <|channel|> analysis <|message|>", "well <|end|> <|start|> assistant <|channel|> final <|message|> yes", "yes", "well"},
		{"another template", "hi", "Hello", "Hello", ""},
	} {
		for range 2 { // what was before is forgotten
			h.Begin(ids(x.prompt))
			var answer, thought []string
			for _, token := range ids(x.reply) {
				switch p := h.Next(token); {
				case words[token] == "<|return|>":
				case p == Answer:
					answer = append(answer, words[token])
				case p == Thought:
					thought = append(thought, words[token])
				}
			}
			if got := strings.Join(answer, " "); got != x.answer {
				t.Errorf("%s: got the answer %q, want %q", x.name, got, x.answer)
			}
			if got := strings.Join(thought, " "); got != x.thought {
				t.Errorf("%s: got the thought %q, want %q", x.name, got, x.thought)
			}
		}
	}
	for _, missing := range []string{"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>"} {
		if NewHarmony(func(text string) int32 {
			if text == missing {
				return -1
			}
			return 1
		}, nil) != nil {
			t.Errorf("without %s: got one", missing)
		}
	}
}
