package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"loadline/model/tokenizer"
	"loadline/model/weights"
)

func (a *app) tokenizeCommand() *cobra.Command {
	var path string
	var decode, plain bool
	c := &cobra.Command{
		Use:   "tokenize --model PATH [FILE]",
		Short: "Turn text into token ids, or back",
		Long: `tokenize reads FILE, or stdin, byte for byte, and prints its token ids, separated by spaces. With --decode it reads ids
(numbers, a JSON list, or tokenize's own document) and prints their text. It needs tokenizer.json, tokenizer.model or the
metadata of a GGUF file: neither tensors nor an architecture that loadline knows. What is not UTF-8 is read as the model's own
library reads it. FILE may be larger than memory; a word of more than a megabyte is cut.`,
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
	f.StringVar(&path, "model", "", "model directory, --out of train, tokenizer.json, tokenizer.model or GGUF file at `PATH`")
	f.BoolVar(&decode, "decode", false, "turn ids into text")
	f.BoolVar(&plain, "no-special", false, "neither add special tokens nor take their text for them; with --decode, leave them out")
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
	t, err := weights.LoadTokenizer(name, 0)
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
	if decode {
		text, err := io.ReadAll(in)
		if err != nil {
			return fmt.Errorf("tokenize: %w", err)
		}
		return a.decodeText(t, text, plain)
	}
	return a.encodeText(t, in, tokenizer.StreamOptions{Plain: plain, Replace: true, LongWord: longWord})
}

// longWord is the longest word that tokenize does not cut.
const longWord = 1 << 20

// encodeText prints the ids of a text as they come: a text may be larger than memory. Where it fails or is interrupted half-way, the
// document ends there and has the error in it.
func (a *app) encodeText(t *tokenizer.Tokenizer, in io.Reader, o tokenizer.StreamOptions) error {
	between, end := " ", "\n"
	w := bufio.NewWriter(a.out)
	text := &stoppable{context.Background(), in, nil}
	begin := func() {}
	if a.json {
		between, end = ",", "]}\n"
		begin = func() {
			ctx, _ := a.interruptible("ending the document") // until the process ends
			a.printing.Lock()
			defer a.printing.Unlock()
			text.ctx, a.printed = ctx, true
			w.WriteString(`{"ids":[`) // Flush returns the first error
		}
	}
	none := true
	emit := func(ids []int32) error {
		if len(ids) == 0 {
			return nil
		}
		if none {
			begin()
		}
		for _, id := range ids {
			if !none {
				w.WriteString(between)
			}
			none = false
			if _, err := w.Write(strconv.AppendInt(w.AvailableBuffer(), int64(id), 10)); err != nil {
				return err
			}
		}
		return nil
	}
	before, after := t.Frame()
	if o.Plain {
		before, after = nil, nil
	}
	err := emit(before)
	if err == nil {
		err = t.EncodeStream(text, o, emit)
	}
	if err == nil {
		err = emit(after)
	}
	if errors.Is(err, context.Canceled) {
		err = advise(errors.New("interrupted"), "the same command again")
	}
	if none {
		if err != nil {
			return err
		}
		begin()
	}
	if err != nil && a.json {
		fault, e := json.Marshal(errorDocument(err))
		if e != nil {
			return errors.Join(err, e)
		}
		end = "]," + string(fault[1:]) + "\n"
	}
	w.WriteString(end)
	return errors.Join(err, w.Flush())
}

// decodeText prints the text of the ids in text, that of special tokens left out if plain.
func (a *app) decodeText(t *tokenizer.Tokenizer, text []byte, plain bool) error {
	ids, err := readIDs(text)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id < 0 || int(id) >= t.VocabSize() {
			return advise(fmt.Errorf("id %d: the tokenizer has %d tokens", id, t.VocabSize()), "use the tokenizer that the ids are from")
		}
	}
	d := t.NewDecoder()
	if plain {
		d.SkipSpecial()
	}
	var out []byte
	for _, id := range ids {
		out = d.Append(out, id)
	}
	out = d.Flush(out)
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

// tokenizerPath finds the tokenizer.json, tokenizer.model or GGUF file that a path means.
func tokenizerPath(path string) (string, error) {
	name, err := weights.TokenizerPath(cachedModel(path))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", usage("check the path", "--model %s: there is no such file or directory", path)
	case errors.Is(err, weights.ErrNoTokenizer):
		return "", usage("name a directory with tokenizer.json", "--model %s: it has no tokenizer.json", path)
	}
	return name, err
}
