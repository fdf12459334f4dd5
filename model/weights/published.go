package weights

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"loadline/internal/regular"
	"loadline/model"
	"loadline/model/safetensors"
	"loadline/tensor/quant"
)

// maxJSONBytes is the longest JSON file beside a model that is read, its index and tokenizer left out.
const maxJSONBytes = 4 << 20

// published is the safetensors files of a Hugging Face directory.
type published struct {
	dir     string
	set     *safetensors.Set
	layout  *quant.Layout // of quantised layers; nil without
	tensors map[string]*tensor
}

func (p *published) paths() []string { return p.set.Paths() }

func (p *published) Close() error { return p.set.Close() }

// readLayout reads how the layers of a directory are quantised; nil if they are not.
func readLayout(dir string) (*quant.Layout, error) {
	path := filepath.Join(dir, configName)
	data, err := regular.ReadAll(path, maxJSONBytes)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	var c struct {
		Quantization json.RawMessage `json:"quantization_config"`
		Compression  json.RawMessage `json:"compression_config"` // of compressed-tensors once
		Text         struct {
			Quantization json.RawMessage `json:"quantization_config"`
		} `json:"text_config"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("weights: %s: %w", path, err)
	}
	for _, q := range []json.RawMessage{c.Quantization, c.Compression, c.Text.Quantization} {
		if len(q) > 0 && string(q) != "null" {
			l, err := quant.ParseLayout(q)
			if err != nil {
				return nil, fmt.Errorf("weights: %w (in %s)", err, path)
			}
			return l, nil
		}
	}
	return nil, nil
}

// spellings are the names that files have for a published tensor: GPT-2's lack the prefix, and those of a base model, or of a model
// that also sees, have another.
func spellings(name string) []string {
	names := []string{name}
	if short, ok := strings.CutPrefix(name, "transformer."); ok {
		return append(names, short)
	}
	if short, ok := strings.CutPrefix(name, "model."); ok {
		return append(names, "model.language_model."+short, "language_model.model."+short, short)
	}
	return append(names, "language_model."+name)
}

// place implements store.
func (p *published) place(c model.Piece) (placed, error) {
	for _, name := range spellings(c.Name) {
		if at, ok, err := p.mxfp4(name, c); ok {
			return at, err
		}
		info, plain := p.set.Tensor(name)
		if plain && plainType(info.DType) {
			if !sameShape(info.Shape, c.Shape) {
				return placed{}, fmt.Errorf("tensor %q: want %v, file has %v", name, c.Shape, info.Shape)
			}
			return placed{Piece: c, tensor: p.plain(info)}, nil
		}
		if p.layout == nil {
			if plain {
				return placed{}, fmt.Errorf("tensor %q is %s: want F32, F16 or BF16", name, info.DType)
			}
			continue
		}
		t, err := p.quantised(name, c)
		if err != nil {
			return placed{}, err
		}
		if t != nil {
			return placed{Piece: c, tensor: t}, nil
		}
	}
	return placed{}, fmt.Errorf("tensor %q is missing", c.Name)
}

func plainType(t safetensors.DType) bool {
	return t == safetensors.F32 || t == safetensors.F16 || t == safetensors.BF16
}

// elemType is the storage format of plain elements.
func elemType(t safetensors.DType) quant.Type {
	switch t {
	case safetensors.F16:
		return quant.F16
	case safetensors.BF16:
		return quant.BF16
	}
	return quant.F32
}

// plain is a tensor of plain elements.
func (p *published) plain(info safetensors.Info) *tensor {
	t := p.tensors[info.Name]
	if t == nil {
		t = &tensor{name: info.Name, typ: elemType(info.DType), bytes: info.Bytes, read: p.reader(info.Name)}
		p.tensors[info.Name] = t
	}
	return t
}

// reader reads bytes of a tensor.
func (p *published) reader(name string) func(b []byte, at int64) error {
	return func(b []byte, at int64) error { return p.set.ReadRange(name, b, at) }
}

func sameShape(a []int64, b []int) bool {
	return slices.EqualFunc(a, b, func(x int64, y int) bool { return x == int64(y) })
}

// quantised is a layer whose weight stands in several tensors, or nil if it is not in the files.
func (p *published) quantised(weight string, c model.Piece) (*tensor, error) {
	if t := p.tensors[weight]; t != nil {
		return t, nil
	}
	prefix, ok := strings.CutSuffix(weight, "weight")
	if !ok || !p.has(prefix) {
		return nil, nil
	}
	if len(c.Shape) != 2 || c.Transposed {
		return nil, fmt.Errorf("tensor %q: a quantised one of shape %v is not read", weight, c.Shape)
	}
	s, err := p.scheme(strings.TrimSuffix(prefix, "."))
	if err != nil {
		return nil, err
	}
	l := &layer{storage: s.Storage, n: c.Shape[0], k: c.Shape[1]}
	f := &layerFiles{published: p, layer: l, scheme: s, prefix: prefix}
	if err := f.build(); err != nil {
		return nil, err
	}
	t := &tensor{name: weight, layer: l}
	p.tensors[weight] = t
	return t, nil
}

// has tells whether a layer has any of the tensors that stand for a quantised weight.
func (p *published) has(prefix string) bool {
	for _, name := range []string{"weight", "qweight", "weight_packed"} {
		if _, ok := p.set.Tensor(prefix + name); ok {
			return true
		}
	}
	return false
}

// scheme finds how a layer is stored.
func (p *published) scheme(layer string) (*quant.Scheme, error) {
	rest := -1
	for i := range p.layout.Schemes {
		targets := p.layout.Schemes[i].Targets
		if len(targets) == 0 || slices.Contains(targets, "Linear") {
			rest = i
			continue
		}
		for _, t := range targets {
			is, err := matches(t, layer)
			if err != nil {
				return nil, err
			}
			if is {
				return &p.layout.Schemes[i], nil
			}
		}
	}
	if rest < 0 {
		return nil, fmt.Errorf("layer %q: quantization_config does not say how it is stored", layer)
	}
	return &p.layout.Schemes[rest], nil
}
