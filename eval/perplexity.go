package eval

import (
	"fmt"
	"math"

	"loadline/tensor/kernel"
)

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

// Perplexity scores a stream of tokens in windows of the runner's context, one after the other, each by itself. A last window that is
// not whole is dropped.
//
// Numerics: logits are float32; exponentials are too, each within 2⁻²³ of its value, and their sum is in float64, as all sums are.
type Perplexity struct {
	r       *Runner
	kernels kernel.Set
	rule    Rule
	bos     []int32
	n       int // tokens in the window that is being filled
	score   Score
}

// NewPerplexity begins a stream on r, which it has for itself. bos are the tokens that the tokenizer puts before a text: the stream
// begins with them, and they replace the first tokens of each window.
func NewPerplexity(r *Runner, rule Rule, bos []int32, kernels kernel.Set) (*Perplexity, error) {
	if n := len(r.window); rule.Scored(n) == 0 || rule.first(n) < len(bos) {
		return nil, fmt.Errorf("eval: a window of %d tokens leaves none to score", n)
	}
	return &Perplexity{r: r, kernels: kernels, rule: rule, bos: bos, n: copy(r.window, bos)}, nil
}

// Score returns the sums so far.
func (p *Perplexity) Score() Score { return p.score }

// Add takes the next tokens of the stream. done, which may be nil, is called after each window; an error of it ends the call.
func (p *Perplexity) Add(ids []int32, done func(Score) error) error {
	for len(ids) > 0 {
		n := copy(p.r.window[p.n:], ids)
		ids, p.n = ids[n:], p.n+n
		if p.n < len(p.r.window) {
			return nil
		}
		p.n = 0
		if err := p.window(); err != nil {
			return err
		}
		if done != nil {
			if err := done(p.score); err != nil {
				return err
			}
		}
	}
	return nil
}

// window scores the whole window.
func (p *Perplexity) window() error {
	w := p.r.window
	copy(w, p.bos)
	vocab := p.r.job.Options.Config.VocabSize
	for i, tok := range w {
		if tok < 0 || int(tok) >= vocab {
			return fmt.Errorf("eval: token %d of window %d is %d: the model has %d", i, p.score.Windows, tok, vocab)
		}
	}
	p.r.Reset()
	last, first := len(w)-1, p.rule.first(len(w)) // nobody asks what follows the last token
	for at := 0; at < last; {
		end := min(at+p.r.job.Options.Chunk, last)
		outs := min(max(end-(first-1), 0), end-at) // row i scores token i+1
		if err := p.r.Forward(w[at:end], outs); err != nil {
			return err
		}
		for i := range outs {
			if err := p.row(i, w[end-outs+i+1]); err != nil {
				return err
			}
		}
		at = end
	}
	p.score.Windows++
	return nil
}

// row adds the loss of one token.
func (p *Perplexity) row(i int, target int32) error {
	logits, err := p.r.Logits(i)
	if err != nil {
		return err
	}
	most := p.kernels.Max(logits)
	at := float64(logits[target])
	sum := p.kernels.ExpShift(logits, logits, most)
	loss := float64(most) + math.Log(sum) - at
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("eval: window %d: the logits before token %d are not finite", p.score.Windows, target)
	}
	p.score.Tokens++
	p.score.Loss += loss
	p.score.Squares += loss * loss
	return nil
}
