package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"loadline/model/tokenizer"
	"loadline/model/weights"
)

// inspectTokenizer is a tokenizer, and what the files beside it say of its tokens: what generate and chat go by.
type inspectTokenizer struct {
	Kind     string         `json:"kind"`
	Tokens   int            `json:"tokens"`
	EOS      int32          `json:"eos"`                 // the first of Ends; −1 if there is none
	Ends     []inspectToken `json:"ends"`                // that end a text
	BOS      *inspectToken  `json:"bos"`                 // that begins a text; null if there is none
	AddsBOS  bool           `json:"adds_bos"`            // whether generate puts it before a prompt
	Template int            `json:"chat_template_bytes"` // 0 if there is none
}

type inspectToken struct {
	ID    int32  `json:"id"`
	Token string `json:"token"`
}

// String is the token for people.
func (t inspectToken) String() string { return fmt.Sprintf("%s (%d)", plain(t.Token), t.ID) }

// generationFile is the file that says how a model's makers would have tokens chosen.
const generationFile = "generation_config.json"

// readTokenizer reads a tokenizer; of a directory's the first.
func (d *inspectDocument) readTokenizer(path string) error {
	if d.Tokenizer != nil {
		return nil
	}
	t, err := weights.LoadTokenizer(path, 0)
	if err == nil {
		d.Tokenizer = &inspectTokenizer{Kind: t.String(), Tokens: t.VocabSize(), EOS: t.EOS(), Ends: []inspectToken{}}
		d.tokenizer = t
		d.Tokenizer.ends(t, nil)
	}
	return err
}

// ends lists the tokens that end a text: those of a model, or else the tokenizer's own.
func (x *inspectTokenizer) ends(t *tokenizer.Tokenizer, ids []int32) {
	if len(ids) == 0 && t.EOS() >= 0 {
		ids = []int32{t.EOS()}
	}
	x.EOS, x.Ends = -1, []inspectToken{}
	for _, id := range ids {
		x.Ends = append(x.Ends, inspectToken{id, t.Token(id)})
	}
	if len(ids) > 0 {
		x.EOS = ids[0]
	}
}

// speak adds what the files of the model at a path say of texts. What is wrong with them, generate and chat say.
func (d *inspectDocument) speak(path string) error {
	t := d.tokenizer
	if t == nil {
		return nil
	}
	m, err := weights.OpenText(path)
	if err != nil {
		return nil
	}
	x := d.Tokenizer
	special, known := m.Special(), m.Config.VocabSize > 0
	named := func(name string) int32 {
		if special[name] == "" {
			return -1
		}
		return t.ID(special[name])
	}
	ids := endings(m, t)
	if id := named("eos_token"); !known && id >= 0 {
		ids = []int32{id}
	}
	x.ends(t, ids)
	before, _ := t.Frame()
	x.AddsBOS = len(before) > 0
	if x.AddsBOS {
		x.BOS = &inspectToken{before[0], t.Token(before[0])}
	} else if id := named("bos_token"); id >= 0 {
		x.BOS = &inspectToken{id, special["bos_token"]}
	} else if id := m.Config.BOSTokenID; known && id >= 0 {
		x.BOS = &inspectToken{int32(id), t.Token(int32(id))}
	}
	text, _ := m.Template()
	x.Template = len(text)
	if err := m.Close(); err != nil || m.GGUF() { // whose metadata says how to sample
		return err
	}
	d.Generation, err = readJSON(filepath.Join(m.Path, generationFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// print writes it for people.
func (x *inspectTokenizer) print(w io.Writer) {
	fmt.Fprintf(w, "tokenizer: %s", plain(x.Kind))
	if x.BOS != nil {
		fmt.Fprintf(w, "; %v begins a text, and is %s before a prompt", x.BOS, map[bool]string{true: "put", false: "not put"}[x.AddsBOS])
	}
	if len(x.Ends) == 0 {
		fmt.Fprint(w, "; no token ends a text")
	} else {
		var ends []string
		for _, t := range x.Ends {
			ends = append(ends, t.String())
		}
		fmt.Fprintf(w, "; %s: %s", map[bool]string{true: "end of text", false: "ends of text"}[len(ends) == 1], strings.Join(ends, ", "))
	}
	fmt.Fprintln(w)
	if x.Template > 0 {
		fmt.Fprintf(w, "chat template: %d bytes\n", x.Template)
	}
}

// printObject writes the fields of a JSON object for people, under a title if there is one.
func printObject(w io.Writer, title string, text json.RawMessage) {
	var c map[string]any
	if len(text) == 0 || json.Unmarshal(text, &c) != nil {
		return
	}
	if title != "" {
		fmt.Fprintln(w, title)
	}
	for _, k := range slices.Sorted(maps.Keys(c)) {
		text, isText := c[k].(string)
		if !isText {
			v, err := json.Marshal(c[k])
			if err != nil {
				continue
			}
			text = string(v)
		}
		fmt.Fprintf(w, "  %s: %s\n", plain(k), plain(text))
	}
}
