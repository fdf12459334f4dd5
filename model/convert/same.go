package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"loadline/internal/regular"
	"loadline/internal/whole"
	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/tensor/quant"
)

// Keys of a GGUF file's metadata.
const (
	fileTypeKey = "general.file_type"
	versionKey  = "general.quantization_version"
)

// blockReader reads elements that are stored in blocks, and widens them.
type blockReader struct {
	typ  quant.Type
	read func(p []byte, at int64) error // at counts bytes
}

func (b *blockReader) raw(p []byte, at int64) error {
	return b.read(p, at/int64(b.typ.BlockElems())*int64(b.typ.BlockBytes()))
}

// wide reads and widens piece by piece.
func (b *blockReader) wide(dst []float32, at int64) error {
	var piece [16 << 10]byte
	elems, bytes := int64(b.typ.BlockElems()), int64(b.typ.BlockBytes())
	most := int64(len(piece)) / bytes * elems
	for len(dst) > 0 {
		n := min(int64(len(dst)), most)
		p := piece[:n/elems*bytes]
		if err := b.raw(p, at); err != nil {
			return err
		}
		quant.Decode(dst[:n], b.typ, p)
		dst, at = dst[n:], at+n
	}
	return nil
}

// ggufTensors are the tensors of a GGUF file, as they lie there.
func ggufTensors(f *gguf.File) (all []*tensor) {
	for _, i := range f.Tensors() {
		b := &blockReader{i.Type, func(p []byte, at int64) error { return f.ReadRange(i.Name, p, at) }}
		all = append(all, &tensor{name: i.Name, shape: i.Shape, from: i.Type, to: i.Type, raw: b.raw, wide: b.wide})
	}
	return all
}

// ggufToGGUF keeps all metadata.
func (o *Options) ggufToGGUF(ctx context.Context) (*Result, error) {
	f, err := gguf.Open(o.In)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	defer f.Close() // read only
	tensors := ggufTensors(f)
	keep := o.Type == ""
	if !keep {
		if err := o.choose(tensors, f.Meta()); err != nil {
			return nil, err
		}
	}
	meta := append(gguf.Metadata(nil), f.Meta()...)
	if !keep {
		o.setFileType(&meta, tensors)
	}
	return o.writeGGUF(ctx, tensors, meta)
}

// setFileType says which mixture it is, or which type most matrices have, by llama.cpp's numbers.
func (o *Options) setFileType(meta *gguf.Metadata, tensors []*tensor) {
	t, blocks := mostly(tensors)
	number, ok := map[quant.Type]uint32{ // llama_ftype
		quant.F32: 0, quant.F16: 1, quant.Q4_0: 2, quant.Q4_1: 3, quant.Q8_0: 7, quant.Q5_0: 8, quant.Q5_1: 9, quant.Q2_K: 10, quant.Q3_K: 12,
		quant.Q4_K: 15, quant.Q5_K: 17, quant.Q6_K: 18, quant.IQ4_NL: 25, quant.IQ4_XS: 30, quant.BF16: 32, quant.MXFP4: 38,
	}[t]
	if m, is := o.mixture(); is {
		number, ok = m.fileType, true
	}
	if ok {
		meta.Set(fileTypeKey, number)
	}
	if blocks {
		meta.Set(versionKey, uint32(2))
	}
}

// mostly is the type that most elements of matrices are written in, and whether any is written in blocks.
func mostly(tensors []*tensor) (most quant.Type, blocks bool) {
	count := map[quant.Type]int64{}
	for _, t := range tensors {
		if t.matrix() {
			count[t.to] += t.elems()
			blocks = blocks || t.to.BlockElems() > 1
		}
	}
	for t, n := range count {
		if n > count[most] || n == count[most] && t < most {
			most = t
		}
	}
	return most, blocks
}

// plainType is the storage of elements of a safetensors file that are weights.
func plainType(d safetensors.DType) (quant.Type, bool) {
	switch d {
	case safetensors.F32:
		return quant.F32, true
	case safetensors.F16:
		return quant.F16, true
	case safetensors.BF16:
		return quant.BF16, true
	}
	return 0, false
}

// elemType is plainType's inverse.
func elemType(t quant.Type) safetensors.DType {
	switch t {
	case quant.F16:
		return safetensors.F16
	case quant.BF16:
		return safetensors.BF16
	}
	return safetensors.F32
}

// maxBesideBytes bounds a file beside a model that is copied; a tokenizer.json has up to 33 MB.
const maxBesideBytes = 64 << 20

// shardBytes is what a safetensors file has at most, as transformers writes them.
const shardBytes = 5_000_000_000

// directoryToDirectory changes the type of plain elements. What is quantised is copied as it is.
func (o *Options) directoryToDirectory(ctx context.Context) (r *Result, err error) {
	set, err := safetensors.OpenSet(o.In)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	defer set.Close() // read only
	if o.Type != "" && quantised(o.In) {
		return nil, fmt.Errorf("convert: %s is quantised: its tensors stay as they are in %s, or are widened on the way to %s", o.In, Safetensors, GGUF)
	}
	var tensors []*tensor
	for _, i := range set.Tensors() {
		t := &tensor{name: i.Name, shape: i.Shape}
		if q, ok := plainType(i.DType); ok {
			b := &blockReader{q, func(p []byte, at int64) error { return set.ReadRange(i.Name, p, at) }}
			t.from, t.to, t.raw, t.wide = q, q, b.raw, b.wide
		} else {
			width := i.DType.Bytes()
			t.other, t.width = i.DType, width
			t.raw = func(p []byte, at int64) error { return set.ReadRange(i.Name, p, at*width) }
		}
		tensors = append(tensors, t)
	}
	if err := o.choose(tensors, nil); err != nil {
		return nil, err
	}
	return o.writeDirectory(ctx, tensors, set.Metadata(), func(dir string) error { return o.copyBeside(dir, tensors) })
}

// quantised tells whether a directory's config.json says that its weights are made of several tensors.
func quantised(dir string) bool {
	var c struct {
		Quantised json.RawMessage `json:"quantization_config"`
	}
	body, err := regular.ReadAll(filepath.Join(dir, configName), maxBesideBytes)
	return err == nil && json.Unmarshal(body, &c) == nil && len(c.Quantised) > 0 && string(c.Quantised) != "null"
}

// copyBeside copies the small files beside the tensors, and says in config.json what type they are of.
func (o *Options) copyBeside(dir string, tensors []*tensor) error {
	names, err := os.ReadDir(o.In)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	for _, n := range names {
		name := n.Name()
		switch filepath.Ext(name) {
		case ".json", ".txt", ".jinja", ".md", ".model":
		default:
			if !strings.HasPrefix(name, "LICENSE") {
				continue
			}
		}
		if strings.HasSuffix(name, ".safetensors.index.json") || strings.HasPrefix(name, ".") || name == "trainer.json" {
			continue
		}
		body, err := regular.ReadAll(filepath.Join(o.In, name), maxBesideBytes)
		if errors.Is(err, regular.ErrNot) {
			continue
		}
		if err == nil && name == configName {
			body, err = withType(body, tensors)
		}
		if err == nil {
			err = writeFile(filepath.Join(dir, name), body)
		}
		if err != nil {
			return fmt.Errorf("convert: %w", err)
		}
	}
	return nil
}

// withType sets config.json's type of elements.
func withType(body []byte, tensors []*tensor) ([]byte, error) {
	var c map[string]json.RawMessage
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", configName, err)
	}
	t, _ := mostly(tensors)
	name, err := json.Marshal(map[quant.Type]string{quant.F32: "float32", quant.F16: "float16", quant.BF16: "bfloat16"}[t])
	if err != nil {
		return nil, err
	}
	key := "torch_dtype"
	if _, ok := c["dtype"]; ok { // as transformers 5 writes it
		key = "dtype"
	}
	c[key] = name
	out, err := json.MarshalIndent(c, "", "  ")
	return append(out, '\n'), err
}

// writeFile writes a small file.
func writeFile(path string, body []byte) error {
	w, err := whole.Create(path)
	if err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return errors.Join(err, w.Abort())
	}
	return whole.Commit(w)
}

// writeDirectory writes tensors to safetensors files in a directory beside Out, what goes beside them by beside, and then gives the
// directory its name.
func (o *Options) writeDirectory(ctx context.Context, tensors []*tensor, meta map[string]string, beside func(dir string) error) (r *Result, err error) {
	out := filepath.Clean(o.Out)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	made, err := whole.CreateDir(out)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	dir := made.Path()
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Abort())
		}
	}()
	if err := beside(dir); err != nil {
		return nil, err
	}
	if meta == nil || meta["format"] == "" {
		meta = map[string]string{"format": "pt"}
	}
	named := map[string]*tensor{}
	var infos []safetensors.Info
	for _, t := range tensors {
		d := t.other
		if d == "" {
			d = elemType(t.to)
		}
		infos = append(infos, safetensors.Info{Name: t.name, DType: d, Shape: t.shape})
		named[t.name] = t
	}
	w, err := safetensors.CreateSharded(dir, infos, meta, shardBytes)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	var order []*tensor
	for _, i := range w.Tensors() {
		order = append(order, named[i.Name])
	}
	if r, err = o.pass(ctx, order, w.Write); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	if err := made.Commit(); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return r, r.list(out)
}

// list takes the names of what was written to a directory.
func (r *Result) list(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	for _, e := range entries {
		r.Files = append(r.Files, filepath.Join(dir, e.Name()))
	}
	return nil
}
