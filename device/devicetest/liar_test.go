package devicetest

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"loadline/compile"
	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/tensor/dtype"
)

// liar is the reference with a fault: the largest element of every result that is read is off by one part in 1024, or
// one guard is overwritten.
type liar struct {
	device.Device
	guards bool
}

type liarSession struct {
	device.Session
	guards bool
}

func (d liar) Open(job *compile.Job, env device.Env) (device.Session, error) {
	s, err := d.Device.Open(job, env)
	return liarSession{s, d.guards}, err
}

func (s liarSession) Run(program string, a device.Args) error {
	if s.guards {
		if err := s.Write("guard1", 60, []byte{0, 0, 0, 1}); err != nil {
			return err
		}
	}
	return s.Session.Run(program, a)
}

func (s liarSession) Read(name string, at int64, dst []byte) error {
	err := s.Session.Read(name, at, dst)
	if s.guards || !strings.HasPrefix(name, "out") {
		return err
	}
	top, value := 0, 0.0
	for i := 0; i+4 <= len(dst); i += 4 {
		if x := math.Abs(float64(math.Float32frombits(binary.LittleEndian.Uint32(dst[i:])))); x >= value && x <= math.MaxFloat32 {
			top, value = i, x
		}
	}
	if len(dst) >= 4 {
		binary.LittleEndian.PutUint32(dst[top:], binary.LittleEndian.Uint32(dst[top:])^1<<13)
	}
	return err
}

// TestSuiteCatches checks that each case fails on a device that is a little wrong, and on one that writes beside.
func TestSuiteCatches(t *testing.T) {
	for _, half := range []dtype.Type{dtype.F32, dtype.F16} {
		testCatches(t, half)
	}
}

func testCatches(t *testing.T, half dtype.Type) {
	exactRef := ref.New(ref.F64)
	for _, c := range slices.Concat(matrixCases, attentionCases, elementCases, lossCases, expertCases, stateCases) {
		n := 17
		if len(c.lengths) > 0 {
			n = c.lengths[len(c.lengths)-1]
		}
		rows := rowsAt(n)
		r := newRigOf(half, dying, graph.Bounds{Rows: rows + spareRows, Outs: rows + spareRows}, 5)
		r.args = device.Args{Rows: rows, Outs: 1 + rows/2}
		c.build(r, n)
		job := r.job(t)
		outs := false
		for _, o := range r.outs {
			outs = outs || strings.HasPrefix(o.name, "out") && r.G.Info(o.v).Type.Shape.Elems(r.G.Bounds) > 0
		}
		if outs && c.compare(t, liar{ref.New(ref.F32), false}, exactRef, r, job) == "" {
			t.Errorf("%s: a result off by 1/1024 passes", c.name)
		}
		if bad := c.compare(t, liar{ref.New(ref.F32), true}, exactRef, r, job); !strings.Contains(bad, "guard1") {
			t.Errorf("%s: a guard that was overwritten passes: %q", c.name, bad)
		}
	}
}
