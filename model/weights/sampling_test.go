package weights

import (
	"testing"

	"loadline/model/gguf"
)

// What llama.cpp takes of a GGUF file's keys is taken, and nothing that is not there.
func TestGGUFSampling(t *testing.T) {
	s := ggufSampling(gguf.Metadata{
		{Key: "general.sampling.temp", Value: float32(0.5)}, {Key: "general.sampling.top_k", Value: int32(20)},
		{Key: "general.sampling.min_p", Value: "0.1"}, {Key: "general.sampling.penalty_repeat", Value: float32(1.25)},
	}, "x.gguf")
	if s.From != "x.gguf" || s.Temperature == nil || *s.Temperature != 0.5 || s.TopK == nil || *s.TopK != 20 || s.Repetition == nil || *s.Repetition != 1.25 {
		t.Errorf("got %+v", s)
	}
	if s.TopP != nil || s.MinP != nil || s.TypicalP != nil || s.Sample != nil {
		t.Errorf("got %+v, want nothing that is not there", s)
	}
}
