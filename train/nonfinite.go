package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"loadline/mem"
	"loadline/mem/arena"
	"loadline/tensor/dtype"
)

// NonFiniteError says that training has left the numbers. No checkpoint holds what came of it.
type NonFiniteError struct {
	Step       int64  // the step that it happened in, from 1
	What       string // "loss" or "gradient norm"
	Value      float32
	Checkpoint string // the newest checkpoint; empty if there is none

	Tensor   string // the weight that is not finite, the first in the model's order; empty if none was found
	Gradient bool   // not the weight is meant but its gradient, and the first on the way back through the model
}

// Error returns one line.
func (e *NonFiniteError) Error() string {
	s := fmt.Sprintf("train: step %d: %s is %v", e.Step, e.What, e.Value)
	switch {
	case e.Gradient:
		s += fmt.Sprintf("; the first gradient that is not finite is that of %q", e.Tensor)
	case e.Tensor != "":
		s += fmt.Sprintf("; the first weight that is not finite is %q", e.Tensor)
	}
	if e.Checkpoint != "" {
		return s + "; the last checkpoint is " + e.Checkpoint
	}
	return s + "; there is no checkpoint"
}

// OverflowError says that a run has more than float16 holds, whatever the loss scale.
type OverflowError struct {
	*NonFiniteError
	Scale float32 // the loss scale of the step
	Skips int     // steps skipped in a row, this one included; 0 if it is the forward half, which no scale helps
}

// Error returns one line.
func (e *OverflowError) Error() string {
	if e.Skips == 0 {
		return e.NonFiniteError.Error()
	}
	return fmt.Sprintf("%v; loss scale %g, steps skipped in a row: %d", e.NonFiniteError, e.Scale, e.Skips)
}

// Unwrap returns the NonFiniteError.
func (e *OverflowError) Unwrap() error { return e.NonFiniteError }

// Advice returns one line: what to do.
func (e *OverflowError) Advice() string {
	return "use --precision bf16, which has the range of fp32, or a smaller --lr"
}

func finite(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

// overflow makes an error of nonFinite an *OverflowError where the loss is scaled.
func (t *Trainer) overflow(r *StepResult, err error) error {
	var e *NonFiniteError
	if t.scaler == nil || !errors.As(err, &e) {
		return err
	}
	skips := 0
	if e.What != "loss" {
		skips = t.scaler.Row
	}
	return &OverflowError{e, r.LossScale, skips}
}

// nonFinite makes an error, with the newest checkpoint and, if States have not been updated from what was not finite, the tensor it comes
// from: the first weight that is not finite or, where gradients are kept, the first of them on the way back. Ranks, which have the same
// losses and norms, all call it, and find what any of them holds.
func (t *Trainer) nonFinite(step int64, what string, value float32, updated bool) error {
	e := &NonFiniteError{Step: step, What: what, Value: value, Checkpoint: t.last}
	if updated {
		return e
	}
	var suspects []*state
	all := t.job.states
	for i := range all {
		if s := &all[i]; s.purpose == mem.Weights {
			suspects = append(suspects, s)
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		if s := &all[i]; s.purpose == mem.Grads {
			suspects = append(suspects, s)
		}
	}
	first, err := t.firstNonFinite(suspects)
	if err != nil {
		return errors.Join(e, err)
	}
	if first < len(suspects) {
		e.Tensor, e.Gradient = suspects[first].weight(), suspects[first].purpose == mem.Grads
	}
	return e
}

// firstNonFinite is the place of the first State that is not finite on some rank, or their number.
func (t *Trainer) firstNonFinite(suspects []*state) (int, error) {
	first := len(suspects)
	var failed error
	for i, s := range suspects {
		bad, err := t.hasNonFinite(s)
		if bad || err != nil {
			first, failed = i, err
			break
		}
	}
	if t.group.Size() > 1 {
		mine, theirs := binary.LittleEndian.AppendUint32(nil, uint32(first)), make([]byte, 4*t.group.Size()) //mem:ok four bytes a rank
		if err := t.group.AllGatherBytes(theirs, mine); err != nil {
			return first, errors.Join(failed, err)
		}
		for i := 0; i < len(theirs); i += 4 {
			first = min(first, int(binary.LittleEndian.Uint32(theirs[i:])))
		}
	}
	return first, failed
}

// hasNonFinite reads what this rank holds of a State through the buffer of tokens, which nobody needs any more: the run is over.
func (t *Trainer) hasNonFinite(s *state) (bool, error) {
	w := s.width()
	lo, hi := s.shard(t.group.Size(), t.group.Rank())
	for at, n := 0, w*(hi-lo); at < n; {
		p := t.tokensBytes[:min(len(t.tokensBytes), n-at)]
		if err := t.session.Read(s.name, int64(at), p); err != nil {
			return false, fmt.Errorf("train: %w", err)
		}
		at += len(p)
		if w == 4 {
			for _, x := range arena.F32(p) {
				if !finite(x) {
					return true, nil
				}
			}
			continue
		}
		exponent := uint16(0x7f80) // all ones in a number that is not finite
		if s.typ.DType == dtype.F16 {
			exponent = 0x7c00
		}
		for i := 0; i < len(p); i += 2 {
			if binary.LittleEndian.Uint16(p[i:])&exponent == exponent {
				return true, nil
			}
		}
	}
	return false, nil
}
