package chat

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"
)

// golden is what transformers makes of real templates; see testdata/golden.py.
type golden struct {
	Cases map[string]struct {
		Messages, Tools, Options string
		Add                      bool
	}
	Templates []struct {
		Name, Template string
		Results        map[string]struct {
			Text  *string
			Error string
		}
	}
}

func readGolden(t testing.TB) (g golden) {
	t.Helper()
	p, err := os.ReadFile("testdata/golden.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(r).Decode(&g); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestRenderIsTransformers(t *testing.T) {
	g := readGolden(t)
	texts, refused := 0, 0
	for _, tpl := range g.Templates {
		parsed, err := Parse(tpl.Template)
		if err != nil {
			t.Errorf("%s: %v", tpl.Name, err)
			continue
		}
		for name, want := range tpl.Results {
			c := g.Cases[name]
			got, err := parsed.Render(Input{
				Messages: []byte(c.Messages), Tools: []byte(c.Tools), Options: []byte(c.Options), AddGenerationPrompt: c.Add,
				Tokens: map[string]string{"bos_token": "<BOS>", "eos_token": "<EOS>"},
				Now:    time.Date(2024, 7, 26, 12, 34, 56, 7000000, time.UTC),
			})
			var raised *RaisedError
			switch {
			case want.Text == nil && err == nil:
				t.Errorf("%s, %s: got a text of %d bytes, want an error like %q", tpl.Name, name, len(got), want.Error)
			case want.Text == nil && errors.As(err, &raised) && raised.Message != want.Error:
				t.Errorf("%s, %s: it says %q, want %q", tpl.Name, name, raised.Message, want.Error)
			case want.Text == nil:
				refused++
			case err != nil:
				t.Errorf("%s, %s: got %v, want a text", tpl.Name, name, err)
			case got != *want.Text:
				at := 0
				for at < len(got) && at < len(*want.Text) && got[at] == (*want.Text)[at] {
					at++
				}
				from := max(0, at-40)
				t.Errorf("%s, %s: texts differ at byte %d:\n got %.160q\nwant %.160q", tpl.Name, name, at, got[from:], (*want.Text)[from:])
			default:
				texts++
			}
		}
	}
	if texts < 500 {
		t.Errorf("got %d equal texts and %d refusals, want at least 500 texts", texts, refused)
	}
	t.Logf("%d texts are equal, %d are refused by both", texts, refused)
}
