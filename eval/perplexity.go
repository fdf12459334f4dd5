package eval

import (
	"fmt"
	"math"
)

// Perplexity scores a stream of tokens in windows, one after the other, each by itself. A last window that is
// not whole is dropped.
//
// Numerics: logits are float32; exponentials are too, each within 2⁻²³ of its value, and their sum is in float64, as all sums are.
type Perplexity struct {
	o      Options
	m      Model
	window []int32
	n      int // tokens in the window that is being filled
	score  Score
}

// NewPerplexity begins a stream on m, which it has for itself.
func NewPerplexity(m Model, o Options) (*Perplexity, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Perplexity{o: o, m: m, window: make([]int32, o.Context)} //mem:ok 4 B a token of one window, in the Runtime line
	p.n = copy(p.window, o.BOS)
	return p, nil
}

// Score returns the sums so far.
func (p *Perplexity) Score() Score { return p.score }

// Add takes the next tokens of the stream. done, which may be nil, is called after each window; an error of it ends the call.
func (p *Perplexity) Add(ids []int32, done func(Score) error) error {
	for len(ids) > 0 {
		n := copy(p.window[p.n:], ids)
		ids, p.n = ids[n:], p.n+n
		if p.n < len(p.window) {
			return nil
		}
		p.n = 0
		if err := p.whole(); err != nil {
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

// whole scores a whole window.
func (p *Perplexity) whole() error {
	w := p.window
	copy(w, p.o.BOS)
	for i, tok := range w {
		if tok < 0 || int(tok) >= p.o.Vocab {
			return fmt.Errorf("eval: token %d of window %d is %d: the model has %d", i, p.score.Windows, tok, p.o.Vocab)
		}
	}
	p.m.Reset()
	last, first := len(w)-1, p.o.Rule.first(len(w)) // nobody asks what follows the last token
	for at := 0; at < last; {
		end := min(at+p.o.Chunk, last)
		outs := min(max(end-(first-1), 0), end-at) // row i scores token i+1
		if err := p.m.Forward(w[at:end], outs); err != nil {
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
	logits, err := p.m.Logits(i)
	if err != nil {
		return err
	}
	most := p.o.Kernels.Max(logits)
	at := float64(logits[target])
	sum := p.o.Kernels.ExpShift(logits, logits, most)
	loss := float64(most) + math.Log(sum) - at
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("eval: window %d: the logits before token %d are not finite", p.score.Windows, target)
	}
	p.score.Tokens++
	p.score.Loss += loss
	p.score.Squares += loss * loss
	return nil
}
