package main

import (
	"fmt"
	"strconv"
	"strings"

	"loadline/model/weights"
	"loadline/serve/sample"
)

// take sets what the model's makers say of sampling and the user does not, and says so.
func (s *samplingFlags) take(m *weights.Model, say func(format string, args ...any)) error {
	x, err := m.Sampling()
	if err != nil {
		return advise(err, "mend the file, or take it away: sampling then is as the flags say")
	}
	said, err := s.fill(x)
	if err != nil {
		return err
	}
	if said != "" {
		say("sampling as %s says: %s\n", x.From, said)
	}
	return nil
}

// fill is take, and returns what it has set as flags are typed.
func (s *samplingFlags) fill(x weights.Sampling) (string, error) {
	if x.Sample != nil && !*x.Sample { // what else there is, is not looked at
		if s.flags.Changed("temperature") {
			return "", nil
		}
		s.temperature = 0
		return "--temperature 0", nil
	}
	var topK *float64
	if x.TopK != nil {
		k := float64(max(*x.TopK, 0)) // −1 is all to some
		topK = &k
	}
	var said []string
	for _, f := range []struct {
		flag  string
		value *float64
		to    *float64
		as    sample.Params
	}{
		{"temperature", x.Temperature, &s.temperature, sample.Params{Temperature: single(x.Temperature)}},
		{"top-k", topK, nil, sample.Params{}},
		{"top-p", x.TopP, &s.topP, sample.Params{TopP: single(x.TopP)}},
		{"min-p", x.MinP, &s.minP, sample.Params{MinP: single(x.MinP)}},
		{"typical-p", x.TypicalP, &s.typicalP, sample.Params{TypicalP: single(x.TypicalP)}},
		{"repetition-penalty", x.Repetition, &s.repetition, sample.Params{RepetitionPenalty: single(x.Repetition)}},
	} {
		if f.value == nil || s.flags.Changed(f.flag) {
			continue
		}
		if err := f.as.Validate(1); err != nil {
			return "", advise(fmt.Errorf("%s: %w", x.From, err), "--%s VALUE, which goes before what the file says", f.flag)
		}
		if f.to == nil {
			s.topK = int(*f.value)
		} else {
			*f.to = *f.value
		}
		said = append(said, "--"+f.flag+" "+strconv.FormatFloat(*f.value, 'g', -1, 32))
	}
	return strings.Join(said, " "), nil
}

// single is *x in the precision that is used, 0 for none.
func single(x *float64) float32 {
	if x == nil {
		return 0
	}
	return float32(*x)
}
