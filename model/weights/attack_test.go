package weights

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"loadline/internal/bounded"
	"loadline/internal/regular"
)

// TestCutShort opens a model that was cut at every hundredth of its length, as an interrupted download is: it is refused, in one line, and at
// little cost.
func TestCutShort(t *testing.T) {
	whole, err := os.ReadFile("testdata/llama_linear.gguf")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	for cent := range 100 {
		p := whole[:len(whole)*cent/100]
		write(t, path, p)
		var err error
		bounded.Run(t, len(p), 256<<10, 64, func() { _, err = Open(path) })
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), path) {
			t.Errorf("cut at %d%%: got %v, want one line with the path", cent, err)
		}
	}
}

// TestWhatIsWrongIsSaid: a name that is there and cannot be opened is not said to be missing, and no other file is taken in its place.
func TestWhatIsWrongIsSaid(t *testing.T) {
	loop := func(path string) error { return os.Symlink(filepath.Base(path), path) }
	nowhere := func(path string) error { return os.Symlink("blobs/none", path) }
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	empty := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	for _, x := range []struct {
		name string
		put  func(path string) error
		want error
		says string
	}{
		{configName, loop, syscall.ELOOP, configName},
		{configName, nowhere, fs.ErrNotExist, configName},
		{configName, pipe, regular.ErrNot, "pipe"},
		{"model.safetensors", loop, syscall.ELOOP, "model.safetensors"},
		{"model.safetensors", nowhere, fs.ErrNotExist, "model.safetensors"},
	} {
		dir := directory(t, "dense")
		path := filepath.Join(dir, x.name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := x.put(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); !errors.Is(err, x.want) || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: got %v, want %v", x.name, err, x.want)
		}
	}
	for says, put := range map[string]func(string) error{"too many levels": loop, "pipe": pipe, "ends early, at byte 0": empty} {
		path := filepath.Join(t.TempDir(), "x.gguf")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

// TestTemplateThatCannotBeRead: such a template is no reason to say that there is none.
func TestTemplateThatCannotBeRead(t *testing.T) {
	dir := directory(t, "dense")
	m := open(t, dir)
	if s, err := m.ReadTemplate(); s != "" || err != nil {
		t.Errorf("none: got %q, %v", s, err)
	}
	write(t, filepath.Join(dir, tokenizerConfigName), []byte("{"))
	if _, err := m.ReadTemplate(); err == nil || !strings.Contains(err.Error(), tokenizerConfigName) {
		t.Errorf("got %v, want what is wrong with %s", err, tokenizerConfigName)
	}
	write(t, filepath.Join(dir, templateName), make([]byte, maxTemplateBytes+1))
	if _, err := m.ReadTemplate(); err == nil || !strings.Contains(err.Error(), "at most 1048576 bytes") {
		t.Errorf("got %v, want what is wrong with %s", err, templateName)
	}
	write(t, filepath.Join(dir, tokenizerConfigName), []byte(`{"chat_template":"x"}`))
	if s, err := m.ReadTemplate(); s != "x" || err != nil {
		t.Errorf("got %q, %v, want the template beside", s, err)
	}
}
