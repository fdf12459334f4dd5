package writers

import (
	"path/filepath"
	"strings"

	"loadline/planner/shape"
)

// hub is the model as from_pretrained takes it, and why: the user's path or repository, that of the built-in card, or a
// placeholder, where a repository of another name or in another format is needed. format is such as AWQ; empty for the
// model as its makers publish it.
func (j *Job) hub(format string) (name, why string) {
	s := j.Question.Shape
	switch {
	case j.File && filepath.Base(j.Model) == "config.json":
		return filepath.Dir(j.Model), "the directory of the planned model"
	case j.File:
		return j.Model, "the planned model"
	case strings.Contains(j.Model, "/"):
		return j.Model, "the planned model"
	case format == "" && s.Hub != "" && (shape.SameName(j.Model, s.Name) || shape.SameName(j.Model, s.Hub)):
		return s.Hub, "the planned model, on the Hugging Face hub"
	case format != "":
		return "ORG/" + word(j.Model) + "-" + format, "PLACEHOLDER: put a repository or directory here that holds the model in " + format
	case s.Hub != "":
		return "ORG/" + word(j.Model), "PLACEHOLDER: put its repository or directory here; it is planned with the dimensions of " + s.Hub
	}
	return "ORG/" + word(j.Model), "PLACEHOLDER: put its repository or directory here"
}

// word makes a part of a repository's name.
func word(s string) string { return strings.Join(strings.Fields(s), "-") }

// weights sets the variable of a script that holds the model.
func (j *Job) weights() Setting {
	format := ""
	if j.Plan.Config.Quant == "awq-int4" {
		format = "AWQ"
	}
	name, why := j.hub(format)
	return Setting{"model", quote(name), why}
}

// gguf is weights of llama.cpp, which takes files of its own format.
func (j *Job) gguf() Setting {
	if j.File && strings.HasSuffix(strings.ToLower(j.Model), ".gguf") {
		return Setting{"model", quote(j.Model), "the planned model"}
	}
	name := word(filepath.Base(j.Model))
	if j.File {
		name = word(j.Question.Shape.Name)
	}
	format := strings.ToUpper(j.Plan.Config.Quant)
	return Setting{"model", quote("./" + name + "-" + format + ".gguf"), "PLACEHOLDER: put a GGUF file here that holds the model in " + format}
}

// quote makes one word of a shell's command line.
func quote(s string) string {
	out := []byte{'\''}
	for _, b := range []byte(s) {
		if b == '\'' {
			out = append(out, `'\''`...)
			continue
		}
		out = append(out, b)
	}
	return string(append(out, '\''))
}
