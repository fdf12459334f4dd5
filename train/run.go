package train

import (
	"context"
)

// Hooks are called by Run; each may be nil.
type Hooks struct {
	Step func(StepResult)
	Eval func(step int64, loss float32)
	Save func(step int64, path string)
}

// Run makes steps until Options.Steps are done or ctx is, evaluates and saves as the options say, and saves at the end. When ctx is done
// it finishes the step in progress first, and returns done false. With several ranks all stop at the same step, as soon as one of them
// is asked to.
func (t *Trainer) Run(ctx context.Context, h Hooks) (done bool, err error) {
	for t.step < int64(t.o.Steps) {
		stop, err := t.anyone(ctx.Err() != nil)
		if err != nil {
			return false, err
		}
		if stop {
			return false, t.save(h)
		}
		r, err := t.Step()
		if err != nil {
			return false, err
		}
		if h.Step != nil {
			h.Step(r)
		}
		if err := t.after(h); err != nil {
			return false, err
		}
	}
	return true, t.save(h)
}

// after evaluates and saves if this step is one to do it at.
func (t *Trainer) after(h Hooks) error {
	if n := int64(t.o.EvalEvery); n > 0 && (t.step%n == 0 || t.step == int64(t.o.Steps)) {
		loss, err := t.Eval()
		if err != nil {
			return err
		}
		if h.Eval != nil {
			h.Eval(t.step, loss)
		}
	}
	if n := int64(t.o.SaveEvery); n > 0 && t.step%n == 0 {
		return t.save(h)
	}
	return nil
}

// save saves unless this step is saved.
func (t *Trainer) save(h Hooks) error {
	if t.env.Out == nil || t.saved == t.step {
		return nil
	}
	path, err := t.Save()
	if err != nil {
		return err
	}
	if h.Save != nil {
		h.Save(t.step, path)
	}
	return nil
}

// anyone tells whether the answer is yes on any rank. Every rank calls it.
func (t *Trainer) anyone(yes bool) (bool, error) {
	if t.group.Size() == 1 {
		return yes, nil
	}
	mine, all := [1]byte{}, make([]byte, t.group.Size()) //mem:ok a byte a rank
	if yes {
		mine[0] = 1
	}
	if err := t.group.AllGatherBytes(all, mine[:]); err != nil {
		return false, err
	}
	for _, b := range all {
		if b != 0 {
			return true, nil
		}
	}
	return false, nil
}
