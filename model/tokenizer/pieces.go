package tokenizer

import (
	"fmt"
)

// PieceVocabulary is a tokenizer.model as the metadata of a GGUF file has it, without the tokens that begin and end a text: llama.cpp's
// merges of characters for SentencePiece's BPE, and its t5 for unigrams.
func PieceVocabulary(p []byte) (*GGUF, error) {
	if !looksLikeSentencePiece(p) {
		return nil, fmt.Errorf("tokenizer: not a tokenizer.model")
	}
	var m pieceModel
	if err := m.read(p); err != nil {
		return nil, err
	}
	g := &GGUF{Pre: "default", Scores: m.scores, AddSpacePrefix: &m.dummyPrefix, RemoveExtraWhitespaces: &m.removeSpaces, Charsmap: m.charsmap}
	switch {
	case m.modelType == 1:
		g.Model = "t5"
	case m.modelType == 2:
		g.Model = "llama"
	}
	if g.Model == "" || m.suffix || !m.escapeSpaces {
		return nil, fmt.Errorf("tokenizer: a SentencePiece model of type %d, with spaces behind words or as they are, is not one of a GGUF file", m.modelType)
	}
	t := &Tokenizer{vocab: m.table.pack()}
	for id, kind := range m.types {
		g.Tokens, g.Types = append(g.Tokens, t.Token(int32(id))), append(g.Types, int32(kind))
	}
	if u := int64(m.unknown()); u >= 0 {
		g.Unknown = &u
	}
	if m.eos >= 0 && m.eos < int64(len(m.types)) && m.types[m.eos] == pieceControl {
		g.EOS = &m.eos
	}
	return g, nil
}
