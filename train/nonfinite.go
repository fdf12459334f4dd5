package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"loadline/compile"
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
	Computed string // weights are finite: what is the first that a step makes of them that is not; empty if that was not looked for
}

// prober is a session that can tell which instruction of a program is the first to make something that is not finite, or how many there are.
type prober interface {
	FirstNonFinite(program string) (int, error)
}

// Error returns one line.
func (e *NonFiniteError) Error() string {
	s := fmt.Sprintf("train: step %d: %s is %v", e.Step, e.What, e.Value)
	switch {
	case e.Computed != "":
		s += "; the first value that is not finite is " + e.Computed
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
// from: the first weight that is not finite; else, of a loss, what is first computed that is not; else, where gradients are kept, the first of
// them on the way back. Ranks, which have the same losses and norms, all call it, and find what any of them holds.
func (t *Trainer) nonFinite(step int64, what string, value float32, updated bool) error {
	e := &NonFiniteError{Step: step, What: what, Value: value, Checkpoint: t.last}
	if updated {
		return e
	}
	var weights, grads []*state
	for i := range t.job.states {
		switch s := &t.job.states[i]; s.purpose {
		case mem.Weights:
			weights = append(weights, s)
		case mem.Grads:
			grads = append(grads, s)
		}
	}
	slices.Reverse(grads)
	first, err := t.firstNonFinite(weights)
	if err != nil {
		return errors.Join(e, err)
	}
	if first < len(weights) {
		e.Tensor = weights[first].weight()
		return e
	}
	if p, ok := t.session.(prober); ok && what == "loss" && t.o.split() { // the run is over: what becomes of gradients does not matter
		at, err := p.FirstNonFinite(MicroProgram)
		if at, err = t.least(at, err); err != nil {
			return errors.Join(e, err)
		}
		if e.Computed = resultOf(t.job.Program(MicroProgram), at); e.Computed != "" {
			return e
		}
	}
	if first, err = t.firstNonFinite(grads); err != nil {
		return errors.Join(e, err)
	}
	if first < len(grads) {
		e.Tensor, e.Gradient = grads[first].weight(), true
	}
	return e
}

// resultOf describes what an instruction makes; "" where there is none.
func resultOf(p *compile.Program, at int) string {
	if at >= len(p.Instrs) {
		return ""
	}
	in := &p.Instrs[at]
	name := in.Op.Kind()
	for _, o := range in.Out {
		if o.Buffer >= 0 {
			value, _, _ := strings.Cut(p.Buffers[o.Buffer].Name, "#") // which one of that name the layer tells
			name = value + ", made by " + name
			break
		}
	}
	if in.Layer >= 0 {
		name += fmt.Sprintf(" in layer %d", in.Layer)
	}
	return name
}

// firstNonFinite is the place of the first State that is not finite on some rank, or their number.
func (t *Trainer) firstNonFinite(suspects []*state) (int, error) {
	for i, s := range suspects {
		if bad, err := t.hasNonFinite(s); bad || err != nil {
			return t.least(i, err)
		}
	}
	return t.least(len(suspects), nil)
}

// least is the least of what all ranks give, each of which has no less than 0.
func (t *Trainer) least(mine int, failed error) (int, error) {
	if t.group.Size() == 1 {
		return mine, failed
	}
	all := make([]byte, 4*t.group.Size()) //mem:ok four bytes a rank
	if err := t.group.AllGatherBytes(all, binary.LittleEndian.AppendUint32(nil, uint32(mine))); err != nil {
		return mine, errors.Join(failed, err)
	}
	for i := 0; i < len(all); i += 4 {
		mine = min(mine, int(binary.LittleEndian.Uint32(all[i:])))
	}
	return mine, failed
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
