package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"loadline/internal/regular"
	"loadline/model"
	"loadline/model/weights"
	"loadline/planner/frameworks"
	"loadline/planner/search"
	"loadline/planner/shape"
	"loadline/train/checkpoint"
)

// planModel is a model as the planner sees it.
type planModel struct {
	Name   string // as the user gave it
	File   bool   // Name is a path
	Shape  *shape.Shape
	Stored *frameworks.Quant // how the weights of a file are; nil where none says so, or they are whole
	// Weights says what the files beside a config.json hold; empty without any.
	Weights string
}

// takeModel makes an argument of the command line --model.
func (t *trainFlags) takeModel(args []string) error {
	if len(args) == 0 {
		return nil
	}
	if t.model != "" {
		return usage("give one of them", "the model is %q and also --model %s", args[0], t.model)
	}
	t.model = args[0]
	return nil
}

// loadCards reads the built-in models.
func loadCards() (*shape.Cards, error) { return shape.Load() }

// planModel finds the model: a path of a GGUF file, a config.json or its directory, the name of a built-in card, or a preset.
func (t *trainFlags) planModel() (*planModel, error) {
	name := t.model
	switch {
	case t.preset != "" && name != "":
		return nil, usage("give one of them", "there is --preset %s and also --model %s", t.preset, name)
	case t.preset != "":
		return presetModel(t.preset)
	case name == "":
		return nil, usage("loadline plan llama-3.1-8b --hardware RTX-4090; --list models shows the built-in ones",
			"which model? want a built-in name, a config.json or its directory, or a GGUF file")
	case exists(name):
		return fileModel(name)
	}
	cards, err := loadCards()
	if err != nil {
		return nil, err
	}
	if s, ok := cards.ByName(name); ok {
		return &planModel{Name: name, Shape: s}, nil
	}
	if _, _, err := model.Preset(name); err == nil {
		return presetModel(name)
	}
	if dir := cachedModel(name); dir != name {
		return fileModel(dir)
	}
	near := cards.Nearest(name)
	return nil, usage("loadline plan --list models, or check the path", "there is no model and no file %s; the nearest built-in model is %s", name, near)
}

// presetModel is one of our own presets.
func presetModel(name string) (*planModel, error) {
	config, _, err := model.Preset(name)
	if err != nil {
		return nil, usage(didYouMean(name, model.Presets(), "--preset ", "loadline train --preset list"),
			"there is no preset %q: want %s", name, orList(model.Presets()))
	}
	body, err := model.EncodeConfig(config)
	if err != nil {
		return nil, err
	}
	s, err := shape.Parse(name, body)
	return &planModel{Name: name, Shape: s}, err
}

// fileModel reads a model from the disk.
func fileModel(path string) (*planModel, error) {
	file := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		found, isGGUF, err := weights.Find(path)
		if err != nil {
			return nil, usage("name a config.json or its directory, or a GGUF file", "%s: it holds neither %s nor a checkpoint", path, checkpoint.ConfigName)
		}
		if file = found; !isGGUF {
			file = filepath.Join(found, checkpoint.ConfigName)
		}
	}
	f, err := regular.Open(file)
	if err != nil {
		return nil, err
	}
	m, err := readModel(path, file, f)
	if err != nil {
		return nil, advise(errors.Join(err, f.Close()), "name a config.json or its directory, or a GGUF file")
	}
	return m, f.Close()
}

// readModel reads what the beginning of a file says it is.
func readModel(name, path string, f *os.File) (*planModel, error) {
	magic := make([]byte, 4)
	if n, err := f.ReadAt(magic, 0); err == nil && n == 4 && string(magic) == "GGUF" || strings.HasSuffix(strings.ToLower(path), ".gguf") {
		g, err := shape.ReadGGUF(name, f)
		if err != nil {
			return nil, err
		}
		return &planModel{Name: name, File: true, Shape: g.Shape, Stored: search.Stored(g)}, nil
	}
	body, err := regular.ReadAll(path, shape.MaxConfigBytes)
	if err != nil {
		return nil, err
	}
	title := filepath.Base(name)
	if title == checkpoint.ConfigName || title == "." {
		if at, err := filepath.Abs(path); err == nil {
			title = filepath.Base(filepath.Dir(at))
		}
	}
	s, err := shape.Parse(title, body)
	if err != nil {
		return nil, err
	}
	m := &planModel{Name: name, File: true, Shape: s}
	return m, m.besides(filepath.Dir(path), body)
}

// checkRegular refuses a path that is there and is no regular file.
func checkRegular(path string) error {
	f, err := regular.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%w", err)
	}
	return f.Close()
}
