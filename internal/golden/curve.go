package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// Curve is a training run that a peer made: everything needed to repeat it, and the loss it had at every step.
type Curve struct {
	Model          string    `json:"model"`   // folder of the model, beside the curve
	Weights        string    `json:"weights"` // file of the start weights, relative to the curve
	Steps          int       `json:"steps"`
	Batch          int       `json:"batch"`         // rows per step, over all micro-batches
	Seq            int       `json:"seq"`           // tokens per row
	MicroBatches   int       `json:"micro_batches"` // per step
	MicroBatchRows int       `json:"micro_batch_rows"`
	Loss           string    `json:"loss"` // what the loss is, in words
	Data           CurveData `json:"data"`
	Optimizer      CurveOpt  `json:"optimizer"`
	Clip           CurveClip `json:"clip"`
	Schedule       CurveLR   `json:"schedule"`

	LR        []float64 `json:"lr"`         // learning rate of each step
	Losses    []float32 `json:"losses"`     // before each step's update, computed in float32
	LossesF64 []float64 `json:"losses_f64"` // the same, everything in float64
	GradNorms []float32 `json:"grad_norms"` // global norm before clipping

	// RouterGaps is, for each step of a mixture of experts, the smallest distance over tokens and layers between the last chosen
	// expert's logit and the next one's; nil for a dense model. A run whose logits are off by more routes a token elsewhere, and its
	// loss then leaves the curve by about 1e-2 nats at once.
	RouterGaps []float64 `json:"router_gaps"`

	// LossesBF16 and LossesFP16 are what the peer has in 16 bits under autocast, the weights in f32; nil for curves that were not made so.
	LossesBF16 []float32 `json:"losses_bf16"`
	LossesFP16 []float32 `json:"losses_fp16"`
}

// CurveData says which bytes are the tokens; Row in words, repeated as code by Curve.Rows.
type CurveData struct {
	File   string `json:"file"` // relative to the curve
	Tokens string `json:"tokens"`
	Row    string `json:"row"`
}

// CurveOpt is the optimiser, with its update in words.
type CurveOpt struct {
	Kind        string  `json:"kind"`
	Beta1       float64 `json:"beta1"`
	Beta2       float64 `json:"beta2"`
	Eps         float64 `json:"eps"`
	WeightDecay float64 `json:"weight_decay"`
	Decayed     string  `json:"decayed"` // which tensors
	Update      string  `json:"update"`
}

// CurveClip is the clipping of the global gradient norm.
type CurveClip struct {
	MaxNorm float64 `json:"max_norm"`
	Scale   string  `json:"scale"`
}

// CurveLR is the schedule; Curve.LR holds what it gives.
type CurveLR struct {
	Kind       string  `json:"kind"` // constant or cosine
	Peak       float64 `json:"peak"`
	Warmup     int     `json:"warmup"`      // steps
	FinalRatio float64 `json:"final_ratio"` // of the peak
	Formula    string  `json:"formula"`
}

// LoadCurve reads the curve at path and fails t if it cannot.
func LoadCurve(t testing.TB, path string) *Curve {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	c, err := parseCurve(file)
	if err != nil {
		t.Fatalf("golden: %s: %v", path, err)
	}
	return c
}

// parseCurve reads a curve; a field this package does not know is an error, so that no hyper-parameter is passed over.
func parseCurve(file []byte) (*Curve, error) {
	c := new(Curve)
	decoder := json.NewDecoder(bytes.NewReader(file))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c); err != nil {
		return nil, err
	}
	for name, n := range map[string]int{
		"lr": len(c.LR), "losses": len(c.Losses), "losses_f64": len(c.LossesF64), "grad_norms": len(c.GradNorms),
	} {
		if n != c.Steps {
			return nil, fmt.Errorf("%s: want %d values, file has %d", name, c.Steps, n)
		}
	}
	for name, n := range map[string]int{"router_gaps": len(c.RouterGaps), "losses_bf16": len(c.LossesBF16), "losses_fp16": len(c.LossesFP16)} {
		if n != 0 && n != c.Steps {
			return nil, fmt.Errorf("%s: want %d values or none, file has %d", name, c.Steps, n)
		}
	}
	return c, nil
}

// Rows fills tokens and targets, each of Batch·Seq values, with the rows of a step that counts from 0. text is the data file.
func (c *Curve) Rows(tokens, targets []int32, text []byte, step int) {
	for b := range c.Batch {
		start := (step*c.Batch + b) * c.Seq % (len(text) - c.Seq - 1)
		for i := range c.Seq {
			tokens[b*c.Seq+i] = int32(text[start+i])
			targets[b*c.Seq+i] = int32(text[start+i+1])
		}
	}
}
