// Package sample chooses a token from a row of logits.
//
// The order is vLLM's, whose API we speak: mask, logit bias, repetition, frequency and presence penalty; then the
// highest logit if the temperature is 0, and otherwise temperature, min-p, top-k, typical, top-p (each over what those
// before it left), and a draw. Where logits are equal the lower token id comes first, everywhere.
//
// Invariants: the choice is a function of the row, the parameters, the tokens before it and (seed, position, sample)
// alone. There is no state from token to token, so a sequence that was preempted, moved or batched otherwise draws
// the same tokens again. The logits are not changed. A row with NaN or Inf is an error, never a token. Nothing is
// allocated after New.
//
// Numerics: logits are float32; weights exp((l-max)/T) are computed in float64 and kept in float32; sums and the draw
// are in float64, in ascending token order or, behind a cut, in the order of the last cut.
//
// The package knows nothing of text, grammars (a mask stands for one) or stop tokens, and makes up no seed.
//
// Sources: top-k, Fan et al. 2018 (arXiv 1805.04833); top-p, Holtzman et al. 2020 (arXiv 1904.09751), §3.1; min-p,
// Nguyen et al. 2024 (arXiv 2407.01082); typical, Meister et al. 2022 (arXiv 2202.00666), §3; repetition penalty, Keskar
// et al. 2019 (arXiv 1909.05858), §4.1; presence and frequency penalty, the OpenAI API reference; Philox, see philox.go.
package sample

import (
	"fmt"
	"math"
)

// Params say how to choose. The zero value is greedy.
type Params struct {
	Temperature float32 // 0 is greedy
	TopK        int     // keep the k highest; 0 keeps all
	TopP        float32 // keep the fewest tokens that together have this probability; 0 or 1 keeps all
	MinP        float32 // keep tokens with at least this fraction of the highest probability; 0 keeps all
	TypicalP    float32 // keep the fewest tokens, nearest to the expected surprise first, that together have this probability; 0 or 1 keeps all

	RepetitionPenalty float32 // divides a positive, multiplies a negative logit of every token of prompt and output; 0 or 1 is none
	FrequencyPenalty  float32 // subtracted for each time the token is in the output
	PresencePenalty   float32 // subtracted once if the token is in the output
	Bias              []Bias  // added to single logits

	Seed uint64

	Logprobs    bool // report the log probability of the chosen token, before all of the above
	TopLogprobs int  // and of this many of the likeliest
}

// Bias is added to the logit of one token.
type Bias struct {
	Token int32
	Value float32
}

// Validate reports the first parameter that makes no sense for a vocabulary. Sample relies on it.
func (p *Params) Validate(vocab int) error {
	bounded := func(x float32) bool { return x >= -maxNumber && x <= maxNumber } // false for NaN
	switch {
	case !bounded(p.Temperature) || p.Temperature < 0:
		return fmt.Errorf("sample: temperature: want 0 to %v, got %v", maxNumber, p.Temperature)
	case p.TopK < 0:
		return fmt.Errorf("sample: top_k: want at least 0, got %d", p.TopK)
	case !(p.TopP >= 0 && p.TopP <= 1):
		return fmt.Errorf("sample: top_p: want 0 to 1, got %v", p.TopP)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return fmt.Errorf("sample: min_p: want 0 to 1, got %v", p.MinP)
	case !(p.TypicalP >= 0 && p.TypicalP <= 1):
		return fmt.Errorf("sample: typical_p: want 0 to 1, got %v", p.TypicalP)
	case p.RepetitionPenalty != 0 && !(p.RepetitionPenalty >= 1/float32(maxNumber) && p.RepetitionPenalty <= maxNumber):
		return fmt.Errorf("sample: repetition_penalty: want %v to %v, or 0 for none, got %v", 1/float32(maxNumber), maxNumber, p.RepetitionPenalty)
	case !bounded(p.FrequencyPenalty):
		return fmt.Errorf("sample: frequency_penalty: want -%v to %[1]v, got %v", maxNumber, p.FrequencyPenalty)
	case !bounded(p.PresencePenalty):
		return fmt.Errorf("sample: presence_penalty: want -%v to %[1]v, got %v", maxNumber, p.PresencePenalty)
	case p.TopLogprobs < 0 || p.TopLogprobs > min(vocab, MaxTopLogprobs):
		return fmt.Errorf("sample: top_logprobs: want 0 to %d, got %d", min(vocab, MaxTopLogprobs), p.TopLogprobs)
	}
	for _, b := range p.Bias {
		if b.Token < 0 || int(b.Token) >= vocab {
			return fmt.Errorf("sample: logit_bias: want a token below %d, got %d", vocab, b.Token)
		}
		if !bounded(b.Value) {
			return fmt.Errorf("sample: logit_bias: token %d: want -%v to %[2]v, got %v", b.Token, maxNumber, b.Value)
		}
	}
	return nil
}

// maxNumber bounds temperature, penalties and bias, so that no sum of them overflows a float32 to NaN.
const maxNumber = 1e6

// MaxTopLogprobs is the most likeliest tokens that can be reported; it is the OpenAI API's bound.
const MaxTopLogprobs = 20

// penalized reports whether the tokens before this one matter.
func (p *Params) penalized() bool {
	return p.repetition() != 1 || p.FrequencyPenalty != 0 || p.PresencePenalty != 0
}

// repetition returns the repetition penalty with its default filled in.
func (p *Params) repetition() float32 {
	if p.RepetitionPenalty == 0 {
		return 1
	}
	return p.RepetitionPenalty
}

// LogitError says that a row of logits is not finite.
type LogitError struct {
	Token int
	Value float32
}

// Error implements error.
func (e *LogitError) Error() string {
	what := "not a number"
	if math.IsInf(float64(e.Value), 0) {
		what = "infinite"
	}
	return fmt.Sprintf("sample: the logit of token %d is %s (%v)", e.Token, what, e.Value)
}
