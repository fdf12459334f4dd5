package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"loadline/data"
	"loadline/data/corpus"
	"loadline/internal/regular"
	"loadline/model/tokenizer"
	"loadline/train/checkpoint"
)

// readable makes sure that the texts can be read, before anything is written.
func (r *trainRun) readable() error {
	for _, path := range []string{r.data, r.valData} {
		if path == "" {
			continue
		}
		f, err := regular.Open(path)
		if err != nil {
			return fmt.Errorf("data: %w", err)
		}
		var one [1]byte
		_, err = f.Read(one[:])
		f.Close() // read only
		if errors.Is(err, io.EOF) {
			return advise(fmt.Errorf("data: %s is empty", path), "name a text file")
		}
		if err != nil {
			return advise(fmt.Errorf("data: %w", err), "name a text file")
		}
	}
	return nil
}

// openText opens a text; no path is the embedded one. Reading it fails once ctx is done.
func openText(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == "" {
		return &stoppable{ctx, corpus.Text(), io.NopCloser(nil)}, nil
	}
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return &stoppable{ctx, f, f}, nil
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
	from := ""
	if r.Weights != "" {
		from = filepath.Join(r.Weights, checkpoint.TokenizerName)
	}
	if r.Resume != "" {
		dir := r.Resume
		if e, err := checkpoint.Latest(r.Resume); err == nil {
			dir = e.Path
		}
		if p := filepath.Join(dir, checkpoint.TokenizerName); dir != r.Out && exists(p) {
			from = p
		}
	}
	if from != "" {
		t, err := loadTokenizer(from, r.Options.Memory)
		if errors.Is(err, os.ErrNotExist) {
			return nil, advise(err, "put the model's tokenizer.json beside its config.json")
		}
		if err != nil {
			return nil, err
		}
		return t, copyFile(r.Tokenizer, from)
	}
	a.say("training a tokenizer of %d tokens\n", r.Options.Config.VocabSize)
	text, err := openText(ctx, r.data)
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.Train(text, r.Options.Config.VocabSize, tokenizer.TrainOptions{})
	if err := errors.Join(err, text.Close()); err != nil {
		return nil, err
	}
	return t, t.SaveFile(r.Tokenizer)
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
	if path != "" {
		a.say("tokenizing %s\n", path)
	}
	text, err := openText(ctx, path)
	if err != nil {
		return "", err
	}
	_, err = data.Tokenize(out, text, t)
	return out, errors.Join(err, text.Close())
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

var oursPattern = regexp.MustCompile(`^(tokens-[0-9a-f]{16}|\.tokens-[0-9a-f]{16}\.[0-9]+|\.tokenizer\.json\.[0-9]+|tokenizer\.json\.tmp)$`)

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

// copyFile makes path a copy of from, under its name only when it is whole.
func copyFile(path, from string) (err error) {
	in, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() // read only
	temp := path + ".tmp"
	out, err := os.Create(temp)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, 32<<10))
	if err := errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Rename(temp, path)
}

// saveTokenizer writes the tokenizer into a checkpoint.
func (r *trainRun) saveTokenizer(w io.Writer) error {
	f, err := regular.Open(r.Tokenizer)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{f}, make([]byte, 32<<10))
	return errors.Join(err, f.Close())
}
