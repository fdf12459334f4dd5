package main

import (
	"slices"

	"loadline/mem"
	"loadline/model/tokenizer"
	"loadline/model/weights"
)

// openServed opens the model at a path for verbs that run it within a limit, which it finds and holds the heap to. The caller closes the model.
func openServed(path string, memory sizeFlag) (_ *weights.Model, limit mem.Bytes, err error) {
	if limit, _, err = memoryLimit(memory, 1); err != nil {
		return nil, 0, err
	}
	planHeap(limit)
	where, _, err := modelConfig(path)
	if err != nil {
		return nil, 0, err
	}
	m, err := weights.Open(where)
	return m, limit, err
}

// templateTokens are the special tokens that chat templates name: as the model's files name them, or else by their ids.
func templateTokens(m *weights.Model, t *tokenizer.Tokenizer) map[string]string {
	special := m.Special()
	if special["bos_token"] == "" && m.Config.BOSTokenID >= 0 {
		special["bos_token"] = t.Token(int32(m.Config.BOSTokenID))
	}
	if ids := endings(m, t); special["eos_token"] == "" && len(ids) > 0 {
		special["eos_token"] = t.Token(ids[0])
	}
	return special
}

// endings are the tokens that end a text: the model's, or else the tokenizer's.
func endings(m *weights.Model, t *tokenizer.Tokenizer) []int32 {
	var ids []int32
	for _, id := range m.Config.EOSTokenIDs {
		if id >= 0 && id < m.Config.VocabSize {
			ids = append(ids, int32(id))
		}
	}
	if eos := t.EOS(); len(ids) == 0 && eos >= 0 && int(eos) < m.Config.VocabSize {
		ids = append(ids, eos)
	}
	return ids
}

// turnEnds are the tokens that end a turn in the templates in use; models name one of them or two as the end of a text.
func turnEnds() []string {
	return []string{
		"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|end_of_turn|>",
		"<|END_OF_TURN_TOKEN|>", "<end_of_utterance>", "</s>", "<|user|>",
	}
}

// chatEnds are the tokens that end a reply: those that end a text of the model, and special ones that end a turn.
func chatEnds(m *weights.Model, t *tokenizer.Tokenizer) []int32 {
	ends := endings(m, t)
	for _, text := range turnEnds() {
		if id := t.ID(text); id >= 0 && t.IsSpecial(id) {
			ends = append(ends, id)
		}
	}
	if harmony(t) != nil { // a reply is of several messages, each of which has its end
		ends = slices.DeleteFunc(ends, func(id int32) bool { return id == t.ID("<|end|>") })
	}
	return ends
}
