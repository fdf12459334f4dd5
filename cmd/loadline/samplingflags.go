package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"loadline/model/tokenizer"
	"loadline/serve/sample"
)

// samplingFlags are the flags of verbs that generate: how tokens are chosen, and what ends a text.
type samplingFlags struct {
	temperature, topP, minP, typicalP float64
	topK                              int
	repetition, frequency, presence   float64
	bias                              []string
	stop, stopTokens                  []string
	ignoreEOS                         bool

	flags *pflag.FlagSet // tell which of these were given
}

// plainSampling cuts nothing: the model's own distribution, a little sharper.
func plainSampling() samplingFlags {
	return samplingFlags{temperature: 0.8, topP: 1, typicalP: 1, repetition: 1}
}

// chatSampling also leaves out what is unlikely, with llama.cpp's numbers.
func chatSampling() samplingFlags {
	s := plainSampling()
	s.topK, s.topP, s.minP = 40, 0.95, 0.05
	return s
}

// register adds the flags; their defaults are what s has.
func (s *samplingFlags) register(f *pflag.FlagSet) {
	s.flags = f
	f.Float64Var(&s.temperature, "temperature", s.temperature, "how freely tokens are drawn; 0 always takes the likeliest")
	f.IntVar(&s.topK, "top-k", s.topK, "draw from the `K` likeliest tokens; 0 is all")
	f.Float64Var(&s.topP, "top-p", s.topP, "draw from the likeliest tokens that together have this probability")
	f.Float64Var(&s.minP, "min-p", s.minP, "draw from tokens that have at least this fraction of the likeliest one's probability")
	f.Float64Var(&s.typicalP, "typical-p", s.typicalP, "draw from the tokens that surprise as much as is expected and together have this probability")
	f.Float64Var(&s.repetition, "repetition-penalty", s.repetition, "make tokens of the prompt and of the text so far less likely: logits are divided by this, negative ones multiplied")
	f.Float64Var(&s.frequency, "frequency-penalty", 0, "taken from a token's logit for each time it has been generated")
	f.Float64Var(&s.presence, "presence-penalty", 0, "taken from the logit of tokens that have been generated")
	f.StringArrayVar(&s.bias, "logit-bias", nil, "add a number to the logit of a token, given by its id or its text: `TOKEN=VALUE`; may be given more than once")
	f.StringArrayVar(&s.stop, "stop", nil, "end before this `TEXT`; may be given more than once")
	f.StringArrayVar(&s.stopTokens, "stop-token", nil, "end at this `TOKEN`, given by its id or its text; may be given more than once")
	f.BoolVar(&s.ignoreEOS, "ignore-eos", false, "go on where the model ends the text")
}

// validate checks what needs no model.
func (s *samplingFlags) validate() error {
	if slices.Contains(s.stop, "") {
		return usage("leave --stop out", "--stop: want a text")
	}
	return nil
}

// params is what the flags say, for a tokenizer and a vocabulary, which may be larger than the tokenizer's.
func (s *samplingFlags) params(seed uint64, t *tokenizer.Tokenizer, vocab int) (sample.Params, error) {
	p := sample.Params{
		Temperature: float32(s.temperature), TopK: s.topK, TopP: float32(s.topP), MinP: float32(s.minP), TypicalP: float32(s.typicalP),
		RepetitionPenalty: float32(s.repetition), FrequencyPenalty: float32(s.frequency), PresencePenalty: float32(s.presence), Seed: seed,
	}
	for _, text := range s.bias {
		at := strings.LastIndexByte(text, '=')
		if at < 0 {
			return p, usage("--logit-bias 42=-100", "--logit-bias %s: want TOKEN=VALUE", text)
		}
		value, err := strconv.ParseFloat(text[at+1:], 32)
		if err != nil {
			return p, usage("--logit-bias 42=-100", "--logit-bias %s: %q is not a number", text, text[at+1:])
		}
		id, err := tokenOf(text[:at], t, vocab)
		if err != nil {
			return p, usage(tokenAdvice, "--logit-bias %s: %v", text, err)
		}
		p.Bias = append(p.Bias, sample.Bias{Token: id, Value: float32(value)})
	}
	if err := p.Validate(vocab); err != nil {
		return p, usage("loadline generate --help lists the settings", "%v", err)
	}
	return p, nil
}

// ends are the tokens that end a text: those of the model, unless they are to be ignored, and those of --stop-token.
func (s *samplingFlags) ends(model []int32, t *tokenizer.Tokenizer, vocab int) ([]int32, error) {
	var ends []int32
	add := func(id int32) {
		if id >= 0 && int(id) < vocab && !slices.Contains(ends, id) {
			ends = append(ends, id)
		}
	}
	if !s.ignoreEOS {
		for _, id := range model {
			add(id)
		}
	}
	for _, text := range s.stopTokens {
		id, err := tokenOf(text, t, vocab)
		if err != nil {
			return nil, usage(tokenAdvice, "--stop-token %s: %v", text, err)
		}
		add(id)
	}
	return ends, nil
}

const tokenAdvice = "loadline tokenize tells the ids of a text"

// tokenOf reads a token: its id, or its text, as it is in the vocabulary or as it is read.
func tokenOf(text string, t *tokenizer.Tokenizer, vocab int) (int32, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 0 || n >= vocab {
			return 0, fmt.Errorf("want a token below %d", vocab)
		}
		return int32(n), nil
	}
	if id := t.ID(text); id >= 0 && text != "" {
		return id, nil
	}
	ids := t.Encode(text)
	if len(ids) != 1 {
		return 0, fmt.Errorf("%q is %s", text, count(len(ids), "token"))
	}
	return ids[0], nil
}
