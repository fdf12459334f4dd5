package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"loadline/internal/regular"
)

// maxFileBytes bounds a tokenizer.json; vocabularies of 150,000 tokens take about 11 MB.
const maxFileBytes = 32 << 20

// file is a tokenizer.json, as far as it is read.
type file struct {
	AddedTokens   []fileAdded `json:"added_tokens"`
	Normalizer    *component  `json:"normalizer"`
	PreTokenizer  *byteLevel  `json:"pre_tokenizer"`
	PostProcessor *component  `json:"post_processor"`
	Decoder       *component  `json:"decoder"`
	Model         *fileModel  `json:"model"`
}

type component struct {
	Type string `json:"type"`
}

type byteLevel struct {
	Type           string `json:"type"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"`
}

type fileAdded struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type fileModel struct {
	Type         string           `json:"type"`
	Dropout      *float64         `json:"dropout"`
	Prefix       *string          `json:"continuing_subword_prefix"`
	Suffix       *string          `json:"end_of_word_suffix"`
	IgnoreMerges bool             `json:"ignore_merges"`
	Vocab        map[string]int64 `json:"vocab"`
	Merges       json.RawMessage  `json:"merges"`
}

// readMerges reads a list of merges, each "left right" or, in files written since 2024, ["left", "right"].
func readMerges(p []byte) ([][]string, error) {
	if list := bytes.TrimLeft(bytes.TrimPrefix(p, []byte("[")), " \t\r\n"); len(list) == 0 || list[0] != '"' {
		var pairs [][]string
		if err := json.Unmarshal(p, &pairs); err != nil {
			return nil, fmt.Errorf("tokenizer: reading merges: %w", err)
		}
		for i, pair := range pairs {
			if len(pair) != 2 {
				return nil, fmt.Errorf("tokenizer: merge %d has %d tokens, want 2", i, len(pair))
			}
		}
		return pairs, nil
	}
	var list []string
	if err := json.Unmarshal(p, &list); err != nil {
		return nil, fmt.Errorf("tokenizer: reading merges: %w", err)
	}
	pairs := make([][]string, len(list)) //mem:ok bounded by the file, see Load
	for i, s := range list {
		if strings.Count(s, " ") != 1 {
			return nil, fmt.Errorf("tokenizer: merge %d, %q, is not two tokens with a space between", i, s)
		}
		pairs[i] = strings.Split(s, " ")
	}
	return pairs, nil
}

// LoadHeapBytes is a bound on the heap that Load needs at once for a file of that many bytes, with a garbage collector that is held
// to it. Measured: 7 bytes for each of the file's where merges are pairs, fewer in other files. One that is too large is not read.
func LoadHeapBytes(fileBytes int64) int64 {
	if fileBytes > maxFileBytes {
		return 0
	}
	return 9*fileBytes + 1<<20
}

// Load reads a tokenizer.json file. Reading allocates about fifteen bytes of heap for each byte of the file, LoadHeapBytes of them at
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

// Parse reads a tokenizer.json.
func Parse(r io.Reader) (*Tokenizer, error) {
	p, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if len(p) > maxFileBytes {
		return nil, fmt.Errorf("tokenizer: file is larger than %d MiB", maxFileBytes>>20)
	}
	if !utf8.Valid(p) {
		return nil, errors.New("tokenizer: file is not valid UTF-8")
	}
	var f file
	if err := json.Unmarshal(p, &f); err != nil {
		return nil, fmt.Errorf("tokenizer: not a tokenizer.json: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.tokenizer()
}

// check refuses what this package would encode differently from the file's author.
func (f *file) check() error {
	m := f.Model
	if m == nil {
		return errors.New(`tokenizer: file has no "model"`)
	}
	unsupported := func(what string) error { return fmt.Errorf("tokenizer: %s is not supported", what) }
	switch {
	case m.Type != "BPE" && !(m.Type == "" && len(m.Merges) > 0):
		return unsupported(fmt.Sprintf("a model of type %q", m.Type))
	case m.Dropout != nil && *m.Dropout != 0:
		return unsupported("BPE dropout")
	case m.Prefix != nil && *m.Prefix != "":
		return unsupported("a prefix of continued words")
	case m.Suffix != nil && *m.Suffix != "":
		return unsupported("a suffix of words")
	case m.IgnoreMerges:
		return unsupported("ignore_merges")
	case f.Normalizer != nil:
		return unsupported(fmt.Sprintf("a normalizer (%s)", f.Normalizer.Type))
	case f.PreTokenizer == nil:
		return unsupported("a file without a pre_tokenizer")
	case f.PreTokenizer.Type != "ByteLevel":
		return unsupported(fmt.Sprintf("a pre_tokenizer of type %q", f.PreTokenizer.Type))
	case f.PreTokenizer.AddPrefixSpace:
		return unsupported("add_prefix_space")
	case f.PreTokenizer.UseRegex != nil && !*f.PreTokenizer.UseRegex:
		return unsupported("a pre_tokenizer without its pattern")
	case f.PostProcessor != nil && f.PostProcessor.Type != "ByteLevel":
		return unsupported(fmt.Sprintf("a post_processor of type %q", f.PostProcessor.Type))
	case f.Decoder != nil && f.Decoder.Type != "ByteLevel":
		return unsupported(fmt.Sprintf("a decoder of type %q", f.Decoder.Type))
	}
	for _, a := range f.AddedTokens {
		if a.SingleWord || a.LStrip || a.RStrip {
			return unsupported(fmt.Sprintf("single_word, lstrip or rstrip of added token %q", a.Content))
		}
	}
	return nil
}

// tokenizer checks every id and builds the tables.
func (f *file) tokenizer() (*Tokenizer, error) {
	largest := int64(-1)
	check := func(what string, id int64) error {
		if id < 0 || id >= maxVocab {
			return fmt.Errorf("tokenizer: %q has id %d, want 0 to %d", what, id, maxVocab-1)
		}
		largest = max(largest, id)
		return nil
	}
	for text, id := range f.Model.Vocab {
		if err := check(text, id); err != nil {
			return nil, err
		}
	}
	isAdded := make(map[string]bool, len(f.AddedTokens))
	for _, a := range f.AddedTokens {
		if err := check(a.Content, a.ID); err != nil {
			return nil, err
		}
		isAdded[a.Content] = true
	}
	tokens := make([][]byte, largest+1) //mem:ok bounded by maxVocab, freed when the tables are built
	letters := newAlphabet()
	for text, id := range f.Model.Vocab {
		if tokens[id] != nil {
			return nil, fmt.Errorf("tokenizer: two tokens of the vocabulary have id %d", id)
		}
		token, ok := letters.unspell(text)
		if !ok && !isAdded[text] || text == "" {
			return nil, fmt.Errorf("tokenizer: token %q of the vocabulary is not spelled in the byte alphabet", text)
		}
		tokens[id] = token
		if !ok {
			tokens[id] = []byte(text)
		}
	}
	addedTokens := make([]addedToken, 0, len(f.AddedTokens)) //mem:ok bounded by the file
	for _, a := range f.AddedTokens {
		id, inVocab := f.Model.Vocab[a.Content]
		if inVocab && id != a.ID || !inVocab && tokens[a.ID] != nil {
			return nil, fmt.Errorf("tokenizer: added token %q has the id %d of another token", a.Content, a.ID)
		}
		tokens[a.ID] = []byte(a.Content)
		addedTokens = append(addedTokens, addedToken{int32(a.ID), a.Content, a.Special, a.Normalized, inVocab})
	}
	pairs, err := readMerges(f.Model.Merges)
	if err != nil {
		return nil, err
	}
	merges := make([]merge, 0, len(pairs)) //mem:ok bounded by the file; see HeapBytes
	for i, p := range pairs {
		left, okLeft := f.Model.Vocab[p[0]]
		right, okRight := f.Model.Vocab[p[1]]
		into, okInto := f.Model.Vocab[p[0]+p[1]]
		if !okLeft || !okRight || !okInto {
			return nil, fmt.Errorf("tokenizer: merge %d, %q + %q, uses a token that is not in the vocabulary", i, p[0], p[1])
		}
		if !bytes.Equal(tokens[into], slices.Concat(tokens[left], tokens[right])) { // an added token in disguise
			return nil, fmt.Errorf("tokenizer: merge %d, %q + %q, does not make token %d, %q", i, p[0], p[1], into, tokens[into])
		}
		merges = append(merges, merge{int32(left), int32(right), int32(into)})
	}
	return build(tokens, merges, addedTokens)
}
