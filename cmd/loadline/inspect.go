package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"loadline/internal/regular"
	"loadline/mem"
	"loadline/model"
	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/model/tokenizer"
	"loadline/model/weights"
	"loadline/train/checkpoint"
)

func (a *app) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect PATH",
		Short: "Tell what is in a model, a checkpoint or a file",
		Long: `inspect reads headers alone: the tensors of a GGUF or safetensors file, or of all in a directory, with types, shapes and bytes, the
configuration, metadata, the tokenizer, and where a training run stands. The architecture need not be one that loadline knows.`,
		Example: `  loadline inspect run
  loadline inspect run/step-100/model.safetensors
  loadline inspect model-q4_k_m.gguf --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("loadline inspect run", "want one PATH, got %d", len(args))
			}
			return a.inspect(args[0])
		},
	}
}

// inspectDocument is inspect's document.
type inspectDocument struct {
	Path       string            `json:"path"`
	Files      []string          `json:"files"`
	Config     json.RawMessage   `json:"config"` // config.json as it is, or what a GGUF file says in its place; null if there is none or the architecture is not known
	Parameters int64             `json:"parameters"`
	Bytes      mem.Bytes         `json:"bytes"` // of all tensors
	Types      []inspectType     `json:"types"` // of tensors, in order of first use
	Tensors    []inspectTensor   `json:"tensors"`
	Metadata   map[string]string `json:"metadata"`          // of a long list only its type and length
	Tokenizer  *inspectTokenizer `json:"tokenizer"`         // null if there is none
	Generation json.RawMessage   `json:"generation_config"` // as it is; null if there is none
	Training   *inspectTraining  `json:"training"`          // null if it is no checkpoint of a run

	tokenizer *tokenizer.Tokenizer
}

type inspectTensor struct {
	Name  string    `json:"name"`
	Type  string    `json:"type"`
	Shape []int64   `json:"shape"`
	Bytes mem.Bytes `json:"bytes"`
	File  string    `json:"file"`
}

// inspectType is how much of a model is of one type.
type inspectType struct {
	Type    string    `json:"type"`
	Tensors int       `json:"tensors"`
	Bytes   mem.Bytes `json:"bytes"`
}

type inspectTraining struct {
	Step      int64     `json:"step"`
	Ranks     int       `json:"ranks"`
	Kernels   string    `json:"kernels"` // that computed it; empty where it is not known
	LastLoss  float32   `json:"last_loss"`
	ValLosses []float32 `json:"val_losses"`
}

// inspect is the verb.
func (a *app) inspect(path string) error {
	path = cachedModel(path)
	s, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return absentModel("", path)
	}
	if err != nil {
		return err
	}
	d := &inspectDocument{Path: path, Files: []string{}, Types: []inspectType{}, Tensors: []inspectTensor{}, Metadata: map[string]string{}}
	if s.IsDir() {
		err = d.directory(path)
	} else {
		err = d.file(path)
	}
	if errors.Is(err, errUnknownFile) {
		return usage("name one of these, the directory of a model, or an --out of loadline train", "%v", err)
	}
	if err != nil {
		return err
	}
	d.print(a)
	if a.json {
		return a.document(d)
	}
	return nil
}

// directory reads what a directory holds; of a run, its newest checkpoint.
func (d *inspectDocument) directory(path string) error {
	if !exists(filepath.Join(path, checkpoint.ConfigName)) {
		if e, err := checkpoint.Latest(path); err == nil {
			path = e.Path
		}
	}
	d.Path = path
	names, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := d.file(filepath.Join(path, n.Name())); err != nil && !errors.Is(err, errUnknownFile) {
			return err
		}
	}
	if len(d.Files) == 0 {
		return usage("name a directory with config.json, *.safetensors or *.gguf, or an --out of loadline train", "%s: it holds no model", path)
	}
	return d.speak(path)
}

// errUnknownFile says that a file is none that inspect reads.
var errUnknownFile = errors.New("want a .safetensors or .gguf file, config.json, tokenizer.json, tokenizer.model or trainer.json")

// file reads one file.
func (d *inspectDocument) file(path string) (err error) {
	name := filepath.Base(path)
	switch {
	case strings.HasPrefix(name, "state-rank-") && strings.HasSuffix(name, ".safetensors") && filepath.Clean(d.Path) != filepath.Clean(path):
		return errUnknownFile // the optimizer's, shown only where it is asked for
	case strings.HasSuffix(name, ".safetensors"):
		err = d.tensors(path, name)
	case name == checkpoint.ConfigName:
		d.Config, err = readJSON(path)
	case weights.IsGGUF(path):
		err = d.gguf(path)
		return err
	case name == checkpoint.TokenizerName, name == "tokenizer.model":
		err = d.readTokenizer(path)
	case name == checkpoint.TrainerName:
		err = d.training(filepath.Dir(path))
	default:
		return fmt.Errorf("%s: %w", path, errUnknownFile)
	}
	if err == nil {
		d.Files = append(d.Files, name)
	}
	return err
}

// maxConfigBytes is the longest config.json, and the longest file of --config, that is read.
const maxConfigBytes = 1 << 20

func readJSON(path string) (json.RawMessage, error) {
	text, err := regular.ReadAll(path, maxConfigBytes)
	if err == nil && (!json.Valid(text) || !utf8.Valid(text)) {
		err = fmt.Errorf("%s: it is not JSON", path)
	}
	return text, err
}

func (d *inspectDocument) tensors(path, name string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	for _, t := range f.Tensors() {
		d.tensor(inspectTensor{t.Name, string(t.DType), nonNil(slices.Clone(t.Shape)), mem.Bytes(t.Bytes), name})
		d.Parameters += t.Bytes / t.DType.Bytes()
	}
	for k, v := range f.Metadata() {
		d.Metadata[k] = v
	}
	return f.Close()
}

// tensor lists a tensor.
func (d *inspectDocument) tensor(t inspectTensor) {
	d.Tensors = append(d.Tensors, t)
	d.Bytes += t.Bytes
	i := slices.IndexFunc(d.Types, func(x inspectType) bool { return x.Type == t.Type })
	if i < 0 {
		i = len(d.Types)
		d.Types = append(d.Types, inspectType{Type: t.Type})
	}
	d.Types[i].Tensors++
	d.Types[i].Bytes += t.Bytes
}

// gguf reads a GGUF file, or all of a model in several. Of a vocabulary or an architecture that loadline does not know it says nothing.
func (d *inspectDocument) gguf(path string) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	if prefix, i, n, ok := gguf.SplitPath(path); ok && i > 0 && slices.Contains(d.Files, filepath.Base(gguf.SplitName(prefix, 0, n))) {
		return nil // with the first
	}
	names := f.Paths()
	for i, p := range names {
		names[i] = filepath.Base(p)
		d.Files = append(d.Files, names[i])
	}
	for _, t := range f.Tensors() {
		d.tensor(inspectTensor{t.Name, t.Type.String(), nonNil(slices.Clone(t.Shape)), mem.Bytes(t.Bytes), names[t.File]})
		d.Parameters += t.Elems()
	}
	for _, kv := range f.Meta() {
		d.Metadata[kv.Key] = metadataText(kv.Value)
	}
	if _, c, err := weights.ReadConfig(path); err == nil {
		if d.Config, err = model.EncodeConfig(c); err != nil {
			return err
		}
	}
	if _, ok := f.Meta().Get("tokenizer.ggml.model"); ok {
		if d.readTokenizer(path) == nil { // the metadata shows it all the same
			return d.speak(path)
		}
	}
	return nil
}

// maxMetadataText is the longest list that is shown.
const maxMetadataText = 200

// metadataText is a value of a GGUF file's metadata; of a long list its type and length.
func metadataText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	if s := fmt.Sprint(v); len(s) <= maxMetadataText {
		return s
	}
	return gguf.TypeName(v)
}

func (d *inspectDocument) training(dir string) error {
	s, err := checkpoint.ReadState(dir)
	if err != nil {
		return err
	}
	d.Training = &inspectTraining{Step: s.Step, Ranks: s.Ranks, Kernels: s.Kernels, ValLosses: []float32{}}
	if n := len(s.Losses); n > 0 {
		d.Training.LastLoss = s.Losses[n-1]
	}
	for _, v := range s.ValLosses {
		d.Training.ValLosses = append(d.Training.ValLosses, v.Loss)
	}
	return nil
}

// print writes the document for people.
func (d *inspectDocument) print(a *app) {
	w := a.text()
	fmt.Fprintf(w, "%s: %s\n", plain(d.Path), plain(strings.Join(d.Files, ", ")))
	printObject(w, "", d.Config)
	for _, k := range slices.Sorted(maps.Keys(d.Metadata)) {
		v := plain(d.Metadata[k])
		if len(v) > maxMetadataText {
			v = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(v[:maxMetadataText/2], ""), len(v))
		}
		fmt.Fprintf(w, "  %s: %s\n", plain(k), v)
	}
	if len(d.Tensors) > 0 {
		rows := [][]string{{"tensor", "type", "shape", "bytes"}}
		for _, t := range d.Tensors {
			var dims []string
			for _, n := range t.Shape {
				dims = append(dims, strconv.FormatInt(n, 10))
			}
			rows = append(rows, []string{plain(t.Name), t.Type, strings.Join(dims, "×"), t.Bytes.String()})
		}
		table(w, rows)
		var types []string
		for _, t := range d.Types {
			types = append(types, fmt.Sprintf("%v in %s of %s", t.Bytes, count(t.Tensors, "tensor"), t.Type))
		}
		fmt.Fprintf(w, "%d tensors, %s parameters, %v: %s\n", len(d.Tensors), grouped(d.Parameters), d.Bytes, strings.Join(types, ", "))
	}
	if t := d.Tokenizer; t != nil {
		t.print(w)
		printObject(w, generationFile+":", d.Generation)
	}
	if t := d.Training; t != nil {
		by := count(t.Ranks, "rank")
		if t.Kernels != "" {
			by += " with " + plain(t.Kernels) + " kernels"
		}
		fmt.Fprintf(w, "training: step %d, loss %.4f, written by %s\n", t.Step, t.LastLoss, by)
	}
}
