package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxMessage bounds a message, in bytes.
const maxMessage = 1 << 20

// chatInput reads messages from a terminal or a pipe: a line each; a line that ends with a backslash goes on with the next.
type chatInput struct {
	messages chan string // closed at the end of the input
	failed   error       // why it ended; read after messages is closed
}

// readMessages begins to read. Reading a terminal cannot be interrupted, so it happens beside; it ends with the input or the process.
func readMessages(in io.Reader) *chatInput {
	x := &chatInput{messages: make(chan string)}
	go func() {
		defer close(x.messages)
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			text, err := readMessage(r)
			if text != "" || err == nil {
				x.messages <- text
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					x.failed = err
				}
				return
			}
		}
	}()
	return x
}

// readMessage reads one message, without the end of its line.
func readMessage(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, err := r.ReadSlice('\n')
		if b.Len()+len(part) > maxMessage {
			return "", advise(fmt.Errorf("chat: a message has more than %d bytes", maxMessage), "give shorter messages, a line each")
		}
		b.Write(part) // never fails
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return strings.TrimRight(b.String(), "\r\n"), err
		}
		text := strings.TrimSuffix(strings.TrimSuffix(b.String(), "\n"), "\r")
		more, ok := strings.CutSuffix(text, `\`)
		if !ok {
			return text, nil
		}
		b.Reset()
		b.WriteString(more + "\n")
	}
}

// next waits for a message. ok is false at the end of the input, and when ctx is done.
func (x *chatInput) next(ctx context.Context) (text string, ok bool, err error) {
	select {
	case <-ctx.Done():
		return "", false, nil
	case text, ok = <-x.messages:
		if !ok {
			return "", false, x.failed
		}
		return text, true, nil
	}
}

// isTerminal tells whether people type what is read, or read what is written.
func isTerminal(x any) bool {
	f, ok := x.(*os.File)
	return ok && terminal(f) > 0
}
