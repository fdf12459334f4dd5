package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"loadline/model/tokenizer"
	"loadline/serve"
	"loadline/serve/sched"
)

// errStopped ends a request at a stop text.
var errStopped = errors.New("stop text")

// textStream makes text of a request's tokens and sends it on as it comes, up to a stop text.
type textStream struct {
	decoder *tokenizer.Decoder
	cut     cutter
	out     io.Writer
	aside   *thoughts // takes tokens that are no part of the text; may be nil

	ids    []int32
	text   strings.Builder // all that was sent
	finish string          // why it ended: stop, length or interrupted
	buf    []byte
}

// run runs a request on an idle engine. each, which may be nil, is told every token before its text goes out.
func (s *textStream) run(ctx context.Context, e *serve.Engine, r serve.Request, each func(x *serve.Event)) error {
	s.finish = "length"
	_, err := e.Generate(ctx, r, func(x serve.Event) error {
		s.ids = append(s.ids, x.Token)
		if each != nil {
			each(&x)
		}
		if x.Finished == sched.Stop {
			s.finish = "stop"
			return nil
		}
		if s.aside.takes(x.Token) {
			return nil
		}
		s.buf = s.decoder.Append(s.buf[:0], x.Token)
		return s.put(s.buf)
	})
	s.aside.end()
	switch {
	case errors.Is(err, errStopped):
		return nil
	case errors.Is(err, context.Canceled):
		s.finish, err = "interrupted", nil
	}
	if err != nil {
		return err
	}
	if err := s.put(s.decoder.Flush(s.buf[:0])); err != nil && !errors.Is(err, errStopped) {
		return err
	}
	if s.cut.stopped {
		return nil
	}
	return s.send(s.cut.rest())
}

// put takes more text.
func (s *textStream) put(text []byte) error {
	show, stopped := s.cut.add(text)
	if err := s.send(show); err != nil {
		return err
	}
	if stopped {
		s.finish = "stop"
		return errStopped
	}
	return nil
}

// send sends text on.
func (s *textStream) send(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	s.text.Write(text) // never fails
	_, err := s.out.Write(text)
	return err
}
