package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"loadline/internal/regular"
	"loadline/model/gguf"
	"loadline/model/tokenizer"
)

// Names of files that go with a tokenizer.model.
const (
	piecesName = "tokenizer.model"
	addedName  = "added_tokens.json"
)

// beyond is the score of tokens that no merge makes, as llama.cpp's converter has it.
const beyond = -1000

// pieces writes a tokenizer.model as keys of a GGUF file, and compares what it then gives with what it gave. It returns an error that is
// fs.ErrNotExist where there is none.
func (o *Options) pieces(meta *gguf.Metadata, x *crossing) error {
	path := filepath.Join(o.In, piecesName)
	body, err := regular.ReadAll(path, maxBesideBytes)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	g, err := tokenizer.PieceVocabulary(body)
	if err != nil {
		return fmt.Errorf("convert: %w (in %s)", err, path)
	}
	want, err := tokenizer.Parse(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("convert: %w (in %s)", err, path)
	}
	for id, k := range g.Types {
		if k == kindUser { // readers look for these before they write spaces otherwise
			g.Tokens[id] = strings.ReplaceAll(g.Tokens[id], spaceSign, " ")
		}
	}
	s, err := o.pieceSettings()
	if err == nil {
		err = s.add(g, x.Config.VocabSize)
	}
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	for key, v := range map[string]any{
		"model": g.Model, "pre": g.Pre, "tokens": g.Tokens, "scores": g.Scores, "token_type": g.Types, "add_space_prefix": *g.AddSpacePrefix,
		"remove_extra_whitespaces": *g.RemoveExtraWhitespaces,
	} {
		meta.Set("tokenizer.ggml."+key, v)
	}
	if len(g.Charsmap) > 0 {
		if g.Model == "llama" {
			o.Say(piecesName + " changes characters before it cuts a text, which GGUF has no word for: such texts give other tokens")
		} else {
			meta.Set("tokenizer.ggml.precompiled_charsmap", g.Charsmap)
		}
	}
	v := &vocabulary{tokens: g.Tokens}
	v.specials(meta, want, x.Special())
	meta.Set("tokenizer.ggml.add_bos_token", s.begins())
	meta.Set("tokenizer.ggml.add_eos_token", s.AddEOS != nil && *s.AddEOS)
	for key, id := range map[string]*int64{"unknown": g.Unknown, "eos": g.EOS} {
		if _, ok := meta.Int("tokenizer.ggml." + key + "_token_id"); !ok && id != nil {
			meta.Set("tokenizer.ggml."+key+"_token_id", uint32(*id))
		}
	}
	got, err := fromMeta(*meta)
	if err == nil {
		err = sameTokens(want, got)
	}
	if err != nil {
		return fmt.Errorf("convert: as a GGUF file's it gives other tokens: %w (in %s)", err, path)
	}
	if text, ok := x.Template(); ok {
		meta.Set("tokenizer.chat_template", text)
	}
	return nil
}

// pieceSettings is what other files say of a tokenizer.model.
type pieceSettings struct {
	Class  string `json:"tokenizer_class"`
	AddBOS *bool  `json:"add_bos_token"`
	AddEOS *bool  `json:"add_eos_token"`
	Added  map[string]struct {
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens_decoder"`
	texts map[string]int // of addedName
}

func (o *Options) pieceSettings() (*pieceSettings, error) {
	s := &pieceSettings{}
	for name, into := range map[string]any{tokenizerConfigName: s, addedName: &s.texts} {
		body, err := regular.ReadAll(filepath.Join(o.In, name), maxBesideBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(body, into)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, nil
}

// begins tells whether a token goes before every text: those of Llama and Gemma have one unless they say otherwise.
func (s *pieceSettings) begins() bool {
	if s.AddBOS != nil {
		return *s.AddBOS
	}
	return slices.Contains([]string{"", "LlamaTokenizer", "LlamaTokenizerFast", "GemmaTokenizer", "GemmaTokenizerFast", "CodeLlamaTokenizer"}, s.Class)
}

// add adds tokens that the pieces lack, up to as many as the embedding has rows.
func (s *pieceSettings) add(g *tokenizer.GGUF, size int) error {
	if len(g.Tokens) > size {
		return fmt.Errorf("%s has %d pieces, the model an embedding of %d", piecesName, len(g.Tokens), size)
	}
	for id := len(g.Tokens); id < size; id++ {
		g.Tokens, g.Scores, g.Types = append(g.Tokens, fmt.Sprintf("[PAD%d]", id)), append(g.Scores, beyond), append(g.Types, kindUnused)
	}
	put := func(id int, text string, special bool) error {
		if id < 0 || id >= size {
			return fmt.Errorf("token %d is added, the model has an embedding of %d", id, size)
		}
		if g.Tokens[id] == text && g.Types[id] != kindUnused && g.Types[id] != kindNormal {
			return nil // it is what the pieces say already
		}
		g.Tokens[id], g.Scores[id], g.Types[id] = text, beyond, kindUser
		if special {
			g.Types[id] = kindControl
		}
		return nil
	}
	for text, id := range s.texts {
		if err := put(id, text, false); err != nil {
			return err
		}
	}
	for key, a := range s.Added {
		id, err := strconv.Atoi(key)
		if err == nil {
			err = put(id, a.Content, a.Special)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
