// Package convert writes a model in another format or another type: a Hugging Face directory (safetensors, config.json, tokenizer.json)
// as a GGUF file, the other way round, or either as its own kind.
//
//	In ──▶ tensors, each with how it is read ──▶ buffer ──▶ Out, tensor after tensor
//	 └───▶ configuration, tokenizer, template ────────────▶ metadata, or files beside the tensors
//
// Invariants:
//   - Between the same types bytes pass as they are. Plain elements that are widened and narrowed again have their bits back.
//   - A block is widened as tensor/quant defines, and made as its Encode does.
//   - No more of the tensors is in memory than the caller's buffer holds.
//   - Out has its name only when it is complete; what was there before is refused, never overwritten.
//   - From GGUF to GGUF, and from safetensors to safetensors, the architecture need not be known.
//
// One type is for all matrices, but for those whose rows are no multiple of its block and those that llama.cpp leaves alone; or llama-quantize's
// mixtures say which has which. No importance matrix is taken.
//
// Sources: convert_hf_to_gguf.py and llama-quant.cpp of llama.cpp; transformers' convert_slow_tokenizer.py for merges from scores.
package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"loadline/internal/whole"
	"loadline/mem/arena"
	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/model/weights"
	"loadline/tensor/quant"
)

// The formats.
const (
	GGUF        = "gguf"
	Safetensors = "safetensors"
)

// MinBuffer is the least length of Options.Buffer.
const MinBuffer = 1 << 20

// Options say what is made of what.
type Options struct {
	In, Out  string
	To       string // GGUF or Safetensors
	Type     string // of matrices, by quant's names, or to GGUF one of Mixtures; empty keeps types, as far as the format has them
	Buffer   []byte // what passes is in it
	Progress func(tensor string, done, all int64)
	Say      func(line string) // told what is worth a line
}

// Validate returns what is wrong with the options, or nil.
func (o *Options) Validate() error {
	if o.To != GGUF && o.To != Safetensors {
		return fmt.Errorf("convert: to %q: want %s or %s", o.To, GGUF, Safetensors)
	}
	if o.Out == "" || o.To == GGUF && os.IsPathSeparator(o.Out[len(o.Out)-1]) {
		return fmt.Errorf("convert: OUT is %q: want the name of a %s", o.Out, map[string]string{GGUF: "file", Safetensors: "directory"}[o.To])
	}
	if len(o.Buffer) < MinBuffer {
		return fmt.Errorf("convert: a buffer of %d bytes, want at least %d", len(o.Buffer), MinBuffer)
	}
	t, ok, err := o.kind()
	if err != nil {
		return err
	}
	if ok && o.To == Safetensors && t.BlockElems() > 1 {
		return fmt.Errorf("convert: type %v: safetensors files have f32, f16 or bf16 here", t)
	}
	if ok && !t.CanEncode() {
		return fmt.Errorf("convert: type %v cannot be written", t)
	}
	return nil
}

// kind is the type that is asked for, if one is.
func (o *Options) kind() (t quant.Type, ok bool, err error) {
	if o.Type == "" {
		return 0, false, nil
	}
	if m, ok := o.mixture(); ok {
		return m.base, true, nil
	}
	if t, err = quant.Parse(o.Type); err != nil {
		return 0, false, fmt.Errorf("convert: type %q is not known", o.Type)
	}
	return t, true, nil
}

// Tensor is one that was written.
type Tensor struct {
	Name     string
	From, To string // types
	Bytes    int64
}

// Result is what was written.
type Result struct {
	Files   []string
	Tensors []Tensor
	Bytes   int64 // of tensors
}

// tensor is one that is to be written.
type tensor struct {
	name     string
	shape    []int64
	from, to quant.Type
	stored   string                              // what the file has, where from is what it is widened to
	raw      func(p []byte, at int64) error      // elements from at on, as they are stored; nil where they are made
	wide     func(dst []float32, at int64) error // the same, widened
	other    safetensors.DType                   // of a tensor that is no weight, which is copied; then only raw is there
	width    int64                               // of its elements
	made     bool                                // it is in no file
}

func (t *tensor) elems() int64 {
	n := int64(1)
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// matrix tells whether a tensor is one of those that Options.Type is for.
func (t *tensor) matrix() bool { return len(t.shape) >= 2 && t.other == "" }

// ErrExists says that there is something in the place of what was to be written.
var ErrExists = errors.New("it exists")

// Run converts.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if _, err := os.Lstat(o.Out); err == nil {
		return nil, fmt.Errorf("convert: %s: %w", o.Out, ErrExists)
	}
	in, isGGUF, err := weights.Find(o.In)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	o.In = in
	if a, err := os.Stat(o.In); err == nil {
		if b, err := os.Stat(filepath.Clean(o.Out) + whole.Suffix); err == nil && os.SameFile(a, b) {
			return nil, fmt.Errorf("convert: %s is where %s would be written: give it another name first", o.In, o.Out)
		}
	}
	switch {
	case isGGUF && o.To == GGUF:
		return o.ggufToGGUF(ctx)
	case isGGUF:
		return o.ggufToDirectory(ctx)
	case o.To == GGUF:
		return o.directoryToGGUF(ctx)
	}
	return o.directoryToDirectory(ctx)
}

// stays are parts of names of matrices that llama.cpp's quantiser leaves as they are: small, and everything depends on them.
func stays(name string) bool {
	if !strings.HasSuffix(name, "weight") { // experts' biases have as many dimensions as a matrix
		return true
	}
	for _, s := range []string{"ffn_gate_inp.weight", "position_embd.weight", "token_types.weight", "ssm_conv1d", "_norm.weight", "attn_rel_b.weight"} {
		if strings.HasSuffix(name, s) || strings.Contains(name, s) {
			return true
		}
	}
	return false
}

// choose gives every tensor the type that it is written in. meta is what a GGUF file says of the model; it is not looked at otherwise.
func (o *Options) choose(tensors []*tensor, meta gguf.Metadata) error {
	want, asked, err := o.kind()
	if err != nil {
		return err
	}
	typeOf := func(string, int64) quant.Type { return want }
	if m, ok := o.mixture(); ok {
		typeOf = newMixer(m, meta, tensors).typeOf
	}
	for _, t := range tensors {
		if t.other != "" {
			continue
		}
		t.to = t.from
		switch {
		case o.To == Safetensors && asked && t.raw != nil:
			t.to = want
		case o.To == Safetensors && t.from.BlockElems() > 1:
			t.to = quant.F32
		case o.To == GGUF && asked && t.matrix() && !stays(t.name):
			row := t.shape[len(t.shape)-1]
			t.to = fitting(typeOf(t.name, row), row)
		case o.To == GGUF && !t.matrix() && t.from.BlockElems() == 1:
			t.to = quant.F32 // as llama.cpp's readers want vectors
		}
		if t.from != t.to && !t.from.CanDecode() {
			return fmt.Errorf("convert: tensor %q is %v, which cannot be widened", t.name, t.from)
		}
	}
	return nil
}

// fitting is the type, or what llama.cpp takes in its place, whose blocks a row is a multiple of.
func fitting(t quant.Type, row int64) quant.Type {
	for range 2 {
		if row%int64(t.BlockElems()) == 0 {
			return t
		}
		t = t.Fallback()
	}
	if row%int64(t.BlockElems()) != 0 {
		return quant.F16
	}
	return t
}

// bytes is what a tensor takes where it is written.
func (t *tensor) bytes() (int64, error) {
	if t.other != "" {
		return t.elems() * t.width, nil
	}
	n, ok := t.to.Bytes(t.elems())
	if !ok {
		return 0, fmt.Errorf("convert: tensor %q overflows", t.name)
	}
	return n, nil
}

// pass writes every tensor, in an order, through the buffer.
func (o *Options) pass(ctx context.Context, tensors []*tensor, write func(name string, p []byte) error) (*Result, error) {
	r := &Result{}
	all, done := int64(0), int64(0)
	for _, t := range tensors {
		n, err := t.bytes()
		if err != nil {
			return nil, err
		}
		all += n
	}
	for _, t := range tensors {
		err := o.one(t, func(p []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			done += int64(len(p))
			o.Progress(t.name, done, all)
			return write(t.name, p)
		})
		if err != nil {
			return nil, err
		}
		n, _ := t.bytes() // checked above
		x := Tensor{Name: t.name, From: strings.ToLower(t.from.String()), To: strings.ToLower(t.to.String()), Bytes: n}
		if t.stored != "" {
			x.From = strings.ToLower(t.stored)
		}
		if t.other != "" {
			x.From, x.To = strings.ToLower(string(t.other)), strings.ToLower(string(t.other))
		}
		r.Tensors = append(r.Tensors, x)
		r.Bytes += n
	}
	return r, nil
}

// one passes one tensor.
func (o *Options) one(t *tensor, write func(p []byte) error) error {
	n := t.elems()
	elems, width := int64(1), t.width
	if t.other == "" {
		elems, width = int64(t.to.BlockElems()), int64(t.to.BlockBytes())
	}
	if t.raw != nil && (t.from == t.to || t.other != "") {
		step := max(1, int64(len(o.Buffer))/width) * elems
		for at := int64(0); at < n; at += step {
			k := min(step, n-at)
			p := o.Buffer[:k/elems*width]
			if err := t.raw(p, at); err != nil {
				return fmt.Errorf("convert: %w", err)
			}
			if err := write(p); err != nil {
				return err
			}
		}
		return nil
	}
	wide, out := o.halves()
	step := int64(len(wide))
	if row := lastDim(t.shape); row > 0 && row <= step && row%elems == 0 { // whole rows
		step = step / row * row
	}
	for at := int64(0); at < n; at += step {
		k := min(step, n-at)
		x, p := wide[:k], out[:k/elems*width]
		if err := t.wide(x, at); err != nil {
			return fmt.Errorf("convert: %w", err)
		}
		if err := quant.Encode(p, t.to, x); err != nil {
			return fmt.Errorf("convert: tensor %q: %w", t.name, err)
		}
		if err := write(p); err != nil {
			return err
		}
	}
	return nil
}

func lastDim(shape []int64) int64 {
	if len(shape) == 0 {
		return 1
	}
	return shape[len(shape)-1]
}

// outFile is the path of a GGUF file that is to be written, whose directory is made.
func (o *Options) outFile() (string, error) {
	if err := os.MkdirAll(filepath.Dir(o.Out), 0o755); err != nil {
		return "", fmt.Errorf("convert: %w", err)
	}
	return o.Out, nil
}

// ggufInfos are tensors as a GGUF file's writer wants them.
func ggufInfos(tensors []*tensor) (infos []gguf.Info) {
	for _, t := range tensors {
		infos = append(infos, gguf.Info{Name: t.name, Type: t.to, Shape: t.shape})
	}
	return infos
}

// writeGGUF writes tensors and metadata.
func (o *Options) writeGGUF(ctx context.Context, tensors []*tensor, meta gguf.Metadata) (*Result, error) {
	path, err := o.outFile()
	if err != nil {
		return nil, err
	}
	w, err := gguf.Create(path, ggufInfos(tensors), meta, 0)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	r, err := o.pass(ctx, tensors, w.Write)
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	r.Files = w.Paths()
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return r, nil
}

// halves cuts the buffer into room for widened elements, a multiple of every block, and for what is made of them.
func (o *Options) halves() (wide []float32, out []byte) {
	n := len(o.Buffer) / 2 &^ 1023
	return arena.F32(o.Buffer[:n]), o.Buffer[n:]
}
