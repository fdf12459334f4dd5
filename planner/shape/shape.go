// Package shape describes a transformer as far as its size matters: the numbers of a config.json that decide how many
// parameters, key and value bytes, and activations it has. It knows far more architectures than package model can
// run, since nothing has to be computed, and holds cards of well-known models.
//
// Invariants of a Shape that Parse, ByName or a Validate without error returned: at least one layer, every dimension
// positive and bounded, no product of them overflows. The counts of the cards are checked against published ones.
//
// It does not read weights. Sources: the configuration classes of transformers 4.57 and each model's config.json.
package shape

import (
	"fmt"
	"math"
	"strconv"
)

// Mixer is what a layer uses to look at other tokens.
type Mixer uint8

// The mixers.
const (
	Attention Mixer = iota // softmax attention, with KVHeads keys and values a token
	Latent                 // multi-head latent attention: one compressed vector a token
	Recurrent              // linear attention or a state-space layer: a state of fixed size a sequence
	NoMixer                // a layer of only an MLP, as in hybrids
)

// Layer is one block of the model.
type Layer struct {
	Mixer   Mixer
	KVHeads int // keys and values a token; 0 where the mixer has none
	HeadDim int // of keys; values have it too
	Window  int // tokens that attention sees; 0 for all
	FFN     int // width of the dense MLP; 0 for none
	Experts int // routed experts; 0 for a dense layer
}

// Shape is a model's dimensions. Widths are in elements.
type Shape struct {
	Name   string // for people
	Arch   string // config.json's model_type
	Hidden int
	Heads  int // query heads
	// HeadDim is the width of a query head; with MLA it is NopeDim + RopeDim.
	HeadDim int
	Layers  []Layer
	Vocab   int
	Tied    bool // the output projection is the embedding
	Gated   bool // the MLP has a gate beside up and down

	Positions int // rows of a learned position embedding; 0 with rotation or none
	// MaxTokens is the longest context that the model's makers give it, scaled rotation included; 0 where unknown. Servers refuse more.
	MaxTokens  int
	QKVBias    bool // biases on query, key and value
	OutBias    bool // a bias on attention's output
	MLPBias    bool // biases in the MLP
	QKNorm     bool // norms on query and key, a vector of HeadDim
	NormBias   bool // norms with a bias (LayerNorm)
	Norms      int  // norms a layer: 2, or 4 where outputs are normed too, 1 for parallel blocks
	EmbedNorm  bool // a norm after the embedding (BLOOM)
	HeadBias   bool // a bias on the output projection (phi)
	OutputGate bool // attention's output is gated by a projection as wide as the queries (Qwen3-Next)

	// MLA.
	QRank   int // rank of the compressed query; 0 for a plain projection
	KVRank  int // rank of the compressed key and value, what is cached with RopeDim
	NopeDim int
	RopeDim int
	VDim    int // width of a value head

	// Mixture of experts, in layers that have Experts.
	TopK       int
	ExpertFFN  int // width of a routed expert
	SharedFFN  int // width of all shared experts together
	ExpertBias bool

	// Recurrent layers.
	StateElems  int // elements a sequence and layer, of four bytes
	RecurrentPs int // parameters of a recurrent layer's mixer

	// Other are parameters outside the language model, as a vision tower's, which files hold and nothing here describes.
	Other int64

	// PublishedParams is the count that the model's makers give, 0 where unknown.
	PublishedParams int64
	// Hub is the repository on the Hugging Face hub that a built-in card is of; empty where there is none.
	Hub string
}

// maxDim bounds every dimension, so that products of four stay below 2⁶³.
const maxDim = 1 << 24

// Validate tells what makes s no model.
func (s *Shape) Validate() error {
	for _, d := range []struct {
		name      string
		n, lo, hi int
	}{
		{"hidden size", s.Hidden, 1, 1 << 20}, {"heads", s.Heads, 1, 1 << 14}, {"head size", s.HeadDim, 1, 1 << 16},
		{"vocabulary", s.Vocab, 1, maxDim}, {"layers", len(s.Layers), 1, 4096}, {"positions", s.Positions, 0, maxDim},
		{"experts a token", s.TopK, 0, 1 << 16}, {"expert width", s.ExpertFFN, 0, 1 << 20}, {"shared expert width", s.SharedFFN, 0, 1 << 20},
		{"query rank", s.QRank, 0, 1 << 16}, {"key-value rank", s.KVRank, 0, 1 << 16},
		{"recurrent layers' parameters", s.RecurrentPs, 0, 1 << 50}, {"recurrent layers' state", s.StateElems, 0, 1 << 50},
		{"unrotated head size", s.NopeDim, 0, 1 << 16}, {"rotated head size", s.RopeDim, 0, 1 << 16}, {"value head size", s.VDim, 0, 1 << 16},
	} {
		if d.n < d.lo || d.n > d.hi {
			return fmt.Errorf("shape: %s of %s: want %d to %d, got %s; the nearest valid value is %d", d.name, s.Name, d.lo, d.hi, number(d.n), min(d.hi, max(d.lo, d.n)))
		}
	}
	for i, l := range s.Layers {
		switch {
		case l.KVHeads < 0 || l.KVHeads > 1<<14 || l.HeadDim < 0 || l.HeadDim > 1<<16 || l.Window < 0:
			return fmt.Errorf("shape: layer %d of %s: got %d key-value heads of %d, window %d", i, s.Name, l.KVHeads, l.HeadDim, l.Window)
		case l.FFN < 0 || l.FFN > 1<<22:
			return fmt.Errorf("shape: layer %d of %s: got an MLP of width %d", i, s.Name, l.FFN)
		case l.Mixer == Attention && l.KVHeads > 0 && s.Heads%l.KVHeads != 0:
			return fmt.Errorf("shape: layer %d of %s: %d key-value heads do not divide %d heads; the nearest valid value is %d", i, s.Name, l.KVHeads, s.Heads, nearestDivisor(s.Heads, l.KVHeads))
		case l.Experts > 0 && s.TopK > l.Experts:
			return fmt.Errorf("shape: layer %d of %s: got %d experts a token of %d; the nearest valid value is %d", i, s.Name, s.TopK, l.Experts, l.Experts)
		case l.Experts < 0 || l.Experts > 1<<16 || l.Experts > 0 && s.ExpertFFN == 0:
			return fmt.Errorf("shape: layer %d of %s: got %d experts of width %d", i, s.Name, l.Experts, s.ExpertFFN)
		}
	}
	if p := s.count(); p > math.MaxInt64/1024 {
		return fmt.Errorf("shape: %s: got %.0f parameters, want at most 9,000,000,000,000,000", s.Name, p)
	}
	return nil
}

// huge is a number that a config.json had, or more: beyond every bound, so that two of them can be multiplied.
const huge = 1 << 31

// number writes a dimension.
func number(n int) string {
	if n == huge {
		return "more than 2e9"
	}
	return strconv.Itoa(n)
}

// Depth returns the number of layers.
func (s *Shape) Depth() int { return len(s.Layers) }

// QWidth returns the width of all query heads.
func (s *Shape) QWidth() int { return s.Heads * s.HeadDim }

// KVWidth returns the width of a layer's keys, which is that of its values.
func (s *Shape) KVWidth(i int) int { return s.Layers[i].KVHeads * s.Layers[i].HeadDim }

// MLA tells whether any layer has latent attention.
func (s *Shape) MLA() bool { return s.KVRank > 0 }

// MoE tells whether any layer has routed experts.
func (s *Shape) MoE() bool {
	for _, l := range s.Layers {
		if l.Experts > 0 {
			return true
		}
	}
	return false
}

// FFN returns the widest dense MLP.
func (s *Shape) FFN() int {
	n := 0
	for _, l := range s.Layers {
		n = max(n, l.FFN)
	}
	return n
}

// KVHeads returns the most key-value heads of a layer.
func (s *Shape) KVHeads() int {
	n := 0
	for _, l := range s.Layers {
		n = max(n, l.KVHeads)
	}
	return n
}
