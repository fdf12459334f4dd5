package sample

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func newSampler(t interface{ Fatal(...any) }, vocab int) *Sampler {
	s, err := New(vocab, Scratch{Weights: make([]float32, vocab), IDs: make([]int32, vocab), Counts: make([]int32, vocab)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPhilox holds the known answers of Random123's kat_vectors for philox4x32, 10 rounds.
func TestPhilox(t *testing.T) {
	const ones = 0xffffffff
	for _, tc := range []struct {
		ctr  [4]uint32
		key  [2]uint32
		want [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(tc.ctr, tc.key); got != tc.want {
			t.Errorf("philox(%x, %x): got %x, want %x", tc.ctr, tc.key, got, tc.want)
		}
	}
}

// reference computes the probability of each token by sorting, in float64, as the definitions read.
func reference(logits []float32, p Params) []float64 {
	type entry struct {
		id int
		w  float64
	}
	best := slices.Max(logits)
	var all []entry
	for i, l := range logits {
		w := math.Exp(float64(l-best) / float64(p.Temperature))
		if w >= float64(p.MinP) {
			all = append(all, entry{i, w})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].w > all[j].w })
	if p.TopK > 0 && p.TopK < len(all) {
		all = all[:p.TopK]
	}
	sum := func() (s float64) {
		for _, e := range all {
			s += e.w
		}
		return s
	}
	upTo := func(p float32) {
		limit, s := float64(p)*sum(), 0.0
		for i, e := range all {
			if s += e.w; s >= limit {
				all = all[:i+1]
				break
			}
		}
	}
	if p.TypicalP > 0 && p.TypicalP < 1 {
		norm, entropy := math.Log(sum()), 0.0
		for _, e := range all {
			entropy += e.w / sum() * (norm - math.Log(e.w))
		}
		far := func(e entry) float32 { return float32(math.Abs(norm - math.Log(e.w) - entropy)) }
		sort.SliceStable(all, func(i, j int) bool { return far(all[i]) < far(all[j]) })
		upTo(p.TypicalP)
		sort.Slice(all, func(i, j int) bool { return all[i].w > all[j].w || all[i].w == all[j].w && all[i].id < all[j].id })
	}
	if p.TopP > 0 && p.TopP < 1 {
		upTo(p.TopP)
	}
	out := make([]float64, len(logits))
	total := sum()
	for _, e := range all {
		out[e.id] = e.w / total
	}
	return out
}

// TestDistribution draws 20000 tokens for each setting and compares the counts with the exact probabilities by a
// chi-square test. With a fixed seed the statistic is a constant; the bound is exceeded by 1 in 10⁴ seeds.
func TestDistribution(t *testing.T) {
	logits := []float32{1.5, -0.5, 2, 0.25, 2, -3, 1, 0.5}
	// Upper 1e-4 quantiles of the chi-square distribution by degrees of freedom.
	quantile := []float64{0, 15.14, 18.42, 21.11, 23.51, 25.74, 27.86, 29.88}
	const draws = 20000
	s := newSampler(t, len(logits))
	for _, p := range []Params{
		{Temperature: 1},
		{Temperature: 0.5},
		{Temperature: 3},
		{Temperature: 1, TopK: 3},
		{Temperature: 1, TopK: 1000},
		{Temperature: 1, TopP: 0.7},
		{Temperature: 1, TopP: 0.999},
		{Temperature: 1, MinP: 0.2},
		{Temperature: 2, TopK: 5, TopP: 0.6},
		{Temperature: 2, TopK: 6, TopP: 0.95, MinP: 0.15},
		{Temperature: 1, TypicalP: 0.6},
		{Temperature: 3, TopK: 7, TypicalP: 0.8, TopP: 0.9},
	} {
		p.Seed = 42
		t.Run(fmt.Sprintf("T=%v,k=%d,p=%v,min=%v,typical=%v", p.Temperature, p.TopK, p.TopP, p.MinP, p.TypicalP), func(t *testing.T) {
			want := reference(logits, p)
			var got [8]int
			prompt := make([]int32, 0, draws)
			for i := range draws {
				c, err := s.Sample(Row{Logits: logits, Prompt: prompt[:i]}, &p)
				if err != nil {
					t.Fatal(err)
				}
				got[c.Token]++
			}
			chi, df := 0.0, -1
			for i, prob := range want {
				if prob == 0 {
					if got[i] != 0 {
						t.Errorf("token %d: drawn %d times, want never", i, got[i])
					}
					continue
				}
				d := float64(got[i]) - prob*draws
				chi += d * d / (prob * draws)
				df++
			}
			if chi > quantile[df] {
				t.Errorf("chi-square %.2f with %d degrees of freedom: want at most %.2f; counts %v, probabilities %.4f", chi, df, quantile[df], got, want)
			}
		})
	}
}

// drawParams draws parameters that cut, over all their ranges.
func drawParams(t *rapid.T) Params {
	return Params{
		Temperature: rapid.Float32Range(0.05, 5).Draw(t, "temperature"),
		TopK:        rapid.IntRange(0, 12).Draw(t, "top k"),
		TopP:        rapid.Float32Range(0, 1).Draw(t, "top p"),
		MinP:        rapid.Float32Range(0, 1).Draw(t, "min p"),
		TypicalP:    max(0, rapid.Float32Range(-1, 1).Draw(t, "typical p")), // half the time none
		Seed:        rapid.Uint64().Draw(t, "seed"),
	}
}

// TestCuts compares what is kept, and its sum, with the reference. Logits are small integers, so that many are equal.
func TestCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ints := rapid.SliceOfN(rapid.IntRange(-4, 4), 1, 40).Draw(t, "logits")
		logits := make([]float32, len(ints))
		for i, n := range ints {
			logits[i] = float32(n)
		}
		p := drawParams(t)
		want := reference(logits, p)
		s := newSampler(t, len(logits))
		c, err := s.Sample(Row{Logits: logits}, &p)
		if err != nil {
			t.Fatal(err)
		}
		if want[c.Token] == 0 {
			t.Fatalf("drew token %d, of probabilities %v", c.Token, want)
		}
		// The weights are left in the scratch, so each probability can be read off; what is cut is seen at u = 0, ½ and almost 1.
		var kept float64
		for i, prob := range want {
			if prob > 0 {
				kept += float64(s.weights[i])
			}
		}
		for i, prob := range want {
			// float32 weights: |err| <= 2⁻²³ relative to each of weight and sum, and 2⁻¹⁵⁰ absolute where they are denormal
			if got := float64(s.weights[i]) / kept; prob > 0 && math.Abs(got-prob) > 3e-7*prob+0x1p-149 {
				t.Fatalf("token %d: probability %v, want %v", i, got, prob)
			}
		}
		for _, u := range []float64{0, 0.5, 1 - 0x1p-53} {
			w := slices.Clone(logits)
			if id := s.draw(w, slices.Max(w), &p, u); want[id] == 0 {
				t.Fatalf("at %v drew token %d, of probabilities %v", u, id, want)
			}
		}
	})
}

func TestGreedy(t *testing.T) {
	logits := []float32{1, 7, -2, 7, 3}
	s := newSampler(t, len(logits))
	for _, p := range []Params{
		{},
		{Temperature: 1, TopK: 1},
		{Temperature: 1, TopP: 0.01},
		{Temperature: 1, MinP: 1, TopK: 1},
		{Seed: 5, TopK: 3, TopP: 0.5, MinP: 0.1},
	} {
		for position := range 20 {
			c, err := s.Sample(Row{Logits: logits, Output: make([]int32, position)}, &p)
			if err != nil || c.Token != 1 {
				t.Errorf("%+v: got token %d, error %v, want the first of the highest, 1", p, c.Token, err)
			}
		}
	}
	// A temperature so low that every quotient but that of the highest overflows.
	c, err := s.Sample(Row{Logits: []float32{1, 2, 3, 4, 5}}, &Params{Temperature: 1e-45})
	if err != nil || c.Token != 4 {
		t.Errorf("temperature 1e-45: got token %d, error %v, want 4", c.Token, err)
	}
}

func TestDeterminism(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(i%7) / 3
	}
	draw := func(s *Sampler, seed uint64, sample uint32, prompt, output int) int32 {
		c, err := s.Sample(Row{Logits: logits, Prompt: make([]int32, prompt), Output: make([]int32, output), Sample: sample},
			&Params{Temperature: 1, Seed: seed, TopK: 900})
		if err != nil {
			t.Fatal(err)
		}
		return c.Token
	}
	a, b := newSampler(t, len(logits)), newSampler(t, len(logits))
	var same [3]int
	const n = 200
	for i := range n {
		want := draw(a, 1, 0, 10, i)
		// Another sampler, with other rows before, and the same position divided otherwise.
		draw(b, 9, 0, 1, 1)
		if got := draw(b, 1, 0, 10+i, 0); got != want {
			t.Errorf("position %d: got %d, want %d", 10+i, got, want)
		}
		for j, other := range []int32{draw(a, 2, 0, 10, i), draw(a, 1, 1, 10, i), draw(a, 1, 0, 11, i)} {
			if other == want {
				same[j]++
			}
		}
	}
	// Of about 900 likely tokens, 200 draws agree by chance hardly ever.
	for j, what := range []string{"seed", "sample", "position"} {
		if same[j] > 5 {
			t.Errorf("another %s: %d of %d draws are the same", what, same[j], n)
		}
	}
}

func TestAdjust(t *testing.T) {
	inf := float32(math.Inf(1))
	logits := []float32{2, -2, 1, 0.5, 3}
	prompt, output := []int32{0, 1, 0}, []int32{2, 1, 2, 2}
	for _, tc := range []struct {
		name string
		p    Params
		mask []uint64
		want []float32
	}{
		{"repetition, once for each token of prompt and output", Params{RepetitionPenalty: 2}, nil, []float32{1, -4, 0.5, 0.5, 3}},
		{"frequency, output only", Params{FrequencyPenalty: 0.5}, nil, []float32{2, -2.5, -0.5, 0.5, 3}},
		{"presence, output only", Params{PresencePenalty: 0.5}, nil, []float32{2, -2.5, 0.5, 0.5, 3}},
		{"all three", Params{RepetitionPenalty: 2, FrequencyPenalty: 1, PresencePenalty: 0.25}, nil, []float32{1, -5.25, -2.75, 0.5, 3}},
		{"negative", Params{FrequencyPenalty: -1}, nil, []float32{2, -1, 4, 0.5, 3}},
		{"bias before penalties", Params{Bias: []Bias{{1, 6}, {3, -1}}, RepetitionPenalty: 2}, nil, []float32{1, 2, 0.5, -0.5, 3}},
		{"mask", Params{}, []uint64{0b01011}, []float32{2, -2, -inf, 0.5, -inf}},
		{"mask beats bias", Params{Bias: []Bias{{4, 100}}}, []uint64{1}, []float32{2, -inf, -inf, -inf, -inf}},
		{"none", Params{RepetitionPenalty: 1, TopK: 2}, nil, logits},
	} {
		s := newSampler(t, len(logits))
		for range 2 { // the second time from a clean table of counts
			got, err := s.adjust(Row{Logits: slices.Clone(logits), Prompt: prompt, Output: output, Mask: tc.mask}, &tc.p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.name, diff)
			}
		}
		if slices.ContainsFunc(s.counts, func(n int32) bool { return n != 0 }) {
			t.Errorf("%s: counts are left at %v", tc.name, s.counts)
		}
	}
}

func TestLogprobs(t *testing.T) {
	// Probabilities 1/8, 1/2, 1/8, 1/4 behind a shift, which must not matter; nor may bias and temperature.
	ln := func(x float64) float32 { return float32(math.Log(x)) }
	logits := []float32{ln(1) + 50, ln(4) + 50, ln(1) + 50, ln(2) + 50}
	s := newSampler(t, len(logits))
	c, err := s.Sample(Row{Logits: logits}, &Params{Logprobs: true, TopLogprobs: 3, Bias: []Bias{{3, 10}}, Temperature: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	want := Choice{Token: 3, Logprob: ln(1. / 4), Top: []TokenLogprob{{1, ln(1. / 2)}, {3, ln(1. / 4)}, {0, ln(1. / 8)}}}
	// The logits are rounded at 50: 2⁻¹⁹ each.
	near := cmp.Comparer(func(a, b float32) bool { return math.Abs(float64(a-b)) <= 0x1p-17 })
	if diff := cmp.Diff(want, c, near); diff != "" {
		t.Errorf("choice (-want +got):\n%s", diff)
	}
	if c, _ = s.Sample(Row{Logits: logits}, &Params{Logprobs: true}); len(c.Top) != 0 || math.Abs(float64(c.Logprob-ln(1./2))) > 0x1p-17 {
		t.Errorf("without top: got %+v", c)
	}
	if c, _ = s.Sample(Row{Logits: logits}, &Params{}); c.Logprob != 0 || c.Top != nil {
		t.Errorf("not asked for: got %+v", c)
	}
	rapid.Check(t, func(t *rapid.T) {
		ints := rapid.SliceOfN(rapid.IntRange(-5, 5), 1, 60).Draw(t, "logits")
		logits := make([]float32, len(ints))
		order := make([]int32, len(ints))
		for i, n := range ints {
			logits[i], order[i] = float32(n), int32(i)
		}
		sort.SliceStable(order, func(i, j int) bool { return logits[order[i]] > logits[order[j]] })
		n := rapid.IntRange(0, min(len(ints), MaxTopLogprobs)).Draw(t, "n")
		c, err := newSampler(t, len(ints)).Sample(Row{Logits: logits}, &Params{Logprobs: true, TopLogprobs: n})
		if err != nil {
			t.Fatal(err)
		}
		var got []int32
		for _, top := range c.Top {
			got = append(got, top.Token)
		}
		if !slices.Equal(got, order[:n]) {
			t.Fatalf("top %d: got %v, want %v", n, got, order[:n])
		}
	})
}

func TestErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	s := newSampler(t, 3)
	for _, bad := range []float32{nan, inf, -inf} {
		_, err := s.Sample(Row{Logits: []float32{1, bad, nan}}, &Params{})
		var got *LogitError
		if !errors.As(err, &got) || got.Token != 1 {
			t.Errorf("logit %v: got error %v, want one for token 1", bad, err)
		}
	}
	var got *LogitError
	if _, err := s.Sample(Row{Logits: []float32{math.MaxFloat32, 0, 0}, Prompt: []int32{0}}, &Params{RepetitionPenalty: 0.5, Temperature: 1}); !errors.As(err, &got) {
		t.Errorf("a penalty that overflows: got error %v", err)
	}
	if _, err := s.Sample(Row{Logits: []float32{1, 2, 3}, Mask: []uint64{0}}, &Params{Temperature: 1}); !errors.Is(err, ErrNoToken) {
		t.Errorf("empty mask: got error %v", err)
	}
	if _, err := s.Sample(Row{Logits: []float32{1, 2, 3}, Output: []int32{0, 3}}, &Params{PresencePenalty: 1}); err == nil {
		t.Error("token outside the vocabulary: got no error")
	}
	if c, err := s.Sample(Row{Logits: []float32{1, 2, 3}, Output: []int32{2}}, &Params{PresencePenalty: 1.5}); err != nil || c.Token != 1 {
		t.Errorf("after errors: got token %d, error %v, want 1", c.Token, err)
	}
	if _, err := New(4, Scratch{Weights: make([]float32, 4), IDs: make([]int32, 3), Counts: make([]int32, 4)}); err == nil {
		t.Error("scratch too short: got no error")
	}
}

func TestValidate(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tc := range []struct {
		p    Params
		want string // part of the error; empty for none
	}{
		{Params{}, ""},
		{Params{Temperature: 2, TopK: 5, TopP: 1, MinP: 1, RepetitionPenalty: 1.3, FrequencyPenalty: -2, PresencePenalty: 2, Bias: []Bias{{9, -100}}, TopLogprobs: 10}, ""},
		{Params{Temperature: -1}, "temperature: want 0 to 1e+06, got -1"},
		{Params{Temperature: nan}, "temperature: want 0 to 1e+06, got NaN"},
		{Params{TopK: -1}, "top_k"},
		{Params{TopP: 1.5}, "top_p"},
		{Params{TopP: nan}, "top_p"},
		{Params{MinP: -0.1}, "min_p"},
		{Params{TypicalP: 1.1}, "typical_p: want 0 to 1, got 1.1"},
		{Params{TypicalP: nan}, "typical_p"},
		{Params{RepetitionPenalty: -1}, "repetition_penalty"},
		{Params{RepetitionPenalty: 1e-40}, "repetition_penalty"}, // logits over it are infinite
		{Params{RepetitionPenalty: float32(math.NaN())}, "repetition_penalty"},
		{Params{FrequencyPenalty: inf}, "frequency_penalty: want -1e+06 to 1e+06, got +Inf"},
		{Params{PresencePenalty: nan}, "presence_penalty: want -1e+06 to 1e+06, got NaN"},
		{Params{Bias: []Bias{{10, 1}}}, "want a token below 10, got 10"},
		{Params{Bias: []Bias{{-1, 1}}}, "want a token below 10, got -1"},
		{Params{Bias: []Bias{{1, -inf}}}, "token 1: want -1e+06 to 1e+06, got -Inf"},
		{Params{TopLogprobs: 11}, "top_logprobs: want 0 to 10, got 11"},
	} {
		err := tc.p.Validate(10)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got error %v, want %q", tc.p, err, tc.want)
		}
	}
}

func TestBytes(t *testing.T) {
	const vocab = 1000
	s := Scratch{Weights: make([]float32, vocab), IDs: make([]int32, vocab), Counts: make([]int32, vocab)}
	if got, want := Bytes(vocab), int64(4*(len(s.Weights)+len(s.IDs)+len(s.Counts))); got != want {
		t.Errorf("Bytes(%d): got %d, want %d", vocab, got, want)
	}
}

func TestNoAllocs(t *testing.T) {
	logits := make([]float32, 5000)
	for i := range logits {
		logits[i] = float32(i*i%97) / 20
	}
	s := newSampler(t, len(logits))
	r := Row{Logits: logits, Prompt: []int32{1, 2, 3}, Output: []int32{4, 4}}
	p := Params{Temperature: 1, TopK: 40, TopP: 0.9, MinP: 0.01, TypicalP: 0.9, RepetitionPenalty: 1.1, Bias: []Bias{{3, 1}}, Logprobs: true, TopLogprobs: 20}
	if got := testing.AllocsPerRun(20, func() {
		if _, err := s.Sample(r, &p); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("allocations: got %v, want 0", got)
	}
}

func BenchmarkSample(b *testing.B) {
	const vocab = 131072
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(philox([4]uint32{uint32(i)}, [2]uint32{})[0])/(1<<32)*20 - 10
	}
	s := newSampler(b, vocab)
	for _, p := range []Params{{}, {Temperature: 1}, {Temperature: 1, TopK: 40}, {Temperature: 1, TopP: 0.9}, {Temperature: 1, TypicalP: 0.9}} {
		b.Run(fmt.Sprintf("T=%v,k=%d,p=%v,typical=%v", p.Temperature, p.TopK, p.TopP, p.TypicalP), func(b *testing.B) {
			b.SetBytes(4 * vocab)
			for b.Loop() {
				if _, err := s.Sample(Row{Logits: logits}, &p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
