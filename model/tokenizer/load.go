package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"loadline/internal/regular"
)

// maxFileBytes bounds a tokenizer.json or tokenizer.model; that of a vocabulary of 262,144 tokens takes 33 MB.
const maxFileBytes = 64 << 20

// LoadHeapBytes is a bound on the heap that Load needs at once for a file of that many bytes, with a garbage collector that is held
// to it. One that is too large is not read.
func LoadHeapBytes(fileBytes int64) int64 {
	if fileBytes > maxFileBytes {
		return 0
	}
	return 9*fileBytes + 1<<20
}

// Load reads a tokenizer.json or a tokenizer.model, which it tells apart by what they begin with. It needs LoadHeapBytes of heap at
// once; HeapBytes of them stay.
func Load(path string) (*Tokenizer, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	defer f.Close() // read only
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if st.Size() > maxFileBytes {
		return nil, fmt.Errorf("tokenizer: file is larger than %d MiB (in %s)", maxFileBytes>>20, path)
	}
	t, err := Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, path)
	}
	return t, nil
}

// Parse reads a tokenizer.json or a tokenizer.model.
func Parse(r io.Reader) (*Tokenizer, error) {
	p, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if len(p) > maxFileBytes {
		return nil, fmt.Errorf("tokenizer: file is larger than %d MiB", maxFileBytes>>20)
	}
	if looksLikeSentencePiece(p) {
		return parseSentencePiece(p)
	}
	if !utf8.Valid(p) {
		return nil, errors.New("tokenizer: file is not valid UTF-8")
	}
	if !json.Valid(p) {
		var ignored struct{}
		return nil, fmt.Errorf("tokenizer: not a tokenizer.json: %w", json.Unmarshal(p, &ignored))
	}
	f := &file{bytes: len(p)}
	if err := f.read(p); err != nil {
		return nil, err
	}
	return f.tokenizer()
}

// file is a tokenizer.json whose parts of unbounded size are not read yet.
type file struct {
	bytes         int // of all of it
	added         []byte
	normalizer    *component
	preTokenizer  *component
	postProcessor *component
	decoder       *component
	model         fileModel
	hasModel      bool
}

// fileModel is the model of a tokenizer.json.
type fileModel struct {
	Type          string   `json:"type"`
	Dropout       *float64 `json:"dropout"`
	Unknown       *string  `json:"unk_token"`
	UnknownID     *int64   `json:"unk_id"`
	Inner         *string  `json:"continuing_subword_prefix"`
	End           *string  `json:"end_of_word_suffix"`
	FuseUnknown   bool     `json:"fuse_unk"`
	ByteFallback  bool     `json:"byte_fallback"`
	IgnoreMerges  bool     `json:"ignore_merges"`
	MaxWordLength *int     `json:"max_input_chars_per_word"`

	vocab, merges []byte
}

// read takes the file apart.
func (f *file) read(p []byte) error {
	part := func(value []byte) (*component, error) {
		var c *component
		if err := json.Unmarshal(value, &c); err != nil {
			return nil, fmt.Errorf("tokenizer: not a tokenizer.json: %w", err)
		}
		return c, nil
	}
	err := members(p, func(key, value []byte) (err error) {
		switch string(key) {
		case `"added_tokens"`:
			f.added = value
		case `"normalizer"`:
			f.normalizer, err = part(value)
		case `"pre_tokenizer"`:
			f.preTokenizer, err = part(value)
		case `"post_processor"`:
			f.postProcessor, err = part(value)
		case `"decoder"`:
			f.decoder, err = part(value)
		case `"model"`:
			f.hasModel = true
			return f.model.read(value)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !f.hasModel {
		return errors.New(`tokenizer: file has no "model"`)
	}
	return f.model.check()
}

// read takes the model apart; what is large stays as it is.
func (m *fileModel) read(p []byte) error {
	small := []byte{'{'}
	err := members(p, func(key, value []byte) error {
		switch string(key) {
		case `"vocab"`:
			m.vocab = value
		case `"merges"`:
			m.merges = value
		default:
			if len(value) > 1<<16 {
				return fmt.Errorf("tokenizer: the model's %.20s has %d bytes", key, len(value))
			}
			if len(small) > 1 {
				small = append(small, ',')
			}
			small = append(append(append(small, key...), ':'), value...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(append(small, '}'), m); err != nil {
		return fmt.Errorf("tokenizer: not a tokenizer.json: %w", err)
	}
	return nil
}

// check refuses models that would be encoded differently from the file's author.
func (m *fileModel) check() error {
	if m.Type == "" { // files of before 2021
		switch {
		case len(m.merges) > 2:
			m.Type = "BPE"
		case m.UnknownID != nil:
			m.Type = "Unigram"
		case m.MaxWordLength != nil:
			m.Type = "WordPiece"
		}
	}
	switch {
	case !slices.Contains([]string{"BPE", "Unigram", "WordPiece", "WordLevel"}, m.Type):
		return unsupported("a model", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return errors.New("tokenizer: BPE dropout is not supported")
	case len(m.vocab) == 0:
		return errors.New(`tokenizer: the model has no "vocab"`)
	}
	return nil
}

// fileAdded is one of the added tokens.
type fileAdded struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// readAdded reads the added tokens.
func (f *file) readAdded() (list []fileAdded, err error) {
	if len(f.added) == 0 || string(f.added) == "null" {
		return nil, nil
	}
	err = elements(f.added, func(value []byte) error {
		var a fileAdded
		if err := json.Unmarshal(value, &a); err != nil {
			return fmt.Errorf("tokenizer: not a tokenizer.json: %w", err)
		}
		if err := checkID(a.Content, a.ID); err != nil {
			return err
		}
		list = append(list, a)
		return nil
	})
	return list, err
}

func checkID(what string, id int64) error {
	if id < 0 || id >= maxVocab {
		return fmt.Errorf("tokenizer: %q has id %d, want 0 to %d", what, id, maxVocab-1)
	}
	return nil
}

// tokenizer checks every id and builds the tables.
func (f *file) tokenizer() (*Tokenizer, error) {
	pre := &preTokenizers{known: knownAlternatives()}
	if err := pre.add(f.preTokenizer, true); err != nil {
		return nil, err
	}
	if pre.byteLevel && f.model.Type != "BPE" {
		return nil, fmt.Errorf("tokenizer: a ByteLevel pre_tokenizer before a model of type %q is not supported", f.model.Type)
	}
	addedList, err := f.readAdded()
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{stages: pre.stages, valid: appendValid}
	for _, s := range t.stages {
		m, ok := s.(*metaspace)
		t.leads = t.leads || ok && m.prepend == prependFirst
	}
	if t.norm, err = newNormalizers(f.normalizer); err != nil {
		return nil, err
	}
	if err := t.norm.bounded(); err != nil {
		return nil, err
	}
	if f.decoder != nil || !pre.byteLevel { // without one, tokens of bytes are those bytes
		if err := t.decoding.read(f.decoder); err != nil {
			return nil, err
		}
	}
	if _, ok := lastStage(pre.stages).(spelling); !ok && slices.ContainsFunc(pre.stages, func(s stage) bool { _, ok := s.(spelling); return ok }) {
		t.stages = append(t.stages, unspelling{newAlphabet()})
	}
	b := &modelBuilder{t: t, file: &f.model, byteLevel: pre.byteLevel, idBound: max(int64(f.bytes), 1<<17)}
	if err := b.build(addedList); err != nil {
		return nil, err
	}
	t.bare = t.isBare(f, pre)
	if t.bare {
		t.valid = nil
	}
	if err := t.initAdded(b.added); err != nil {
		return nil, err
	}
	return t, t.frame.add(f.postProcessor, t.vocab.size())
}

func lastStage(s []stage) stage {
	if len(s) == 0 {
		return nil
	}
	return s[len(s)-1]
}

// isBare tells whether the file is of Train's kind, added tokens left out.
func (t *Tokenizer) isBare(f *file, pre *preTokenizers) bool {
	if slices.Min(t.bpe.byteID[:]) < 0 || !pre.byteLevel || f.normalizer != nil || len(pre.stages) != 1 || t.bpe.ignoreMerges || t.bpe.inner+t.bpe.end != "" {
		return false
	}
	s, ok := pre.stages[0].(*split)
	if !ok {
		return false
	}
	_, ok = s.splitter.(gpt2Words)
	return ok && s.behavior == isolated
}
