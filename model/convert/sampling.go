package convert

import (
	"fmt"

	"loadline/model/gguf"
	"loadline/model/weights"
)

// sampling is how the model's makers would have tokens chosen.
func (x *crossing) sampling() (weights.Sampling, error) {
	s, err := x.Sampling()
	if err != nil {
		return s, fmt.Errorf("convert: %w", err)
	}
	return s, nil
}

// writeSampling writes it as llama.cpp's converter does. No drawing at all is a temperature of 0.
func writeSampling(meta *gguf.Metadata, s weights.Sampling) {
	if s.Sample != nil && !*s.Sample {
		meta.Set("general.sampling.temp", float32(0))
		return
	}
	if s.TopK != nil && *s.TopK > 0 {
		meta.Set("general.sampling.top_k", int32(min(*s.TopK, 1<<30)))
	}
	for _, x := range []struct {
		key   string
		value *float64
	}{{"top_p", s.TopP}, {"min_p", s.MinP}, {"temp", s.Temperature}, {"penalty_repeat", s.Repetition}} {
		if x.value != nil {
			meta.Set("general.sampling."+x.key, float32(*x.value))
		}
	}
}

// samplingFields adds it to a generation_config.json.
func samplingFields(generation object, s weights.Sampling) {
	for key, value := range map[string]*float64{"temperature": s.Temperature, "top_p": s.TopP, "min_p": s.MinP, "repetition_penalty": s.Repetition} {
		if value != nil {
			generation[key] = shortest(*value)
		}
	}
	if s.TopK != nil {
		generation["top_k"] = *s.TopK
	}
	if s.Temperature != nil || s.TopP != nil || s.MinP != nil || s.TopK != nil {
		generation["do_sample"] = s.Temperature == nil || *s.Temperature > 0
	}
	if draws, ok := generation["do_sample"].(bool); ok && !draws {
		delete(generation, "temperature")
	}
}

// shortest is the shortest decimal that is the float32 which a GGUF file has.
func shortest(x float64) float64 {
	var short float64
	if _, err := fmt.Sscan(fmt.Sprint(float32(x)), &short); err != nil {
		return x
	}
	return short
}
