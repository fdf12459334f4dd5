package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"loadline/model/gguf"
	"loadline/model/weights"
	"loadline/tensor/quant"
)

// vocabularyOf is the metadata of the tokenizer in a tokenizer.json that train has written.
func vocabularyOf(t *testing.T, path string) gguf.Metadata {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Added []struct {
			ID      int
			Content string
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int
			Merges [][2]string
		}
	}
	if err := json.Unmarshal(p, &f); err != nil {
		t.Fatal(err)
	}
	tokens := make([]string, len(f.Model.Vocab))
	types := make([]int32, len(tokens))
	for s, id := range f.Model.Vocab {
		tokens[id], types[id] = s, 1
	}
	m := gguf.Metadata{}
	for _, a := range f.Added {
		types[a.ID] = 3
		m.Set("tokenizer.ggml.eos_token_id", uint32(a.ID))
	}
	var merges []string
	for _, x := range f.Model.Merges {
		merges = append(merges, x[0]+" "+x[1])
	}
	m.Set("tokenizer.ggml.model", "gpt2")
	m.Set("tokenizer.ggml.pre", "gpt-2")
	m.Set("tokenizer.ggml.tokens", tokens)
	m.Set("tokenizer.ggml.token_type", types)
	m.Set("tokenizer.ggml.merges", merges)
	m.Set("tokenizer.chat_template", "{{ messages[0].content }}")
	return m
}

// ggufOf writes a Llama that train has written as a GGUF file, its matrices in a type.
func ggufOf(t *testing.T, dir string, typ quant.Type) string {
	t.Helper()
	from, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	c := from.Config
	meta := append(gguf.Metadata{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(c.NumLayers)}, {Key: "llama.context_length", Value: uint32(c.MaxPositionEmbeddings)},
		{Key: "llama.embedding_length", Value: uint32(c.HiddenSize)}, {Key: "llama.feed_forward_length", Value: uint32(c.IntermediateSize)},
		{Key: "llama.attention.head_count", Value: uint32(c.NumHeads)}, {Key: "llama.attention.head_count_kv", Value: uint32(c.NumKVHeads)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(c.RMSNormEps)}, {Key: "llama.rope.freq_base", Value: float32(c.RopeTheta)},
	}, vocabularyOf(t, filepath.Join(from.Path, "tokenizer.json"))...)
	var infos []gguf.Info
	var data [][]byte
	for _, p := range c.Parameters() {
		at, err := weights.PlaceInGGUF(c, p.Pieces[0])
		if err != nil {
			t.Fatal(err)
		}
		wide := make([]byte, 4*p.Elems())
		if err := from.ReadAt(p.Name, 0, wide); err != nil {
			t.Fatal(err)
		}
		x := make([]float32, p.Elems())
		quant.Decode(x, quant.F32, wide)
		i := gguf.Info{Name: at.Name, Type: quant.F32}
		for _, d := range p.Pieces[0].Shape {
			i.Shape = append(i.Shape, int64(d))
		}
		cols := int(i.Shape[len(i.Shape)-1])
		if len(i.Shape) == 2 {
			i.Type = typ
		}
		if at.Turn > 0 {
			turned := make([]float32, len(x))
			for r := range len(x) / cols {
				copy(turned[weights.Turn(r, at.Turn)*cols:][:cols], x[r*cols:])
			}
			x = turned
		}
		n, _ := i.Type.Bytes(int64(len(x)))
		b := make([]byte, n)
		if err := quant.Encode(b, i.Type, x); err != nil {
			t.Fatal(err)
		}
		infos, data = append(infos, i), append(data, b)
	}
	path := filepath.Join(t.TempDir(), typ.String()+".gguf")
	w, err := gguf.Create(path, infos, meta, 0)
	if err != nil {
		t.Fatal(err)
	}
	for k, i := range infos {
		if err := w.Write(i.Name, data[k]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// useGGUF uses a trained model as GGUF files: in F32 it says the same, in fewer bits it takes less memory, its plan is kept, and training
// goes on from it.
func useGGUF(t *testing.T, out string, args []string, want *generateDocument) {
	t.Helper()
	peak := want.ByPurpose["weights"].Ledger
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.Q4_0} {
		path := ggufOf(t, out, typ)
		var g generateDocument
		args := slices.Clone(args)
		args[2] = path
		document(t, &g, codeDone, args...)
		checkMemory(t, "generate "+typ.String(), g.memoryReport)
		n := g.ByPurpose["weights"].Ledger
		if typ == quant.F32 {
			if !slices.Equal(g.TokenIDs, want.TokenIDs) || g.Text != want.Text || n != peak {
				t.Errorf("GGUF: got %q and %v of weights, want %q and %v", g.Text, n, want.Text, peak)
			}
		} else if len(g.TokenIDs) == 0 || n >= peak {
			t.Errorf("%v: got %d tokens, %v of weights, want less than %v", typ, len(g.TokenIDs), n, peak)
		}
		peak = n
		var plan planDocument
		document(t, &plan, codeDone, "plan", path, "--context", fmt.Sprint(g.Context), "--memory", "64MiB")
		if plan.Plans[0].Peak != g.Predicted {
			t.Errorf("%v: plan says %d bytes, generate %d", typ, plan.Plans[0].Peak, g.Predicted)
		}
		var i inspectDocument
		document(t, &i, codeDone, "inspect", path)
		if len(i.Files) != 1 || len(i.Types) == 0 || i.Tokenizer == nil || i.Metadata["general.architecture"] != "llama" || string(i.Config) == "null" || i.Parameters != 918_656 {
			t.Errorf("inspect: got %+v", i)
		}
		if typ == quant.Q4_0 {
			tuned := filepath.Join(t.TempDir(), "tuned")
			var d trainDocument
			document(t, &d, codeDone, "train", "--model", path, "--data", text(t, 4000), "--out", tuned, "--steps", "1", "--batch", "1", "--seq", "64", "--memory", "96MiB")
			checkMemory(t, "train from a GGUF file", d.memoryReport)
			args[2] = tuned
			document(t, &g, codeDone, args...)
		}
		var a, b struct{ IDs []int32 }
		text := text(t, 500)
		document(t, &a, codeDone, "tokenize", "--model", path, text)
		document(t, &b, codeDone, "tokenize", "--model", out, text)
		if !slices.Equal(a.IDs, b.IDs) || len(a.IDs) == 0 {
			t.Errorf("tokenize: got %v, want %v", a.IDs, b.IDs)
		}
	}
}
