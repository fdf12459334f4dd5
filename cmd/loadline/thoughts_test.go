package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/model"
	"loadline/model/tokenizer"
	"loadline/model/weights"
)

// channelled is a tokenizer of bytes with the special tokens of gpt-oss.
func channelled(t *testing.T, more ...string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Train(strings.NewReader(""), 257, tokenizer.TrainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := tok.SaveFile(path); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(path)
	var file map[string]any
	if err == nil {
		err = json.Unmarshal(body, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	added, _ := file["added_tokens"].([]any)
	for i, s := range more {
		added = append(added, map[string]any{
			"id": 300 + i, "content": s, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		})
	}
	file["added_tokens"] = added
	if body, err = json.Marshal(file); err == nil {
		tok, err = tokenizer.Parse(bytes.NewReader(body))
	}
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestThoughts hands a reply of gpt-oss to the stream that shows it, and another model's.
func TestThoughts(t *testing.T) {
	const reply = "<|channel|>analysis<|message|>Hmm, ünïcode<|end|><|start|>assistant<|channel|>final<|message|>Grüße<|end|>"
	markers := []string{"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"}
	tok := channelled(t, markers...)
	prompt := tok.Encode("<|start|>user<|message|>hi<|end|><|start|>assistant")
	for _, terminal := range []bool{false, true} {
		var aside, out bytes.Buffer
		x := newThoughts(tok, prompt, nil)
		if terminal {
			x.out = &aside
		}
		s := &textStream{decoder: tok.NewDecoder().SkipSpecial(), out: &out}
		for _, id := range tok.Encode(reply) {
			if x.takes(id) {
				continue
			}
			if err := s.put(s.decoder.Append(nil, id)); err != nil {
				t.Fatal(err)
			}
		}
		x.end()
		if out.String() != "Grüße" || x.text.String() != "Hmm, ünïcode" {
			t.Errorf("got the answer %q and the thought %q", out.String(), x.text.String())
		}
		if want := map[bool]string{true: "\x1b[2mHmm, ünïcode\x1b[0m\n"}[terminal]; aside.String() != want {
			t.Errorf("beside it: got %q, want %q", aside.String(), want)
		}
	}
	m := &weights.Model{Config: model.Config{VocabSize: 400, EOSTokenIDs: []int{304, 303}}}
	if ends := chatEnds(m, tok); slices.Contains(ends, tok.ID("<|end|>")) || !slices.Contains(ends, tok.ID("<|return|>")) || !slices.Contains(ends, tok.ID("<|call|>")) {
		t.Errorf("a reply of several messages ends at %v", ends)
	}
	plain := channelled(t, "<|end|>")
	if newThoughts(plain, prompt, nil) != nil {
		t.Error("a model without channels has some")
	}
	if !slices.Contains(chatEnds(m, plain), plain.ID("<|end|>")) {
		t.Error("a reply of one message does not end with it")
	}
}
