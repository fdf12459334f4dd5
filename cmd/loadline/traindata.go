package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"loadline/data"
	"loadline/data/corpus"
	"loadline/internal/regular"
	"loadline/model/convert"
	"loadline/model/tokenizer"
	"loadline/model/weights"
	"loadline/train/checkpoint"
)

// readable makes sure that the texts can be read, before anything is written: that they are what they seem to be, and begin with a
// document.
func (r *trainRun) readable(ctx context.Context) error {
	if r.dataField != "" && r.data == "" && r.valData == "" {
		return usage("--data FILE", "--data-field %s: there is no file to read it from", r.dataField)
	}
	for _, path := range []string{r.data, r.valData} {
		if path == "" {
			continue
		}
		d, err := data.OpenDocuments(ctx, path, r.dataField)
		if err != nil {
			return err
		}
		first, err := d.Next()
		if err == nil {
			_, err = first.Read(make([]byte, 1))
			if errors.Is(err, io.EOF) {
				err = nil // another may have text
			}
		} else if errors.Is(err, io.EOF) {
			err = advise(fmt.Errorf("data: %s holds no text", path), "name a file with text")
		}
		if err := errors.Join(err, d.Close()); err != nil {
			return err
		}
	}
	return nil
}

// stoppable is a reader until ctx is done.
type stoppable struct {
	ctx context.Context
	r   io.Reader
	io.Closer
}

// Read implements io.Reader.
func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// prepare makes the tokenizer and the token files in Out, and returns the tokens that end a text. What an earlier run of the same
// texts has left is used again.
func (r *trainRun) prepare(ctx context.Context, a *app) (eos []int, err error) {
	t, err := r.tokenizer(ctx, a)
	if err != nil {
		return nil, err
	}
	if n := t.VocabSize(); n > r.Options.Config.VocabSize {
		return nil, advise(fmt.Errorf("tokenizer: it has %d tokens, the model %d", n, r.Options.Config.VocabSize), "use the model's own tokenizer.json")
	}
	keep := map[string]bool{}
	if r.Tokens, err = r.tokenize(ctx, a, t, r.data, keep); err != nil {
		return nil, err
	}
	if r.valData != "" {
		if r.ValTokens, err = r.tokenize(ctx, a, t, r.valData, keep); err != nil {
			return nil, err
		}
	}
	if err := r.sweep(keep); err != nil {
		return nil, err
	}
	if err := r.longEnough(); err != nil {
		return nil, err
	}
	if id := t.EOS(); id >= 0 && len(r.Options.Config.EOSTokenIDs) == 0 {
		return []int{int(id)}, nil
	}
	return r.Options.Config.EOSTokenIDs, nil
}

// tokenizer loads the tokenizer of the checkpoint or model, or trains one, and leaves it in Out.
func (r *trainRun) tokenizer(ctx context.Context, a *app) (*tokenizer.Tokenizer, error) {
	r.Tokenizer = filepath.Join(r.Out, checkpoint.TokenizerName)
	from, model := "", r.Weights
	if r.Weights != "" {
		var err error
		if from, err = weights.TokenizerPath(r.Weights); errors.Is(err, weights.ErrNoTokenizer) {
			return nil, advise(err, "put the model's tokenizer.json beside its config.json")
		} else if err != nil {
			return nil, err
		}
	}
	if r.Resume != "" {
		dir := r.Resume
		if e, err := checkpoint.Latest(r.Resume); err == nil {
			dir = e.Path
		}
		if p := filepath.Join(dir, checkpoint.TokenizerName); dir != r.Out && exists(p) {
			from = p
			model = dir
		}
	}
	if err := r.beside(model); err != nil {
		return nil, err
	}
	if from != "" {
		return r.takeTokenizer(from)
	}
	a.say("training a tokenizer of %d tokens\n", r.Options.Config.VocabSize)
	t, err := r.trainTokenizer(ctx, a)
	if err != nil {
		return nil, err
	}
	return t, t.SaveFile(r.Tokenizer)
}

// takeTokenizer makes the tokenizer of a file this run's: a copy of a tokenizer.json, or one that says what a GGUF file does.
func (r *trainRun) takeTokenizer(from string) (*tokenizer.Tokenizer, error) {
	t, err := loadTokenizer(from, r.Options.Memory)
	if err != nil {
		return nil, err
	}
	switch {
	case filepath.Base(from) == checkpoint.TokenizerName:
		return t, wholeFile(r.Tokenizer, copyOf(from))
	case weights.IsGGUF(from):
		body, err := convert.TokenizerJSON(from)
		if err == nil {
			err = wholeFile(r.Tokenizer, bytesOf(body))
		}
		return t, err
	}
	return t, advise(t.SaveFile(r.Tokenizer), "put the model's tokenizer.json beside its config.json")
}

// trainTokenizer trains one on the text.
func (r *trainRun) trainTokenizer(ctx context.Context, a *app) (*tokenizer.Tokenizer, error) {
	size := r.Options.Config.VocabSize
	if r.data == "" {
		o, stop := a.learning(func() {})
		defer stop()
		return tokenizer.Train(&stoppable{ctx: ctx, r: corpus.Text()}, size, o)
	}
	d, err := data.OpenDocuments(ctx, r.data, r.dataField)
	if err != nil {
		return nil, err
	}
	o, stop := a.learning(a.watch(r.data, d.Done))
	t, err := tokenizer.Train(d.Joined(), size, o)
	stop()
	return t, errors.Join(err, d.Close())
}

// tokenize makes the token file of a text, unless it is there, and returns its path.
func (r *trainRun) tokenize(ctx context.Context, a *app, t *tokenizer.Tokenizer, path string, keep map[string]bool) (string, error) {
	key, err := r.key(path)
	if err != nil {
		return "", err
	}
	name := tokensPrefix + key
	keep[name] = true
	out := filepath.Join(r.Out, name)
	if f, err := data.Open(out); err == nil {
		return out, f.Close()
	}
	if path == "" {
		_, err = data.Tokenize(out, &stoppable{ctx: ctx, r: corpus.Text()}, t)
		return out, err
	}
	a.say("tokenizing %s\n", path)
	d, err := data.OpenDocuments(ctx, path, r.dataField)
	if err != nil {
		return "", err
	}
	stop := a.watch(path, d.Done)
	_, err = data.TokenizeDocuments(out, d, t)
	stop()
	return out, errors.Join(err, d.Close())
}

// tokensPrefix begins the name of every token file in Out.
const tokensPrefix = "tokens-"

// key names a text as it is now together with the tokenizer.
func (r *trainRun) key(path string) (string, error) {
	h := sha256.New()
	f, err := regular.Open(r.Tokenizer)
	if err != nil {
		return "", err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, 32<<10))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if path != "" {
		s, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("data: %w", err)
		}
		if path, err = filepath.Abs(path); err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d %d", path, s.Size(), s.ModTime().UnixNano())
		if r.dataField != "" {
			fmt.Fprintf(h, " %s", r.dataField)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// sweep removes token files of other texts, and what a killed run was writing.
func (r *trainRun) sweep(keep map[string]bool) error {
	entries, err := os.ReadDir(r.Out)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if n := e.Name(); ours(n) && !keep[n] {
			if err := os.Remove(filepath.Join(r.Out, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ours tells whether a name is that of a token file, or of a file that prepare was writing.
func ours(name string) bool {
	return oursPattern.MatchString(name)
}

var oursPattern = regexp.MustCompile(`^(tokens-[0-9a-f]{16}|\.tokens-[0-9a-f]{16}\.[0-9]+|\.tokenizer\.json\.[0-9]+|(tokenizer|generation_config|tokenizer_config|chat_template|special_tokens_map)\.(json|jinja)\.loadline\.tmp)$`)

// longEnough refuses texts that do not fill one window.
func (r *trainRun) longEnough() error {
	for _, x := range []struct{ tokens, flag, path string }{{r.Tokens, "--data", r.data}, {r.ValTokens, "--val-data", r.valData}} {
		if x.tokens == "" {
			continue
		}
		f, err := data.Open(x.tokens)
		if err != nil {
			return err
		}
		_, err = data.NewSequence(f, data.Options{Batch: 1, Seq: r.Options.Seq})
		if err := errors.Join(err, f.Close()); err != nil {
			return advise(fmt.Errorf("%s %s: %w", x.flag, x.path, err), "give more text, or a smaller --seq")
		}
	}
	return nil
}

// files are what a checkpoint has beside the run's weights: copies of the tokenizer and of what goes with it, which prepare left in Out.
func (r *trainRun) files() map[string]func(io.Writer) error {
	files := map[string]func(io.Writer) error{checkpoint.TokenizerName: copyOf(r.Tokenizer)}
	for _, name := range convert.BesideNames() {
		if path := filepath.Join(r.Out, name); exists(path) {
			files[name] = copyOf(path)
		}
	}
	return files
}

// copyOf writes what a file holds.
func copyOf(path string) func(io.Writer) error {
	return func(w io.Writer) error {
		f, err := regular.Open(path)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{f}, make([]byte, 32<<10))
		return errors.Join(err, f.Close())
	}
}

// beside leaves in Out what goes with the tokenizer of the model or checkpoint that the run starts from, and nothing of another.
func (r *trainRun) beside(from string) error {
	var files map[string][]byte
	switch {
	case from == r.Out:
		return nil
	case from != "":
		m, err := weights.Open(from)
		if err != nil {
			return err
		}
		files, err = convert.Beside(m)
		if err := errors.Join(err, m.Close()); err != nil {
			return err
		}
	}
	for _, name := range convert.BesideNames() {
		path := filepath.Join(r.Out, name)
		if body, ok := files[name]; ok {
			if err := wholeFile(path, bytesOf(body)); err != nil {
				return err
			}
		} else if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
