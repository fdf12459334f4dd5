package main

import (
	"fmt"
	"io"
	"strings"

	"loadline/model/tokenizer"
	"loadline/serve/chat"
)

// thoughts is what a model says to itself before it answers.
type thoughts struct {
	channels *chat.Harmony
	decoder  *tokenizer.Decoder
	out      io.Writer // a terminal, where they are shown dim; nil shows nothing

	text strings.Builder
	open bool
	buf  []byte
}

// newThoughts is for a reply to a prompt; nil where the model has no channel of its own for them.
func newThoughts(t *tokenizer.Tokenizer, prompt []int32, out io.Writer) *thoughts {
	h := harmony(t)
	if h == nil {
		return nil
	}
	h.Begin(prompt)
	return &thoughts{channels: h, decoder: t.NewDecoder().SkipSpecial(), out: out}
}

// harmony reads the channels of gpt-oss's replies; nil where a tokenizer has none.
func harmony(t *tokenizer.Tokenizer) *chat.Harmony {
	special := func(text string) int32 {
		if id := t.ID(text); id >= 0 && t.IsSpecial(id) {
			return id
		}
		return -1
	}
	return chat.NewHarmony(special, t.Token)
}

// takes takes a token that is no part of the answer, and returns false for one that is.
func (x *thoughts) takes(token int32) bool {
	if x == nil {
		return false
	}
	part := x.channels.Next(token)
	if part == chat.Thought {
		x.show(x.decoder.Append(x.buf[:0], token))
		return true
	}
	x.end()
	return part == chat.Markup
}

func (x *thoughts) show(text []byte) {
	x.buf = text
	if len(text) == 0 {
		return
	}
	x.text.Write(text) // never fails
	if x.out == nil {
		return
	}
	if !x.open {
		fmt.Fprint(x.out, "\x1b[2m")
		x.open = true
	}
	x.out.Write(text) // to people, beside the answer
}

// end ends a thought, if there is one.
func (x *thoughts) end() {
	if x == nil {
		return
	}
	x.show(x.decoder.Flush(x.buf[:0]))
	if x.open {
		fmt.Fprint(x.out, "\x1b[0m\n")
		x.open = false
	}
}
