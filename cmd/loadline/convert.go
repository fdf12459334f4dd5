package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"loadline/internal/whole"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/model/convert"
	"loadline/model/hub"
)

// convertBufferBytes is what of the tensors is in memory at a time.
const convertBufferBytes = 16 * mem.MiB

func (a *app) convertCommand() *cobra.Command {
	var to choiceFlag
	var kind string
	to.choices = []string{convert.GGUF, convert.Safetensors}
	c := &cobra.Command{
		Use:   "convert IN OUT --to gguf|safetensors",
		Short: "Write a model in another format or another type",
		Long: `convert makes a GGUF file of a Hugging Face directory (safetensors, config.json, tokenizer.json or tokenizer.model), a directory of a GGUF
file, or changes the type of either's tensors. Tensors pass through a buffer of 16 MiB, however large the model is. Tokenizer, chat
template and configuration come along; a tokenizer is written only if it gives the same tokens.

Without --type tensors keep their types: what is quantised keeps its bytes from GGUF to GGUF, and is widened to f32 in safetensors.
With it, all matrices get that type (f32, f16, bf16; to GGUF also q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl, mxfp4, q2_k … q6_k, iq4_xs),
but where a row is no multiple of its block: those get what llama.cpp takes in its place. q3_k_s, q3_k_m, q3_k_l, q4_k_s, q4_k_m, q5_k_s
and q5_k_m are llama-quantize's mixtures, in which some matrices have more bits.`,
		Example: `  loadline convert run run.gguf --to gguf
  loadline convert run small.gguf --to gguf --type q8_0
  loadline convert model.gguf model-q4_k_m.gguf --to gguf --type q4_k_m
  loadline convert model.gguf model --to safetensors --type bf16`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("loadline convert IN OUT --to gguf", "want IN and OUT, got %s", count(len(args), "argument"))
			}
			if to.value == "" {
				return usage("--to gguf, or --to safetensors", "into which format? want --to")
			}
			return a.convert(convert.Options{In: args[0], Out: args[1], To: to.value, Type: kind})
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.Var(&to, "to", "format of OUT")
	f.StringVar(&kind, "type", "", "type of matrices, such as bf16, q8_0 or q4_k_m (default: as they are)")
	return c
}

// convertDocument is convert's document.
type convertDocument struct {
	Path    string          `json:"path"`
	Files   []string        `json:"files"`
	Tensors []convertTensor `json:"tensors"`
	Bytes   mem.Bytes       `json:"bytes"` // of all tensors
	Seconds float64         `json:"seconds"`
}

type convertTensor struct {
	Name  string    `json:"name"`
	From  string    `json:"from"`
	Type  string    `json:"type"`
	Bytes mem.Bytes `json:"bytes"`
}

// convert is the verb.
func (a *app) convert(o convert.Options) (err error) {
	if err := present("", o.In); err != nil {
		return err
	}
	if exists(o.Out) {
		return usage("give another OUT, or remove it", "%s: it exists", o.Out)
	}
	for _, path := range []string{o.Out, filepath.Clean(o.Out) + whole.Suffix} { // it is written under the other name first
		if err := (output{makes: true, replaces: true}).check("", path); err != nil && !exists(path) {
			return err
		}
	}
	var parts [mem.NumPurposes]mem.Bytes
	parts[mem.Staging] = convertBufferBytes
	buffer, err := arena.New(mem.NewLedger(mem.Limits{}), mem.Host, parts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, buffer.Close()) }()
	view := a.newPullView()
	o.Buffer, o.Say = buffer.Bytes(), view.say
	o.Progress = func(tensor string, done, all int64) {
		view.set(hub.Progress{File: tensor, Done: done, All: all, Fetched: done})
	}
	if err := o.Validate(); err != nil {
		return usage("loadline convert --help lists the types", "%v", err)
	}
	ctx, done := a.interruptible("stopping; nothing is left")
	defer done()
	r, err := convert.Run(ctx, o)
	view.close()
	if err != nil {
		return convertError(err)
	}
	d := &convertDocument{Path: o.Out, Files: nonNil(r.Files), Tensors: []convertTensor{}, Bytes: mem.Bytes(r.Bytes), Seconds: a.seconds()}
	for _, t := range r.Tensors {
		d.Tensors = append(d.Tensors, convertTensor{t.Name, t.From, t.To, mem.Bytes(t.Bytes)})
	}
	d.print(a)
	if a.json {
		return a.document(d)
	}
	return nil
}

// convertError adds what to do.
func convertError(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return advise(errors.New("interrupted"), "the same command again")
	case errors.Is(err, convert.ErrExists):
		return usage("give another OUT, or remove it", "%v", err)
	case errors.Is(err, whole.ErrBusy):
		return advise(err, "wait for the other one, or give another OUT")
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return advise(err, "free some space, or give an OUT on another disk")
	}
	return err
}

// print says what was written, by type.
func (d *convertDocument) print(a *app) {
	w := a.text()
	type kind struct{ from, to string }
	var order []kind
	tensors, bytes := map[kind]int{}, map[kind]mem.Bytes{}
	for _, t := range d.Tensors {
		k := kind{t.From, t.Type}
		if tensors[k] == 0 {
			order = append(order, k)
		}
		tensors[k]++
		bytes[k] += t.Bytes
	}
	rows := [][]string{{"from", "to", "tensors", "bytes"}}
	for _, k := range order {
		rows = append(rows, []string{k.from, k.to, grouped(int64(tensors[k])), bytes[k].String()})
	}
	table(w, rows)
	fmt.Fprintf(w, "%s: %s, %v of tensors, %.1f s\n", d.Path, count(len(d.Files), "file"), d.Bytes, d.Seconds)
}
