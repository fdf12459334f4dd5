package devicetest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"loadline/compile"
	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/tensor/dtype"
)

// Run runs the suite on the devices that open makes; with -short, at a quarter of the lengths, which are
// those of the narrow types in any case. Ranks of one group run on devices of their own.
func Run(t *testing.T, open func() device.Device) {
	run(t, open, func(*compile.Instr) {})
}

// run is Run; saw is called with every instruction that the suite runs, from the test's goroutine.
func run(t *testing.T, open func() device.Device, saw func(*compile.Instr)) {
	for _, half := range []dtype.Type{dtype.F32, dtype.BF16, dtype.F16} {
		t.Run(half.String(), func(t *testing.T) {
			for _, c := range slices.Concat(matrixCases, attentionCases, elementCases, lossCases, expertCases, stateCases, kvCases()) {
				t.Run(c.name, func(t *testing.T) { c.run(t, half, open(), saw) })
			}
		})
	}
	t.Run("invariance", func(t *testing.T) { testInvariance(t, open) })
	t.Run("session", func(t *testing.T) { testSession(t, open) })
	t.Run("storage", func(t *testing.T) { testStorage(t, open, saw) })
	t.Run("stored", func(t *testing.T) { testStored(t, open, saw) })
	t.Run("collective", func(t *testing.T) { testCollectives(t, open, saw) })
	t.Run("step", func(t *testing.T) { testSteps(t, open, saw) })
}

// lengths are the widths and row counts that every operation runs at: all that vector kernels treat apart, within 1..67.
var lengths = []int{1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 67}

// opCase is one operation at one of many lengths.
type opCase struct {
	name    string
	build   func(r *rig, n int)
	lengths []int // nil means lengths
}

// rowsAt is how many rows a run at length n has: odd, even, one.
func rowsAt(n int) int { return 1 + n*7%6 }

// spareRows is how many rows the bounds have beyond the run's.
const spareRows = 3

func (c *opCase) run(t *testing.T, half dtype.Type, d device.Device, saw func(*compile.Instr)) {
	ls := c.lengths
	if ls == nil {
		ls = lengths
	}
	exactRef := ref.New(ref.F64)
	every := 1
	if testing.Short() || half != dtype.F32 {
		every = 4
	}
	for i, n := range ls {
		if i%every != 0 && i < len(ls)-1 {
			continue
		}
		for m := range numModes {
			rows := rowsAt(n)
			r := newRigOf(half, m, graph.Bounds{Rows: rows + spareRows, Outs: rows + spareRows}, uint64(n))
			r.args = device.Args{Rows: rows, Outs: 1 + rows/2}
			c.build(r, n)
			if !r.accs && m > dying {
				break
			}
			job := r.job(t)
			if err := c.compare(t, d, exactRef, r, job); err != "" {
				t.Fatalf("length %d, %s: %s", n, modeNames[m], err)
			}
			sawAll(job, saw)
		}
	}
}

func sawAll(job *compile.Job, saw func(*compile.Instr)) {
	for _, p := range job.Programs {
		for i := range p.Instrs {
			saw(&p.Instrs[i])
		}
	}
}

// compare runs r on d and in float64 and returns the first difference, or "".
func (c *opCase) compare(t *testing.T, d, exactRef device.Device, r *rig, job *compile.Job) string {
	got, want := openOn(t, d, job), openOn(t, exactRef, job)
	defer got.Close()
	defer want.Close()
	got.fill(r)
	want.fill(r)
	got.run(r.args)
	want.run(r.args)
	b := graph.Bounds{Rows: r.args.Rows, Outs: r.args.Outs}
	var mags [][]float64
	for _, o := range r.outs {
		if o.tol.mag > 0 && mags == nil {
			mags = r.magnitudes(t, exactRef, job, b)
		}
	}
	for i, o := range r.outs {
		ty := r.G.Info(o.v).Type
		if ty.DType == dtype.I32 {
			g, w := got.read(o.name, ty.Bytes(b)), want.read(o.name, ty.Bytes(b))
			if !bytes.Equal(g, w) {
				return fmt.Sprintf("%s, result %d: got %v, want %v", c.name, i, g, w)
			}
			continue
		}
		var mag []float64
		if mags != nil {
			mag = mags[i]
		}
		if err := o.tol.in(r.half, ty.DType).compare(got.floats(o.name, ty, b), want.floats(o.name, ty, b), mag); err != "" {
			return fmt.Sprintf("%s, result %d %s: %s", c.name, i, o.name, err)
		}
	}
	return got.untouched(r)
}

// magnitudes is the results of the rig on the absolute values of its data.
func (r *rig) magnitudes(t testing.TB, exactRef device.Device, job *compile.Job, b graph.Bounds) [][]float64 {
	h := openOn(t, exactRef, job)
	defer h.Close()
	abs := *r
	abs.data = slices.Clone(r.data)
	for i := range abs.data {
		f := slices.Clone(abs.data[i].f)
		for j := range f {
			f[j] = math.Abs(f[j])
		}
		abs.data[i].f = f
	}
	h.fill(&abs)
	h.run(r.args)
	var out [][]float64
	for _, o := range r.outs {
		ty := r.G.Info(o.v).Type
		if ty.DType == dtype.I32 {
			out = append(out, nil)
			continue
		}
		out = append(out, h.floats(o.name, ty, b))
	}
	return out
}

// untouched checks that no operand or guard has changed, except what an operation may write.
func (h host) untouched(r *rig) string {
	for i := range r.data {
		d := &r.data[i]
		if d.writes {
			continue
		}
		want := d.bytes()
		if got := h.read(d.name, int64(len(want))); !bytes.Equal(got, want) {
			at := 0
			for got[at] == want[at] {
				at++
			}
			return fmt.Sprintf("%q was changed, from byte %d on", d.name, at)
		}
	}
	return ""
}
