package sample

import (
	"errors"
	"fmt"
	"math"
)

// ErrNoToken says that mask and bias leave no token to choose.
var ErrNoToken = errors.New("sample: no token is allowed")

// Scratch is the working memory of a sampler: three slices of at least the vocabulary's length. See Bytes.
type Scratch struct {
	Weights []float32
	IDs     []int32
	Counts  []int32
}

// Bytes returns what the slices of a Scratch take together.
func Bytes(vocab int) int64 { return 12 * int64(vocab) }

// Sampler chooses tokens, one row at a time. It is not safe for concurrent use.
type Sampler struct {
	weights []float32
	ids     []int32
	counts  []int32 // Invariant: all zero between calls
	top     []TokenLogprob
}

// New returns a sampler for rows of vocab logits that works in the scratch, which it owns from then on.
func New(vocab int, s Scratch) (*Sampler, error) {
	if n := min(len(s.Weights), len(s.IDs), len(s.Counts)); vocab < 1 || vocab > math.MaxInt32 || n < vocab {
		return nil, fmt.Errorf("sample: want scratch for a vocabulary of %d, got %d", vocab, n)
	}
	clear(s.Counts)
	return &Sampler{
		weights: s.Weights[:vocab],
		ids:     s.IDs[:vocab],
		counts:  s.Counts[:vocab],
		top:     make([]TokenLogprob, 0, min(vocab, MaxTopLogprobs)),
	}, nil
}

// Row is what a token is chosen from.
type Row struct {
	Logits []float32 // one for each token of the vocabulary; not changed
	Prompt []int32   // the tokens before it, as the client sent them
	Output []int32   // and as they were sampled; both together give the position
	Sample uint32    // of the request's samples, so that they differ under one seed
	Mask   []uint64  // bit i%64 of word i/64 allows token i; nil allows all
}

// TokenLogprob is the natural logarithm of a token's probability.
type TokenLogprob struct {
	Token   int32
	Logprob float32
}

// Choice is a chosen token.
type Choice struct {
	Token   int32
	Logprob float32        // if Params.Logprobs
	Top     []TokenLogprob // the Params.TopLogprobs likeliest, in descending order; valid until the next call
}

// Sample chooses the token that follows the row's tokens. The parameters must be valid.
func (s *Sampler) Sample(r Row, p *Params) (Choice, error) {
	if len(r.Logits) != len(s.weights) {
		panic("sample: the row is not as long as the vocabulary")
	}
	for i, l := range r.Logits {
		if l-l != 0 {
			return Choice{}, &LogitError{Token: i, Value: l}
		}
	}
	logits, err := s.adjust(r, p)
	if err != nil {
		return Choice{}, err
	}
	best := argmax(logits)
	switch top := float64(logits[best]); {
	case math.IsInf(top, -1):
		return Choice{}, ErrNoToken
	case math.IsInf(top, 1): // bias and penalties are finite, their sum with a huge logit need not be
		return Choice{}, &LogitError{Token: best, Value: logits[best]}
	}
	c := Choice{Token: int32(best)}
	if p.Temperature > 0 {
		u := uniform(p.Seed, len(r.Prompt)+len(r.Output), r.Sample)
		c.Token = s.draw(logits, logits[best], p, u)
	}
	if p.Logprobs {
		c.Logprob, c.Top = s.logprobs(r.Logits, c.Token, p.TopLogprobs)
	}
	return c, nil
}

// adjust returns the logits after mask, bias and penalties: the row itself if there are none, or s.weights.
func (s *Sampler) adjust(r Row, p *Params) ([]float32, error) {
	if r.Mask == nil && len(p.Bias) == 0 && !p.penalized() {
		return r.Logits, nil
	}
	w := s.weights
	copy(w, r.Logits)
	for _, b := range p.Bias {
		w[b.Token] += b.Value
	}
	if p.penalized() {
		if err := s.penalize(w, r, p); err != nil {
			return nil, err
		}
	}
	if r.Mask != nil {
		if len(r.Mask)*64 < len(w) {
			panic("sample: the mask is shorter than the vocabulary")
		}
		for i := range w {
			if r.Mask[i/64]>>(i%64)&1 == 0 {
				w[i] = float32(math.Inf(-1))
			}
		}
	}
	return w, nil
}

// inPrompt marks a token in counts that the prompt holds; the bits below count it in the output.
const inPrompt int32 = 1 << 30

// penalize applies the penalties once to each token that came before, in time proportional to their number.
func (s *Sampler) penalize(w []float32, r Row, p *Params) error {
	for _, part := range [2][]int32{r.Prompt, r.Output} {
		for _, tok := range part {
			if tok < 0 || int(tok) >= len(w) {
				return fmt.Errorf("sample: want tokens below %d, got %d", len(w), tok)
			}
		}
	}
	for _, tok := range r.Prompt {
		s.counts[tok] = inPrompt
	}
	for _, tok := range r.Output {
		s.counts[tok]++
	}
	for _, part := range [2][]int32{r.Prompt, r.Output} {
		for _, tok := range part {
			n := s.counts[tok]
			if n == 0 {
				continue // done
			}
			s.counts[tok] = 0
			if w[tok] > 0 {
				w[tok] /= p.repetition()
			} else {
				w[tok] *= p.repetition()
			}
			if n &^= inPrompt; n > 0 {
				w[tok] -= p.FrequencyPenalty*float32(n) + p.PresencePenalty
			}
		}
	}
	return nil
}

// draw picks the token at the fraction u of what weigh leaves.
func (s *Sampler) draw(logits []float32, best float32, p *Params, u float64) int32 {
	kept, mass := s.weigh(logits, best, p)
	target := u * mass
	var sum float64
	for _, id := range kept {
		if sum += float64(s.weights[id]); sum > target {
			return id
		}
	}
	return kept[len(kept)-1] // u·mass rounded up to mass
}

// weigh turns logits, of which best is the highest, into weights in s.weights, cuts them down, and returns the tokens that are left and
// the sum of their weights. The logits may be in s.weights themselves.
func (s *Sampler) weigh(logits []float32, best float32, p *Params) ([]int32, float64) {
	w := s.weights
	n, mass := 0, 0.0 // tokens with a weight, and its sum
	for i, l := range logits {
		x := float32(math.Exp((float64(l) - float64(best)) / float64(p.Temperature))) // 1 for the highest
		if x < p.MinP {
			x = 0
		}
		w[i] = x
		if x > 0 {
			s.ids[n] = int32(i)
			n++
			mass += float64(x)
		}
	}
	return s.keep(s.ids[:n], mass, p)
}

// logprobs returns the log probability of a token and of the n likeliest, from unadjusted logits.
func (s *Sampler) logprobs(logits []float32, token int32, n int) (float32, []TokenLogprob) {
	best := float64(logits[argmax(logits)])
	var sum float64
	top := s.top[:0]
	for i, l := range logits {
		sum += math.Exp(float64(l) - best)
		if len(top) == n && (n == 0 || l <= top[n-1].Logprob) {
			continue
		}
		if len(top) < n {
			top = append(top, TokenLogprob{})
		}
		j := len(top) - 1
		for ; j > 0 && top[j-1].Logprob < l; j-- {
			top[j] = top[j-1]
		}
		top[j] = TokenLogprob{Token: int32(i), Logprob: l}
	}
	norm := best + math.Log(sum)
	for i := range top {
		top[i].Logprob = float32(float64(top[i].Logprob) - norm)
	}
	return float32(float64(logits[token]) - norm), top
}

// argmax returns the index of the highest logit, the lowest of several.
func argmax(logits []float32) int {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return best
}
