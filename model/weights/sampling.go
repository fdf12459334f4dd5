package weights

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"loadline/model/gguf"
)

// Sampling is how the makers of a model would have its tokens chosen. What they say nothing of is nil.
type Sampling struct {
	From string // the file that says so

	Temperature, TopP, MinP, TypicalP, Repetition *float64
	TopK                                          *int
	Sample                                        *bool // whether tokens are drawn at all: do_sample
}

// generationJSON is what is read of generation_config.json, besides the tokens that end a text.
type generationJSON struct {
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	TopK        *int     `json:"top_k"`
	MinP        *float64 `json:"min_p"`
	TypicalP    *float64 `json:"typical_p"`
	Repetition  *float64 `json:"repetition_penalty"`
	Sample      *bool    `json:"do_sample"`
}

// Sampling reads how tokens are to be chosen, from generation_config.json or from a GGUF file's general.sampling keys. The values are
// as they stand there: whether they make sense is for who uses them.
func (m *Model) Sampling() (s Sampling, err error) {
	if m.GGUF() {
		f, err := gguf.Open(m.Path)
		if err != nil {
			return s, fmt.Errorf("weights: %w", err)
		}
		defer f.Close() // read only
		return ggufSampling(f.Meta(), filepath.Base(m.Path)), nil
	}
	var j generationJSON
	if err := m.readJSON(generationName, &j); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		} else {
			err = fmt.Errorf("weights: %s: %w", filepath.Join(m.Path, generationName), err)
		}
		return s, err
	}
	return Sampling{
		From: generationName, Temperature: j.Temperature, TopP: j.TopP, TopK: j.TopK, MinP: j.MinP, TypicalP: j.TypicalP, Repetition: j.Repetition,
		Sample: j.Sample,
	}, nil
}

// ggufSampling reads the keys that llama.cpp takes its defaults from.
func ggufSampling(meta gguf.Metadata, name string) Sampling {
	s := Sampling{From: name}
	for _, x := range []struct {
		key string
		to  **float64
	}{{"temp", &s.Temperature}, {"top_p", &s.TopP}, {"min_p", &s.MinP}, {"penalty_repeat", &s.Repetition}} {
		if v, ok := meta.Float("general.sampling." + x.key); ok {
			*x.to = &v
		}
	}
	if v, ok := meta.Int("general.sampling.top_k"); ok && int64(int(v)) == v {
		k := int(v)
		s.TopK = &k
	}
	return s
}
