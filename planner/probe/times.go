package probe

import (
	"slices"
	"time"

	"loadline/compile"
)

// Quantile is the part of the times of one thing below which Low lies.
const Quantile = 0.1

// Low is what a tenth of the times are below: of ten and fewer the least. What else runs takes time away from some tries and gives it to
// none, so the lowest say what the machine does undisturbed; of many the very least is left out, which may have been luck. Of no times it is 0.
func Low(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return x[int(Quantile*float64(len(x)-1))]
}

// Times are how long the steps of one setting took, and each of their instructions.
type Times struct {
	Steps  []float64   // seconds
	instrs [][]float64 // by instruction, in order of execution
}

// Add makes a step of setting i and adds its times.
func (t *Times) Add(r *Rig, i int) error {
	n := 0
	begin := time.Now()
	err := r.Watch(i, func(_ *compile.Program, _ *compile.Instr, d time.Duration) {
		if n == len(t.instrs) {
			t.instrs = append(t.instrs, nil)
		}
		t.instrs[n] = append(t.instrs[n], d.Seconds())
		n++
	})
	if err != nil {
		return err
	}
	t.Steps = append(t.Steps, time.Since(begin).Seconds())
	return nil
}

// Instrs is Low of every instruction. Something that takes the processor away for a moment meets a few instructions of a step, and seldom
// the same ones of the next.
func (t *Times) Instrs() (out []float64) {
	for _, x := range t.instrs {
		out = append(out, Low(x))
	}
	return out
}

// Undisturbed is a step's seconds if nothing else ran: the sum of Instrs.
func (t *Times) Undisturbed() (sum float64) {
	for _, s := range t.Instrs() {
		sum += s
	}
	return sum
}
