package main

import (
	"fmt"
	"io"
	"strconv"

	"loadline/model/tokenizer"
	"loadline/serve"
)

// tokenLogprob is a token with the natural logarithm of the probability that the model gave it, before everything that sampling does.
type tokenLogprob struct {
	ID      int32   `json:"token_id"`
	Text    string  `json:"token"`
	Logprob float32 `json:"logprob"`
}

// tokenLogprobs is a token that was chosen, and the likeliest in its place, in descending order.
type tokenLogprobs struct {
	tokenLogprob
	Top []tokenLogprob `json:"top"`
}

// logprobsOf takes what an event tells.
func logprobsOf(x *serve.Event, t *tokenizer.Tokenizer) tokenLogprobs {
	one := func(id int32, logprob float32) tokenLogprob {
		d := t.NewContinuation()
		return tokenLogprob{id, string(d.Flush(d.Append(nil, id))), logprob}
	}
	out := tokenLogprobs{one(x.Token, x.Logprob), []tokenLogprob{}}
	for _, top := range x.Top {
		out.Top = append(out.Top, one(top.Token, top.Logprob))
	}
	return out
}

// printLogprobs prints a line for each token.
func printLogprobs(w io.Writer, all []tokenLogprobs) {
	for _, x := range all {
		fmt.Fprintf(w, "%s %.4f", strconv.Quote(x.Text), x.Logprob)
		for i, top := range x.Top {
			between := ","
			if i == 0 {
				between = "  of"
			}
			fmt.Fprintf(w, "%s %s %.4f", between, strconv.Quote(top.Text), top.Logprob)
		}
		fmt.Fprintln(w)
	}
}
