// Package eval measures how well a model foretells a text: perplexity.
//
// A Perplexity cuts a stream of tokens into windows, lets a Model compute each by itself, and sums the losses of the tokens that a Rule
// scores. The Model is the pass that serves, without scheduler and sampler (serve.Runner); so what is measured is what is served.
//
// Invariants: a score depends on the tokens, the window and the model's logits alone, not on the pieces in which tokens come or the chunks
// in which they are computed. Nothing is approximated, and no token is scored twice.
//
// It knows no text, reads no files and no clock, and plans no memory: the model's is its maker's, and a window has 4 bytes a token.
//
// Source: llama.cpp's tool of that name, whose windows and whose rule these are: each window begins anew, with the token that begins a
// text where the tokenizer has one, and of each the second half is scored.
package eval

import (
	"fmt"
	"math"

	"loadline/tensor/kernel"
)

// Model is one sequence that goes through a model.
type Model interface {
	// Reset begins the sequence anew.
	Reset()
	// Forward computes the next tokens, at most a chunk of them; the last outs have logits then.
	Forward(tokens []int32, outs int) error
	// Logits returns those of row i of the outs, valid until the next call. The caller may change them.
	Logits(i int) ([]float32, error)
}

// Options shape a Perplexity.
type Options struct {
	Context int     // tokens of a window
	Chunk   int     // tokens that the model computes at once, all of which may have logits
	Vocab   int     // the model's tokens
	Rule    Rule    // which tokens are scored
	BOS     []int32 // what the tokenizer puts before a text: the stream begins with it, and it takes the place of each window's first tokens
	Kernels kernel.Set
}

// Validate reports the first option that cannot be.
func (o Options) Validate() error {
	switch {
	case o.Context < 1 || o.Context > 1<<30 || o.Chunk < 1 || o.Vocab < 1:
		return fmt.Errorf("eval: window %d, chunk %d, vocabulary %d: want at least 1 each", o.Context, o.Chunk, o.Vocab)
	case o.Rule.Scored(o.Context) == 0 || o.Rule.first(o.Context) < len(o.BOS):
		return fmt.Errorf("eval: a window of %d tokens leaves none to score", o.Context)
	}
	return nil
}

// Score sums the losses of tokens: the negative natural logarithms of the probabilities that the model gave them.
type Score struct {
	Windows int64
	Tokens  int64   // scored ones
	Loss    float64 // sum
	Squares float64 // sum of squares
}

// Mean is the mean loss of a token; 0 of none.
func (s Score) Mean() float64 {
	if s.Tokens == 0 {
		return 0
	}
	return s.Loss / float64(s.Tokens)
}

// Perplexity is the exponential of the mean loss.
func (s Score) Perplexity() float64 { return math.Exp(s.Mean()) }

// Stderr is the standard error of the perplexity, as if losses were independent: perplexity × √(variance of a loss / (Tokens − 1)).
func (s Score) Stderr() float64 {
	if s.Tokens < 2 {
		return 0
	}
	variance := s.Squares/float64(s.Tokens) - s.Mean()*s.Mean()
	return s.Perplexity() * math.Sqrt(max(variance, 0)/float64(s.Tokens-1))
}

// Rule says which tokens of a window are scored. A window is scored by the logits of what comes before each token in it.
type Rule uint8

// The rules.
const (
	Half Rule = iota // the tokens behind the middle one, Context/2: llama.cpp's rule
	All              // every token but the first
)

// first is the first token of a window that is scored.
func (r Rule) first(context int) int {
	if r == All {
		return 1
	}
	return context/2 + 1
}

// Scored is the number of scored tokens in a window of context tokens.
func (r Rule) Scored(context int) int { return max(context-r.first(context), 0) }
