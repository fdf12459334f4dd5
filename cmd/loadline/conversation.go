package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"loadline/model/tokenizer"
	"loadline/serve/chat"
)

// chatMessage is something that was said.
type chatMessage struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`

	// Of replies.
	Thinking     string  `json:"thinking,omitempty"` // what gpt-oss says to itself; it is told to nobody, the model of later turns included
	TokenIDs     []int32 `json:"token_ids,omitempty"`
	PromptTokens int     `json:"prompt_tokens,omitempty"` // of the whole prompt that it is the answer to
	CachedTokens int     `json:"cached_tokens,omitempty"` // of these, computed in earlier turns
	Finish       string  `json:"finish,omitempty"`        // stop, length or interrupted
}

// conversation is what of a chat the model is told: the system's message, and whole turns of user and model. Oldest turns are left out
// when they no longer fit.
type conversation struct {
	template  *chat.Template
	tokens    map[string]string
	tok       *tokenizer.Tokenizer
	context   int  // tokens of prompt and reply
	positions int  // that the model has
	full      bool // memory holds no longer context
	reserve   int  // of them kept for the reply, if there is any turn to leave out

	system string
	turns  []chatTurn
}

// chatTurn is a message and its answer.
type chatTurn struct{ user, model string }

// longMessageError says that a message does not fit into the context, by itself.
type longMessageError struct {
	tokens, context, positions int
	full                       bool // memory holds no longer context
}

// Error returns one line.
func (e *longMessageError) Error() string {
	return fmt.Sprintf("the message makes a prompt of %d tokens, the context is %d", e.tokens, e.context)
}

// Advice returns one line: what to do.
func (e *longMessageError) Advice() string {
	switch {
	case e.tokens >= e.positions:
		return fmt.Sprintf("a shorter message: the model has %d positions", e.positions)
	case e.full:
		return "a shorter message, or a larger --memory"
	}
	return fmt.Sprintf("a shorter message, or --context %d", min(2*e.tokens, e.positions))
}

// prompt is the tokens of the conversation with the user's next message. It leaves out as many of the oldest turns as it has to, for good,
// and returns how many. A message that fails leaves the conversation as it was.
func (c *conversation) prompt(user string) (ids []int32, dropped int, err error) {
	whole := c.turns
	defer func() {
		if err != nil {
			c.turns, dropped = whole, 0
		}
	}()
	for {
		if ids, err = c.render(user); err != nil {
			return nil, 0, err
		}
		switch {
		case len(ids) <= c.context-c.reserve:
			return ids, dropped, nil
		case len(c.turns) > 0:
			c.turns = c.turns[1:]
			dropped++
		case len(ids) < c.context:
			return ids, dropped, nil
		default:
			return nil, 0, &longMessageError{len(ids), c.context, c.positions, c.full}
		}
	}
}

// render is the tokens of all turns and a message.
func (c *conversation) render(user string) ([]int32, error) {
	var messages []chatMessage
	if c.system != "" {
		messages = append(messages, chatMessage{Role: "system", Content: c.system})
	}
	for _, t := range c.turns {
		messages = append(messages, chatMessage{Role: "user", Content: t.user}, chatMessage{Role: "assistant", Content: t.model})
	}
	text, err := json.Marshal(append(messages, chatMessage{Role: "user", Content: user}))
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	prompt, err := c.template.Render(chat.Input{Messages: text, AddGenerationPrompt: true, Tokens: c.tokens, Now: time.Now()})
	if err != nil {
		var raised *chat.RaisedError
		if errors.As(err, &raised) && c.system != "" {
			return nil, advise(err, "leave --system out, if the model takes none")
		}
		return nil, advise(err, "--chat-template FILE, with a template that can be read")
	}
	// The template has the tokens that begin a text, where there are to be any.
	ids := c.tok.Encode(prompt)
	if len(ids) == 0 {
		return nil, advise(errors.New("chat: the template makes no text of the conversation"), "--chat-template FILE, with another template")
	}
	return ids, nil
}

// add ends a turn.
func (c *conversation) add(user, model string) { c.turns = append(c.turns, chatTurn{user, model}) }

// reset forgets all turns; the system's message stays.
func (c *conversation) reset() { c.turns = nil }
