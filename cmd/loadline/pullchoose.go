package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"loadline/mem"
	"loadline/model/gguf"
	"loadline/model/hub"
	"loadline/model/safetensors"
)

// chooseFiles keeps the files of a listing that are to be fetched, and returns which of them is the model: empty where the directory is.
func chooseFiles(l *hub.Listing, n hub.Name, f *pullFlags, say func(line string)) (main string, err error) {
	all, allBytes := slices.Clone(l.Files), l.Bytes()
	include := f.include
	if n.File != "" {
		include = []string{hub.Exactly(n.File)}
	}
	if err := l.Select(include, f.exclude); err != nil {
		return "", err
	}
	if len(include) == 0 {
		if err := readable(l); err != nil {
			return "", err
		}
		if k := len(all) - len(l.Files); k > 0 && len(f.exclude) == 0 && len(l.Files) > 0 {
			text := count(k, "file")
			if n := l.Bytes(); n >= 0 && allBytes >= 0 {
				text += fmt.Sprintf(" of %v", mem.Bytes(allBytes-n))
			}
			say("left out " + text + " that loadline does not read or need; --include '*' takes all")
		}
	}
	if len(l.Files) == 0 {
		if n.File != "" {
			return "", usage("check the address", "%s has no file %s", l.Repo, n.File)
		}
		if len(all) == 0 {
			return "", usage("check the name and --revision", "%s has no files", l.Repo)
		}
		return "", usage("one of "+someNames(all), "none of the %s of %s is chosen", count(len(all), "file"), l.Repo)
	}
	if n.File != "" {
		return n.File, nil
	}
	if sets := ggufSets(l.Files); len(sets) == 1 && !slices.ContainsFunc(l.Files, isSafetensors) {
		return sets[0].first, nil
	}
	return "", nil
}

// readable keeps what loadline reads: one set of weights, and the small files beside them.
func readable(l *hub.Listing) error {
	files := slices.DeleteFunc(slices.Clone(l.Files), func(f hub.File) bool { return !isBeside(f.Name) })
	weights := slices.DeleteFunc(slices.Clone(l.Files), func(f hub.File) bool { return !isSafetensors(f) })
	whole := func(f hub.File) bool { return f.Name == safetensors.ModelName || f.Name == safetensors.IndexName }
	if slices.ContainsFunc(l.Files, whole) { // others, such as consolidated.safetensors, are the same weights again
		weights = slices.DeleteFunc(weights, func(f hub.File) bool { return !strings.HasPrefix(f.Name, "model") })
	}
	if len(weights) == 0 {
		sets := ggufSets(l.Files)
		if len(sets) > 1 {
			var names []string
			for _, s := range sets {
				names = append(names, s.String())
			}
			return usage("--include '*"+hint(sets)+"*'", "%s has %d models in GGUF: %s", l.Repo, len(sets), shortList(names))
		}
		for _, s := range sets {
			weights = append(weights, s.files...)
		}
	}
	if len(weights) == 0 && slices.ContainsFunc(l.Files, func(f hub.File) bool { return isForeign(f.Name) }) {
		return usage("--include '*' fetches it as it is; look for a repository with safetensors or GGUF", "%s has weights in formats that loadline does not read", l.Repo)
	}
	l.Files = append(files, weights...)
	slices.SortFunc(l.Files, func(a, b hub.File) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// isSafetensors tells whether a file is weights of the model itself: at the top of its directory.
func isSafetensors(f hub.File) bool {
	return strings.HasSuffix(f.Name, ".safetensors") && !strings.Contains(f.Name, "/") && !strings.HasPrefix(f.Name, "adapter_")
}

// isBeside tells whether a file is one of those beside weights that are read, or that people read.
func isBeside(name string) bool {
	if strings.Contains(name, "/") {
		return false
	}
	switch path.Ext(name) {
	case ".json", ".jinja", ".txt", ".md":
		return true
	case ".model":
		return name == "tokenizer.model"
	}
	return strings.HasPrefix(name, "LICENSE")
}

// isForeign tells whether a file is weights in another format.
func isForeign(name string) bool {
	return slices.Contains([]string{".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".ot", ".tflite", ".nemo"}, path.Ext(name))
}

// ggufSet is one model in GGUF: a file, or the parts of a split one.
type ggufSet struct {
	first string
	files []hub.File
}

// String is its name and its size, if that is known.
func (s *ggufSet) String() string {
	n := int64(0)
	for _, f := range s.files {
		if f.Bytes < 0 {
			return s.first
		}
		n += f.Bytes
	}
	return fmt.Sprintf("%s (%v)", s.first, mem.Bytes(n))
}

// ggufSets are the models in GGUF among files, in order of their names; what only helps one, such as a projector, is left out.
func ggufSets(files []hub.File) (sets []ggufSet) {
	at := map[string]int{}
	for _, f := range files {
		base := strings.ToLower(path.Base(f.Name))
		if !strings.HasSuffix(f.Name, ".gguf") || strings.HasPrefix(base, "mmproj") || strings.Contains(base, "imatrix") {
			continue
		}
		key := f.Name
		if prefix, _, n, ok := gguf.SplitPath(f.Name); ok {
			key = gguf.SplitName(prefix, 0, n)
		}
		i, ok := at[key]
		if !ok {
			i = len(sets)
			at[key] = i
			sets = append(sets, ggufSet{first: f.Name})
		}
		sets[i].files = append(sets[i].files, f)
	}
	return sets
}

// hint is what to write for one of several models: a usual type if one of them is of it, else the name of the first.
func hint(sets []ggufSet) string {
	for _, kind := range []string{"Q4_K_M", "q4_k_m", "Q8_0", "q8_0", "Q4_0"} {
		n := 0
		for _, s := range sets {
			if strings.Contains(s.first, kind) {
				n++
			}
		}
		if n == 1 {
			return kind
		}
	}
	return strings.TrimSuffix(sets[0].first, ".gguf")
}

// someNames is a few names of files.
func someNames(files []hub.File) string {
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	return shortList(names)
}

// shortList joins the first of some names.
func shortList(names []string) string {
	const most = 8
	if len(names) == 0 {
		return "none: there are no files"
	}
	s := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		s += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return s
}
