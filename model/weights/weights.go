// Package weights opens a model, whatever it is stored as, and reads its weights in the order in which programs want them: a Hugging
// Face directory (one safetensors file or many, of plain elements or quantised), the output directory of a training run, or a GGUF file
// (one or many).
//
//	Open ─▶ Config, Types ─▶ a plan of the programs ─▶ Source, State by State ─▶ Close
//
// A weight is a State of model.Config.Parameters. Where it lies in the files, under which name, turned or beside others, is worked out
// once, by Open, which also checks that every weight is there, of the right shape and of a type that can be read. Types says in which
// type Source hands a weight out: what the file has, so that its bytes pass through unchanged, or f32, widened on the way.
//
// Invariants: nothing here holds a weight; what passes through buffers is a few rows, of HeapBytes. The values of a GGUF file are those
// of the Hugging Face directory that it was made from: llama.cpp's order of rows in query and key projections is undone, whole rows at
// a time and so also in quantised ones, and so is what its converter adds to norms. What a file does not say is not guessed: an
// architecture, a scaling of rotary positions or a way of quantising that is not known is refused by its name.
//
// Quantised checkpoints of Hugging Face (GPTQ, AWQ, compressed-tensors, fp8, bitsandbytes' nf4) are handed out in groups of codes (quant.Group),
// of which every element has the value that the checkpoint's library gives it; what is not whole groups, and fp4, as f32, row by row, and
// Widened says so. GGUF's blocks are handed out as they are where tensor/dtype names them, and else as f32.
//
// It runs no program, and does not say what of a model fits where.
//
// Sources: convert_hf_to_gguf.py, gguf-py/gguf/constants.py and src/llama-model.cpp of llama.cpp; transformers' modeling files for the
// published names.
package weights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"loadline/internal/regular"
	"loadline/mem"
	"loadline/model"
	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/tensor/dtype"
)

// Names of files in a Hugging Face directory.
const (
	configName     = "config.json"
	generationName = "generation_config.json"
)

// ErrNone says that a path holds no model.
var ErrNone = errors.New("no model")

// Model is an open model. Its methods are for one goroutine.
type Model struct {
	Path   string       // of the directory, of a run its newest checkpoint; or of the GGUF file
	Config model.Config // with the tokens that end a text as config.json, generation_config.json or the GGUF file name them

	// Types is the type in which Source hands out each weight; one that is not named is handed out as f32. Open names matrices by the
	// types that the files have, and as i32 the order of a weight's inputs where it has one (model.OrderSuffix). A caller may delete names,
	// or put f32, f16 or bf16 in the place of another type, and then there is no order.
	Types map[string]dtype.Type

	files  store
	order  []*param
	named  map[string]*param
	orders map[string]*ordering
	tiles  tiles
	buffer [scratchBytes]byte
	wide   [scratchElems]float32
	window window
}

// store finds where published tensors are in the files of a model.
type store interface {
	place(c model.Piece) (placed, error)
	paths() []string
	Close() error
}

// Open opens the model at a path. The caller closes it.
func Open(path string) (*Model, error) {
	path, isGGUF, err := Find(path)
	if err != nil {
		return nil, err
	}
	m := &Model{Path: path, Types: map[string]dtype.Type{}, named: map[string]*param{}, orders: map[string]*ordering{}}
	if isGGUF {
		err = m.openGGUF()
	} else {
		err = m.openDirectory()
	}
	if err == nil {
		err = m.resolve()
	}
	if err != nil {
		if m.files != nil {
			m.files.Close() // read only; the first error says what is wrong
		}
		return nil, err
	}
	return m, nil
}

// OpenText opens a model for what its files say of texts: Special, Template, Sampling and Tokenizer. Weights are not looked for, and of an
// architecture that is not known Config is the zero value. The caller closes it.
func OpenText(path string) (*Model, error) {
	path, isGGUF, err := Find(path)
	if err != nil {
		return nil, err
	}
	m := &Model{Path: path}
	if isGGUF {
		err = m.openGGUF()
	} else {
		m.Config, err = directoryConfig(path)
	}
	if err != nil {
		m.Config = model.Config{}
	}
	if isGGUF && m.files == nil {
		return nil, err
	}
	return m, nil
}

// ReadConfig reads what Open's Config is, without the weights, and returns where the model is: Model.Path.
func ReadConfig(path string) (where string, c model.Config, err error) {
	path, isGGUF, err := Find(path)
	if err != nil {
		return "", c, err
	}
	if !isGGUF {
		c, err = directoryConfig(path)
		return path, c, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return "", c, fmt.Errorf("weights: %w", err)
	}
	defer f.Close() // read only
	c, err = ggufConfig(f)
	if err != nil {
		return "", c, fmt.Errorf("%w (in %s)", err, path)
	}
	return path, c, nil
}

// Find tells what a path means: a directory with config.json, or a GGUF file.
func Find(path string) (found string, isGGUF bool, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", false, fmt.Errorf("weights: %w", err)
	}
	if !st.IsDir() {
		if !IsGGUF(path) {
			return "", false, fmt.Errorf("weights: %s: want a directory or a GGUF file: %w", path, ErrNone)
		}
		return path, true, nil
	}
	if exists(filepath.Join(path, configName)) {
		return path, false, nil
	}
	if step, ok := newest(path); ok {
		return step, false, nil
	}
	names, err := filepath.Glob(filepath.Join(globEscape(path), "*.gguf"))
	if err != nil || len(names) == 0 {
		return "", false, fmt.Errorf("weights: %s holds neither %s nor a checkpoint nor a GGUF file: %w", path, configName, ErrNone)
	}
	if _, _, n, ok := gguf.SplitPath(names[0]); len(names) > 1 && !(ok && n == len(names)) {
		return "", false, fmt.Errorf("weights: %s holds %d GGUF files: want the path of one", path, len(names))
	}
	return names[0], true, nil
}

// globEscape keeps a path from being a pattern.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// newest finds the newest checkpoint of a training run, whose directories are named step-N.
func newest(run string) (dir string, ok bool) {
	names, err := os.ReadDir(run)
	if err != nil {
		return "", false
	}
	last := int64(-1)
	for _, n := range names {
		text, is := strings.CutPrefix(n.Name(), "step-")
		if step, err := strconv.ParseInt(text, 10, 64); is && err == nil && step > last && n.IsDir() && strconv.FormatInt(step, 10) == text {
			last, dir, ok = step, filepath.Join(run, n.Name()), true
		}
	}
	return dir, ok
}

// IsGGUF tells whether a file begins as a GGUF file does or is named as one. What is wrong with one that cannot be read, whoever reads
// it next says.
func IsGGUF(path string) bool {
	if strings.EqualFold(filepath.Ext(path), ".gguf") {
		return true
	}
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // read only
	var p [4]byte
	_, err = io.ReadFull(f, p[:])
	return err == nil && string(p[:]) == "GGUF"
}

// exists tells whether a name is there; where it leads nowhere, as links do into a cache that was emptied, opening it says so.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// directoryConfig reads config.json, and the tokens that end a text from generation_config.json too.
func directoryConfig(dir string) (model.Config, error) {
	c, err := readConfig(filepath.Join(dir, configName))
	if err != nil {
		return c, fmt.Errorf("weights: %w", err)
	}
	more, err := generationEnds(dir)
	if err != nil {
		return c, err
	}
	return c, addEnds(&c, more)
}

func (m *Model) openDirectory() error {
	var err error
	if m.Config, err = directoryConfig(m.Path); err != nil {
		return err
	}
	layout, err := readLayout(m.Path)
	if err != nil {
		return err
	}
	for _, name := range []string{safetensors.ModelName, safetensors.IndexName} {
		if exists(filepath.Join(m.Path, name)) {
			set, err := safetensors.OpenSet(filepath.Join(m.Path, name))
			if err != nil {
				return fmt.Errorf("weights: %w", err)
			}
			m.files = &published{dir: m.Path, set: set, layout: layout, tensors: map[string]*tensor{}}
			return nil
		}
	}
	return fmt.Errorf("weights: %s: %s is missing: %w", m.Path, safetensors.ModelName, fs.ErrNotExist)
}

func (m *Model) openGGUF() error {
	f, err := gguf.Open(m.Path)
	if err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	m.files = &ggufFile{f: f, tensors: map[string]*tensor{}}
	if m.Config, err = ggufConfig(f); err != nil {
		return fmt.Errorf("%w (in %s)", err, m.Path)
	}
	m.files.(*ggufFile).config = m.Config
	f.DropMeta() // a vocabulary is megabytes; Tokenizer reads it again
	return nil
}

// Files returns the paths of the files that hold the weights.
func (m *Model) Files() []string { return m.files.paths() }

// GGUF tells whether the model is a GGUF file.
func (m *Model) GGUF() bool {
	_, ok := m.files.(*ggufFile)
	return ok
}

// HeapBytes is what Source keeps on the Go heap while it reads, beyond what any model's does.
func (m *Model) HeapBytes() mem.Bytes { return mem.Bytes(m.tiles.bytes()) }

// Close closes the files.
func (m *Model) Close() error {
	if m.files == nil {
		return nil
	}
	if err := m.files.Close(); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	return nil
}
