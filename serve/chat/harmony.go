package chat

import "strings"

// Part is what a token of a reply belongs to.
type Part int

// The parts of a reply.
const (
	Answer  Part = iota // what the user is told
	Thought             // what the model says to itself, or to a tool
	Markup              // a token that stands for no text
)

// Harmony tells the channels of gpt-oss's replies apart. A reply is messages
//
//	<|start|>assistant<|channel|>analysis<|message|>text<|end|><|start|>assistant<|channel|>final<|message|>text<|return|>
//
// of which the prompt has the first beginning. What is in the channel final, or in none, is the answer.
type Harmony struct {
	start, channel, message, end int32
	text                         func(token int32) string

	header, naming bool
	name           strings.Builder // of the channel
}

// maxChannelName bounds a channel's name, of which the first word matters.
const maxChannelName = 64

// NewHarmony returns nil for a tokenizer without the tokens that the format has. id finds a special token, −1 where there is none, and text
// is a token's.
func NewHarmony(id func(text string) int32, text func(token int32) string) *Harmony {
	h := &Harmony{text: text}
	for _, x := range []struct {
		text string
		to   *int32
	}{{"<|start|>", &h.start}, {"<|channel|>", &h.channel}, {"<|message|>", &h.message}, {"<|end|>", &h.end}} {
		if *x.to = id(x.text); *x.to < 0 {
			return nil
		}
	}
	if id("<|return|>") < 0 {
		return nil
	}
	return h
}

// Begin begins with a reply to a prompt, whose last message may have begun.
func (h *Harmony) Begin(prompt []int32) {
	h.header, h.naming = false, false
	h.name.Reset()
	last := len(prompt)
	for i, t := range prompt {
		if t == h.start {
			last = i
		}
	}
	for _, t := range prompt[last:] {
		h.Next(t)
	}
}

// Next takes the next token and tells what it belongs to.
func (h *Harmony) Next(token int32) Part {
	switch token {
	case h.start:
		h.header, h.naming = true, false
		h.name.Reset()
	case h.channel:
		h.header, h.naming = true, true
		h.name.Reset()
	case h.message:
		h.header, h.naming = false, false
	case h.end:
	default:
		if h.header {
			if h.naming && h.name.Len() < maxChannelName {
				h.name.WriteString(h.text(token)) // never fails
			}
			return Markup
		}
		if name := h.name.String(); name != "" && !strings.HasPrefix(name, "final") {
			return Thought
		}
		return Answer
	}
	return Markup
}
