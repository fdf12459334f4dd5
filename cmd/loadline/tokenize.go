package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"loadline/model/tokenizer"
	"loadline/train/checkpoint"
)

func (a *app) tokenizeCommand() *cobra.Command {
	var path string
	var decode, plain bool
	c := &cobra.Command{
		Use:   "tokenize --model PATH [FILE]",
		Short: "Turn text into token ids, or back",
		Long: `tokenize reads FILE, or stdin, byte for byte, and prints its token ids, separated by spaces. With --decode it reads ids
(numbers, a JSON list, or tokenize's own document) and prints their text. It needs tokenizer.json alone: neither tensors nor
an architecture that loadline knows.`,
		Example: `  loadline tokenize --model run book.txt
  echo -n "To be" | loadline tokenize --model run --json
  echo 51 78 220 | loadline tokenize --model run --decode`,
		Args: atMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			file := ""
			if len(args) == 1 {
				file = args[0]
			}
			return a.tokenize(path, file, decode, plain)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&path, "model", "", "model directory, --out of train, or tokenizer.json at `PATH`")
	f.BoolVar(&decode, "decode", false, "turn ids into text")
	f.BoolVar(&plain, "no-special", false, "neither add special tokens nor take their text for them")
	return c
}

// tokenize is the verb.
func (a *app) tokenize(path, file string, decode, plain bool) (err error) {
	if path == "" {
		return usage("--model DIR, where DIR holds tokenizer.json", "whose tokens? want --model PATH")
	}
	name, err := tokenizerPath(path)
	if err != nil {
		return err
	}
	t, err := tokenizer.Load(name)
	if err != nil {
		return err
	}
	in := a.in
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close() // read only
		in = f
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("tokenize: %w", err)
	}
	if decode {
		return a.decodeText(t, text)
	}
	ids := []int32{}
	if plain {
		ids = t.AppendEncodePlain(ids, text)
	} else {
		ids = t.AppendEncode(ids, text)
	}
	if a.json {
		return a.document(map[string]any{"ids": nonNil(ids)})
	}
	w := bufio.NewWriter(a.out)
	for i, id := range ids {
		if i > 0 {
			w.WriteByte(' ') // Flush returns the first error
		}
		w.WriteString(strconv.Itoa(int(id)))
	}
	w.WriteByte('\n')
	return w.Flush()
}

// decodeText prints the text of the ids in text.
func (a *app) decodeText(t *tokenizer.Tokenizer, text []byte) error {
	ids, err := readIDs(text)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id < 0 || int(id) >= t.VocabSize() {
			return advise(fmt.Errorf("id %d: the tokenizer has %d tokens", id, t.VocabSize()), "use the tokenizer that the ids are from")
		}
	}
	out := t.Decode(ids)
	if a.json {
		return a.document(map[string]any{"text": string(out)})
	}
	_, err = a.out.Write(out)
	return err
}

// readIDs reads numbers with anything of a list's punctuation between them, or a document with ids.
func readIDs(text []byte) ([]int32, error) {
	var doc struct {
		IDs []int32 `json:"ids"`
	}
	if json.Unmarshal(text, &doc) == nil {
		return doc.IDs, nil
	}
	var ids []int32
	for _, f := range bytes.FieldsFunc(text, func(r rune) bool { return r == '[' || r == ']' || r == ',' || r <= ' ' }) {
		n, err := strconv.ParseInt(string(f), 10, 32)
		if err != nil {
			return nil, advise(fmt.Errorf("%q is not a token id", f), "give whole numbers, separated by spaces")
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}

// tokenizerPath finds the tokenizer.json that a path means.
func tokenizerPath(path string) (string, error) {
	s, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", usage("check the path", "--model %s: there is no such file or directory", path)
	}
	if err != nil {
		return "", err
	}
	if !s.IsDir() {
		return path, nil
	}
	dirs := []string{path}
	if e, err := checkpoint.Latest(path); err == nil {
		dirs = append([]string{e.Path}, path)
	}
	for _, d := range dirs {
		if p := filepath.Join(d, checkpoint.TokenizerName); exists(p) {
			return p, nil
		}
	}
	return "", usage("name a directory with tokenizer.json", "--model %s: it has no tokenizer.json", path)
}
