package sample

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
)

// TestProcessors compares what is kept, with what probabilities, and the log probabilities with transformers' logits processors; see
// testdata/processors.py.
func TestProcessors(t *testing.T) {
	text, err := os.ReadFile("testdata/processors.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases []struct {
			Settings struct {
				Temperature       float32            `json:"temperature"`
				TopK              int                `json:"top_k"`
				TopP              float32            `json:"top_p"`
				MinP              float32            `json:"min_p"`
				TypicalP          float32            `json:"typical_p"`
				RepetitionPenalty float32            `json:"repetition_penalty"`
				Bias              map[string]float32 `json:"bias"`
			} `json:"settings"`
			Logits        []float32          `json:"logits"`
			Before        []int32            `json:"before"`
			Probabilities map[string]float64 `json:"probabilities"`
			Logprobs      []float64          `json:"logprobs"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) < 60 {
		t.Fatalf("got %d cases, want 60 and more", len(golden.Cases))
	}
	for i, c := range golden.Cases {
		p := Params{
			Temperature: c.Settings.Temperature, TopK: c.Settings.TopK, TopP: c.Settings.TopP, MinP: c.Settings.MinP, TypicalP: c.Settings.TypicalP,
			RepetitionPenalty: c.Settings.RepetitionPenalty, Logprobs: true, TopLogprobs: MaxTopLogprobs,
		}
		for id, v := range c.Settings.Bias {
			n, err := strconv.Atoi(id)
			if err != nil {
				t.Fatal(err)
			}
			p.Bias = append(p.Bias, Bias{int32(n), v})
		}
		s := newSampler(t, len(c.Logits))
		// Half of the tokens before are the prompt's: the repetition penalty takes both alike.
		row := Row{Logits: c.Logits, Prompt: c.Before[:10], Output: c.Before[10:]}
		got, err := s.Sample(row, &p)
		if err != nil {
			t.Fatal(err)
		}
		// Both sides take float32 logits through a division or two before the exponential: 2⁻²² relative to logits of at most 12.
		if l := c.Logprobs[got.Token]; math.Abs(float64(got.Logprob)-l) > 1e-6*math.Max(1, math.Abs(l)) {
			t.Errorf("case %d, %+v: log probability of token %d is %v, want %v", i, c.Settings, got.Token, got.Logprob, l)
		}
		for _, top := range got.Top {
			if l := c.Logprobs[top.Token]; math.Abs(float64(top.Logprob)-l) > 1e-6*math.Max(1, math.Abs(l)) {
				t.Errorf("case %d, %+v: log probability of token %d is %v, want %v", i, c.Settings, top.Token, top.Logprob, l)
			}
		}
		adjusted, err := s.adjust(row, &p)
		if err != nil {
			t.Fatal(err)
		}
		kept, mass := s.weigh(adjusted, adjusted[argmax(adjusted)], &p)
		if len(kept) != len(c.Probabilities) {
			t.Errorf("case %d, %+v: keeps %d tokens, want %d", i, c.Settings, len(kept), len(c.Probabilities))
		}
		for _, id := range kept {
			prob := float64(s.weights[id]) / mass
			if want := c.Probabilities[strconv.Itoa(int(id))]; math.Abs(prob-want) > 2e-5*want {
				t.Errorf("case %d, %+v: token %d has probability %v, want %v", i, c.Settings, id, prob, want)
			}
		}
	}
}
