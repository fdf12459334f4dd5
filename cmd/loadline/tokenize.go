package main

import (
	"bufio"
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
		return usage("--model PATH, where PATH is a tokenizer.json, a GGUF file or the directory of a model", "whose tokens? want --model PATH")
	}
	name, err := tokenizerPath(path)
	if err != nil {
		return err
	}
	fromFile := file != "" && file != "-"
	if fromFile {
		if err := present("", file); err != nil {
			return err
		}
	}
	t, err := weights.LoadTokenizer(name, 0)
	if err != nil {
		return err
	}
	in := a.in
	if fromFile {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close() // read only
		in = f
	}
	if decode {
		return a.decodeText(t, in, plain)
	}
	return a.encodeText(t, in, tokenizer.StreamOptions{Plain: plain, Replace: true, LongWord: longWord})
}

// longWord is the longest word that tokenize does not cut.
const longWord = 1 << 20

// encodeText prints the ids of a text as they come: a text may be larger than memory.
func (a *app) encodeText(t *tokenizer.Tokenizer, in io.Reader, o tokenizer.StreamOptions) error {
	d := a.newLongDocument(in, `{"ids":[`, "]", "\n")
	between := " "
	if a.json {
		between = ","
	}
	emit := func(ids []int32) error {
		for _, id := range ids {
			if d.begun {
				d.w.WriteString(between) // Flush returns the first error
			}
			d.begin()
			if _, err := d.w.Write(strconv.AppendInt(d.w.AvailableBuffer(), int64(id), 10)); err != nil {
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
		err = t.EncodeStream(d.in, o, emit)
	}
	if err == nil {
		err = emit(after)
	}
	return d.end(err)
}

// decodeText prints the text of ids as they come, that of special tokens left out if plain.
func (a *app) decodeText(t *tokenizer.Tokenizer, in io.Reader, plain bool) error {
	d := a.newLongDocument(in, `{"text":"`, `"`, "")
	decoder := t.NewDecoder()
	if plain {
		decoder.SkipSpecial()
	}
	var text []byte
	emit := func() error {
		d.begin()
		if a.json { // whole characters, so that the pieces are escaped as all of it would be
			quoted, err := json.Marshal(string(text))
			if err != nil {
				return err
			}
			text = append(text[:0], quoted[1:len(quoted)-1]...)
		}
		_, err := d.w.Write(text)
		text = text[:0]
		return err
	}
	err := readIDs(d.in, func(id int32) error {
		if id < 0 || int(id) >= t.VocabSize() {
			return advise(fmt.Errorf("id %d: the tokenizer has %d tokens", id, t.VocabSize()), "use the tokenizer that the ids are from")
		}
		if text = decoder.Append(text, id); len(text) < decodeBytes {
			return nil
		}
		return emit()
	})
	if err == nil || d.begun {
		text = decoder.Flush(text)
		err = errors.Join(err, emit())
	}
	return d.end(err)
}

// decodeBytes is how much text is printed at a time.
const decodeBytes = 4 << 10

// longDocument prints a document that comes piece by piece, since it may be larger than memory. Where it fails or is interrupted half-way,
// the document ends there and has the error in it.
type longDocument struct {
	a                *app
	w                *bufio.Writer
	in               *stoppable // what is read for it
	head, tail, last string     // around the pieces: of the document, and without one behind them
	begun            bool
}

func (a *app) newLongDocument(in io.Reader, head, tail, last string) *longDocument {
	return &longDocument{a: a, w: bufio.NewWriter(a.out), in: &stoppable{context.Background(), in, nil}, head: head, tail: tail, last: last}
}

// begin prints what is before the first piece. From then on an interrupt ends the document, and the process with it.
func (d *longDocument) begin() {
	if d.begun {
		return
	}
	if d.begun = true; !d.a.json {
		return
	}
	ctx, _ := d.a.interruptible("ending the document") // until the process ends
	d.a.printing.Lock()
	defer d.a.printing.Unlock()
	d.in.ctx, d.a.printed = ctx, true
	d.w.WriteString(d.head) // Flush returns the first error
}

// end prints what is behind the last piece, and returns err.
func (d *longDocument) end(err error) error {
	if errors.Is(err, context.Canceled) {
		err = advise(errors.New("interrupted"), "the same command again")
	}
	if err != nil && !d.begun {
		return err
	}
	d.begin()
	end := d.last
	if d.a.json {
		end = d.tail + "}\n"
	}
	if err != nil && d.a.json {
		fault, e := json.Marshal(errorDocument(err))
		if e != nil {
			return errors.Join(err, e)
		}
		end = d.tail + "," + string(fault[1:]) + "\n"
	}
	d.w.WriteString(end)
	return errors.Join(err, d.w.Flush())
}

// tokenizerPath finds the tokenizer.json, tokenizer.model or GGUF file that a path means.
func tokenizerPath(path string) (string, error) {
	name, err := weights.TokenizerPath(cachedModel(path))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", absentModel("--model", path)
	case errors.Is(err, weights.ErrNoTokenizer):
		return "", usage("name a directory with tokenizer.json", "--model %s: it has no tokenizer.json", path)
	}
	return name, err
}
