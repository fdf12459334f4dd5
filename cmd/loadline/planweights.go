package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"loadline/internal/regular"
	"loadline/mem"
	"loadline/model/safetensors"
	"loadline/planner/frameworks"
)

// Names of the files that hold a model's weights, and bounds of the index.
const (
	weightsName   = "model.safetensors"
	indexName     = "model.safetensors.index.json"
	maxIndexBytes = 32 << 20
	maxShards     = 4096
)

// weightFiles is what the files beside a config.json say of the weights.
type weightFiles struct {
	bytes   float64 // of all tensors
	ends    float64 // of embeddings, head and norms among them; 0 where only the index is there
	elems   float64 // of all tensors; 0 where only the index is there, or values are packed
	files   int
	missing int
}

// readWeights reads the headers of the shards that the index names, or of the one file that there is. A model without files has none;
// where shards are missing, the index's total_size counts.
func readWeights(dir string) (*weightFiles, error) {
	shards := []string{weightsName}
	total := 0.0
	body, err := regular.ReadAll(filepath.Join(dir, indexName), maxIndexBytes)
	switch {
	case err == nil:
		var index struct {
			Metadata struct {
				Total float64 `json:"total_size"`
			} `json:"metadata"`
			Map map[string]string `json:"weight_map"`
		}
		if err := json.Unmarshal(body, &index); err != nil {
			return nil, fmt.Errorf("%s: %w", indexName, err)
		}
		names := map[string]bool{}
		for _, name := range index.Map {
			names[name] = true
			if name != filepath.Base(name) || !filepath.IsLocal(name) {
				return nil, fmt.Errorf("%s: weight_map names %.80q: want a file beside it", indexName, name)
			}
			if len(names) > maxShards {
				return nil, fmt.Errorf("%s: weight_map names more than %d files", indexName, maxShards)
			}
		}
		total = index.Metadata.Total
		if !(total >= 0 && total <= 1<<60 && total == math.Trunc(total)) || len(names) == 0 {
			return nil, fmt.Errorf("%s: total_size %g and %d files: want bytes of a model, and its files", indexName, total, len(names))
		}
		shards = slices.Sorted(maps.Keys(names))
	case exists(filepath.Join(dir, indexName)):
		return nil, err
	case !exists(filepath.Join(dir, weightsName)):
		return nil, nil
	}
	w := &weightFiles{files: len(shards)}
	packed := false
	for _, name := range shards {
		f, err := safetensors.Open(filepath.Join(dir, name))
		if err != nil { // not there, not whole, or a pointer to what is elsewhere
			w.missing++
			continue
		}
		for _, x := range f.Tensors() {
			w.bytes += float64(x.Bytes)
			if n := x.DType.Bytes(); n > 0 {
				w.elems += float64(x.Bytes / n)
			}
			packed = packed || slices.Contains([]safetensors.DType{safetensors.I32, safetensors.U8, safetensors.I8, safetensors.U32}, x.DType)
			if atEnds(x.Name) {
				w.ends += float64(x.Bytes)
			}
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	if packed {
		w.elems = 0
	}
	if w.missing > 0 {
		w.bytes, w.ends, w.elems = total, 0, 0
	}
	if w.bytes == 0 {
		return nil, nil
	}
	return w, nil
}

// atEnds tells whether a tensor is no matrix of a layer: an embedding, the head, a norm. Formats of few bits leave these alone.
func atEnds(name string) bool {
	for _, part := range []string{"embed", "wte", "wpe", "lm_head", "norm", "output.weight", "ln_f"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// text says what was found.
func (w *weightFiles) text() string {
	switch {
	case w.missing == w.files:
		return fmt.Sprintf("%v by the index; none of its %d files is there", mem.Bytes(w.bytes), w.files)
	case w.missing > 0:
		return fmt.Sprintf("%v by the index; %d of its %d files are not there", mem.Bytes(w.bytes), w.missing, w.files)
	case w.elems > 0:
		return fmt.Sprintf("%v in %s, %s values", mem.Bytes(w.bytes), count(w.files, "file"), grouped(int64(w.elems)))
	}
	return fmt.Sprintf("%v in %s", mem.Bytes(w.bytes), count(w.files, "file"))
}

// apply makes a model what its files say: the parameters that config.json does not know of, and the type of the weights where it is
// one of few bits.
func (w *weightFiles) apply(m *planModel) error {
	params := float64(m.Shape.Params())
	if w.elems > 0 {
		more := w.elems - params
		if more < -0.005*params {
			return fmt.Errorf("the files hold %s values, config.json describes %s parameters: they are not of one model", grouped(int64(w.elems)), grouped(m.Shape.Params()))
		}
		if more > 0.005*params { // a vision tower, heads for more tokens
			m.Shape.Other = int64(more)
			params += more
		}
	}
	if 8*w.bytes < params {
		return fmt.Errorf("the files hold %v, config.json describes %s parameters: they are not of one model", mem.Bytes(w.bytes), grouped(m.Shape.Params()))
	}
	linear := m.Shape.LinearParams()
	ends := w.ends
	if ends == 0 {
		ends = 2 * (params - linear)
	}
	if bits := 8 * (w.bytes - ends) / linear; bits > 1 && bits < 12 {
		m.Stored = &frameworks.Quant{Name: storedName(bits, m.Stored), Bits: bits, EmbedBits: 8 * ends / (params - linear)}
	} else {
		m.Stored = nil
	}
	return nil
}

// storedName is a name of a format whose kernels a width of weights has: what config.json says, or the usual one.
func storedName(bits float64, said *frameworks.Quant) string {
	switch {
	case said != nil:
		return said.Name
	case bits > 6:
		return "fp8"
	}
	return "awq-int4"
}

// storedFormat is what the quantization_config of a config.json says of the weights, or nothing.
func storedFormat(body []byte) *frameworks.Quant {
	var c struct {
		Quant struct {
			Method string  `json:"quant_method"`
			Bits   float64 `json:"bits"`
			Four   bool    `json:"load_in_4bit"`
		} `json:"quantization_config"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return nil // shape.Parse has the word on a config.json
	}
	name := ""
	switch q := c.Quant; strings.ToLower(q.Method) {
	case "awq":
		name = "awq-int4"
	case "gptq":
		name = "gptq-int4"
		if q.Bits == 8 {
			name = "gptq-int8"
		}
	case "fp8", "fbgemm_fp8":
		name = "fp8"
	case "mxfp4":
		name = "mxfp4"
	case "bitsandbytes":
		name = "int8"
		if q.Four {
			name = "nf4"
		}
	}
	if name == "" {
		return nil
	}
	stored := frameworks.QuantByName(name)
	return &stored
}

// besides reads what is beside a config.json in a directory.
func (m *planModel) besides(dir string, config []byte) error {
	m.Stored = storedFormat(config)
	w, err := readWeights(dir)
	if err != nil || w == nil {
		return err
	}
	if err := w.apply(m); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	m.Weights = w.text()
	return nil
}
