package tokenizer

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Save writes a tokenizer of the kind that Train makes as a tokenizer.json that Load and Hugging Face's tokenizers read. Any other is
// to be copied from the file that it is from.
func (t *Tokenizer) Save(w io.Writer) error {
	if !t.bare {
		return fmt.Errorf("tokenizer: saving: this one is %v, and a byte-level one with GPT-2's pattern alone can be written", t)
	}
	b := bufio.NewWriter(w)
	names := t.names()
	b.WriteString(`{"version":"1.0","truncation":null,"padding":null,"added_tokens":[`)
	for i, a := range t.addedTokens() {
		comma(b, i)
		fmt.Fprintf(b, `{"id":%d,"content":%s,"single_word":false,"lstrip":false,"rstrip":false,"normalized":%t,"special":%t}`,
			a.id, quote(a.content), a.normalized, a.special)
	}
	const level = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`
	b.WriteString(`],"normalizer":null,"pre_tokenizer":` + level + `,"post_processor":null,"decoder":` + level +
		`,"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,` +
		`"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{`)
	n := 0
	for id := range int32(t.VocabSize()) {
		if name := names(id); name != "" {
			comma(b, n)
			n++
			fmt.Fprintf(b, "%s:%d", quote(name), id)
		}
	}
	b.WriteString(`},"merges":[`)
	for i, m := range t.bpe.merges {
		comma(b, i)
		fmt.Fprintf(b, "[%s,%s]", quote(names(m.left)), quote(names(m.right)))
	}
	b.WriteString("]}}\n")
	if err := b.Flush(); err != nil { // the first error of all the writes
		return fmt.Errorf("tokenizer: saving: %w", err)
	}
	return nil
}

// SaveFile writes the tokenizer to a file: to a temporary one beside it, which takes its name once it is on the disk.
func (t *Tokenizer) SaveFile(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name()) // err says what went wrong
		}
	}()
	if err := cmp.Or(t.Save(f), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("tokenizer: saving %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	return nil
}

// names returns how the vocabulary spells a token: the empty string for one that is not in it.
func (t *Tokenizer) names() func(id int32) string {
	letters := newAlphabet()
	names := make(map[int32]string, len(t.added.tokens))
	for _, a := range t.added.tokens {
		names[a.id] = ""
		if a.inVocab {
			names[a.id] = a.content
		}
	}
	return func(id int32) string {
		if name, ok := names[id]; ok {
			return name
		}
		return letters.spell(t.vocab.token(id))
	}
}

// comma separates the elements of a list.
func comma(b *bufio.Writer, i int) {
	if i > 0 {
		b.WriteByte(',')
	}
}

// quote returns a JSON string. The error of encoding a string cannot occur.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("tokenizer: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
