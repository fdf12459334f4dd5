package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"loadline/compile"
	"loadline/device"
	"loadline/graph"
	"loadline/model"
	"loadline/train/checkpoint"
)

// StepResult is what a step gives.
type StepResult struct {
	Step     int64   // steps done, this one included
	Loss     float32 // mean over the targets of the step, before its update, in nats
	GradNorm float32 // global norm before clipping; 0 where it is not computed, or not finite and the step skipped
	LR       float64
	Tokens   int     // targets of the step, over all ranks
	Seconds  float64 // wall time

	LossScale float32 // what the loss was multiplied by; 0 where it is not scaled
	Skipped   bool    // the gradients overflowed and changed nothing
}

// Step makes one step: batches, forward and backward, update. After an error the States are between steps, and the Trainer only closes.
func (t *Trainer) Step() (StepResult, error) {
	if t.broken != nil {
		return StepResult{}, t.broken
	}
	r, err := t.makeStep()
	if err != nil {
		t.broken = err
		return StepResult{}, err
	}
	t.step++
	t.losses = append(t.losses, r.Loss)
	return r, nil
}

func (t *Trainer) makeStep() (StepResult, error) {
	begin := time.Now()
	total := t.o.Sequences() * t.o.Seq
	r := StepResult{Step: t.step + 1, LR: t.o.Rate(t.step), Tokens: total}
	if err := t.writeHyper(r.LR); err != nil {
		return r, err
	}
	scale := float32(1)
	if t.scaler != nil {
		scale, r.LossScale = t.scaler.Scale, t.scaler.Scale
	}
	if err := t.writeF32(model.LossWeightInput, float32(1/float64(total))*scale); err != nil {
		return r, err
	}
	program := StepProgram
	if t.o.split() {
		program = MicroProgram
	}
	for m := range t.o.Accumulate {
		if err := t.env.Train.Next(t.tokens, t.targets); err != nil {
			return r, fmt.Errorf("train: step %d: %w", r.Step, err)
		}
		loss, err := t.runBatch(program, m)
		if err != nil {
			return r, err
		}
		r.Loss += loss / scale
		if !finite(r.Loss) { // of the forward half, which no loss scale helps
			return r, t.overflow(&r, t.nonFinite(r.Step, "loss", r.Loss, program == StepProgram))
		}
	}
	if err := t.update(&r); err != nil {
		return r, err
	}
	r.Seconds = time.Since(begin).Seconds()
	return r, nil
}

// update ends a step: gradients become changes of weights, unless they have overflowed.
func (t *Trainer) update(r *StepResult) (err error) {
	if t.scaler != nil {
		return t.updateScaled(r)
	}
	if t.o.split() {
		if err := t.run(UpdateProgram); err != nil {
			return err
		}
	}
	if t.o.Clip > 0 {
		if r.GradNorm, err = t.readF32(compile.NormOutput); err != nil {
			return err
		}
		if !finite(r.GradNorm) {
			return t.nonFinite(r.Step, "gradient norm", r.GradNorm, true)
		}
	}
	return nil
}

// updateScaled updates if the norm of the gradients is finite, and skips the step otherwise. Ranks hold the same gradients, so all
// decide alike.
func (t *Trainer) updateScaled(r *StepResult) (err error) {
	if err := t.run(NormProgram); err != nil {
		return err
	}
	if r.GradNorm, err = t.readF32(compile.NormOutput); err != nil {
		return err
	}
	if finite(r.GradNorm) {
		t.scaler.Clean()
		return t.run(UpdateProgram)
	}
	if !t.scaler.Overflow() {
		return t.overflow(r, t.nonFinite(r.Step, "gradient norm", r.GradNorm, false))
	}
	r.GradNorm, r.Skipped = 0, true
	return t.run(SkipProgram)
}

// runBatch runs a program on the batch in the buffers, micro-batch m of its step, and returns its loss, summed over ranks.
func (t *Trainer) runBatch(program string, m int) (float32, error) {
	if err := t.session.Write(model.TokensInput, 0, t.tokensBytes); err != nil {
		return 0, fmt.Errorf("train: %w", err)
	}
	if err := t.session.Write(model.TargetsInput, 0, t.targetsBytes); err != nil {
		return 0, fmt.Errorf("train: %w", err)
	}
	if t.o.Dropout > 0 && program != EvalProgram {
		first := (m*t.o.Ranks + t.group.Rank()) * t.o.Batch * t.o.Seq
		var p [8]byte
		binary.LittleEndian.PutUint32(p[:], stepSeed(t.o.Seed, t.step))
		binary.LittleEndian.PutUint32(p[4:], uint32(first))
		if err := t.session.Write(model.SeedInput, 0, p[:]); err != nil {
			return 0, fmt.Errorf("train: %w", err)
		}
	}
	if err := t.run(program); err != nil {
		return 0, err
	}
	return t.readF32("loss")
}

// stepSeed is the seed of a step: SplitMix64's finaliser over the run's seed and the step.
func stepSeed(seed uint64, step int64) uint32 {
	x := seed + 0x9e3779b97f4a7c15*uint64(step+1)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return uint32((x ^ x>>31) >> 32)
}

// writeHyper writes the update's numbers for the step in progress. Bias corrections are made in float64 and rounded once.
func (t *Trainer) writeHyper(lr float64) error {
	var h [graph.HyperLen]float32
	n, scale := float64(t.step+1), float32(1)
	if t.scaler != nil { // a step that is skipped is none to the moments
		n, scale = float64(t.step+1-t.scaler.Skipped), t.scaler.Scale
	}
	h[graph.HyperLR] = float32(lr)
	h[graph.HyperBias1] = float32(1 - math.Pow(t.o.Beta1, n))
	h[graph.HyperBias2] = float32(1 - math.Pow(t.o.Beta2, n))
	h[graph.HyperGrad] = 1 / scale
	h[graph.HyperDecay2] = float32(1 - math.Pow(n, -0.8)) // arXiv 1804.04235, section 7.2
	seed := stepSeed(^t.o.Seed, t.step)                   // not the one of dropout
	h[graph.HyperSeedLo], h[graph.HyperSeedHi] = float32(seed&0xffff), float32(seed>>16)
	var p [4 * graph.HyperLen]byte
	for i, x := range h {
		binary.LittleEndian.PutUint32(p[4*i:], math.Float32bits(x))
	}
	if err := t.session.Write(compile.HyperInput, 0, p[:]); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

func (t *Trainer) run(program string) error {
	if err := t.session.Run(program, device.Args{}); err != nil {
		return fmt.Errorf("train: step %d: %w", t.step+1, err)
	}
	return nil
}

func (t *Trainer) writeF32(name string, x float32) error {
	var p [4]byte
	binary.LittleEndian.PutUint32(p[:], math.Float32bits(x))
	if err := t.session.Write(name, 0, p[:]); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

func (t *Trainer) readF32(name string) (float32, error) {
	var p [4]byte
	if err := t.session.Read(name, 0, p[:]); err != nil {
		return 0, fmt.Errorf("train: %w", err)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(p[:])), nil
}

// Eval returns the mean loss over all windows of the validation data, without dropout, and notes it. A batch's loss is a sum in float32,
// that of batches in float64.
func (t *Trainer) Eval() (float32, error) {
	if t.broken != nil {
		return 0, t.broken
	}
	if err := t.writeF32(model.LossWeightInput, 1); err != nil {
		return 0, err
	}
	t.env.Val.Rewind()
	var sum float64
	for {
		rows, err := t.env.Val.Next(t.tokens, t.targets)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("train: evaluation: %w", err)
		}
		clear(t.tokens[rows*t.o.Seq:])
		for i := rows * t.o.Seq; i < len(t.targets); i++ {
			t.targets[i] = -1 // a row that is not there
		}
		loss, err := t.runBatch(EvalProgram, 0)
		if err != nil {
			return 0, err
		}
		sum += float64(loss)
	}
	mean := float32(sum / (float64(t.env.Val.Windows()) * float64(t.o.Seq)))
	if !finite(mean) {
		t.broken = t.nonFinite(t.step, "validation loss", mean, false)
		return 0, t.broken
	}
	t.valLosses = append(t.valLosses, checkpoint.ValLoss{Step: t.step, Loss: mean})
	return mean, nil
}
