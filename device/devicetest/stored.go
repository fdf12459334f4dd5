package devicetest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// storedTypes are the types narrower than f32 that weights are stored in.
var storedTypes = []dtype.Type{
	dtype.F16, dtype.BF16, dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1, dtype.Q8_0, dtype.Q2_K, dtype.Q3_K, dtype.Q4_K, dtype.Q5_K, dtype.Q6_K,
	dtype.IQ4_NL, dtype.IQ4_XS, dtype.MXFP4, dtype.G4_32, dtype.G4_64, dtype.G4_128, dtype.G8_32, dtype.G8_64, dtype.G8_128,
	dtype.F8_32, dtype.F8_64, dtype.F8_128, dtype.NF4_64,
}

// stored is a rig whose weights come from a file through the program "load".
type stored struct {
	*rig
	load    *graph.Builder
	weights map[string][]float64
}

// weight declares a State of dims in type t, which load fills.
func (s *stored) weight(name string, t dtype.Type, dims ...graph.Dim) graph.Value {
	ty := graph.Type{DType: t, Shape: graph.S(dims...)}
	x := s.noise(int(ty.Shape.Elems(graph.Bounds{})))
	for i := range x {
		x[i] /= 8
	}
	s.weights[name] = x
	s.load.Apply(graph.Restore{}, s.load.State(name, ty, mem.Weights))
	v := s.State(name, ty, mem.Weights)
	s.fence()
	return v
}

// file is what a file has of the weights, or of their magnitudes.
func (s *stored) file(t testing.TB, magnitudes bool) map[string][]byte {
	files := map[string][]byte{}
	for name, x := range s.weights {
		f := make([]float32, len(x))
		for i, v := range x {
			if f[i] = float32(v); magnitudes {
				f[i] = float32(math.Abs(v))
			}
		}
		d := s.G.Info(s.G.Find(name)).Type.DType
		files[name] = make([]byte, d.Bytes(int64(len(f))))
		if g, ok := quant.GroupOf(d); ok {
			encodeGroups(files[name], g, f)
			continue
		}
		format, _ := quant.Of(d)
		if err := quant.Encode(files[name], format, f); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// encodeGroups rounds x to codes, from the least to the largest of each group.
func encodeGroups(dst []byte, g quant.Group, x []float32) {
	codes := make([]uint8, g.Elems)
	top := float32(int(1)<<g.Bits - 1)
	for ; len(x) > 0; dst, x = dst[g.Bytes():], x[g.Elems:] {
		group := x[:g.Elems]
		if values := g.Table.Values(); values != nil {
			scale := max(-slices.Min(group), slices.Max(group)) / largest(values)
			for i, v := range group {
				if codes[i] = dtype.ToE4M3(v / scale); g.Table != quant.TableE4M3 {
					codes[i] = nearest(values, v/scale)
				}
			}
			g.Put(dst[:g.Bytes()], codes, scale, 0)
			continue
		}
		lo, hi := min(slices.Min(group), 0), slices.Max(group)
		scale := (hi - lo) / top
		zero := float32(math.Round(float64(-lo / scale)))
		for i, v := range group {
			codes[i] = uint8(min(max(float32(math.Round(float64(v/scale)))+zero, 0), top))
		}
		g.Put(dst[:g.Bytes()], codes, scale, zero)
	}
}

// largest is the largest of a table's values, and nearest the code of the one nearest to x; NaN is neither.
func largest(values []float32) (most float32) {
	for _, v := range values {
		if v > most {
			most = v
		}
	}
	return most
}

func nearest(values []float32, x float32) (code uint8) {
	for i, v := range values {
		if math.Abs(float64(v-x)) < math.Abs(float64(values[code]-x)) {
			code = uint8(i)
		}
	}
	return code
}

// job is the programs test and load.
func (s *stored) job(t testing.TB) *compile.Job {
	t.Helper()
	var programs []*compile.Program
	for _, g := range []*graph.Graph{s.G, s.load.G} {
		p, err := compile.Step(g, compile.Options{Machine: cost.Laptop2()})
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	return jobOf(t, programs...)
}

// restore runs load, twice: the second fills what the first has filled.
func (h host) restore(files map[string][]byte) {
	h.t.Helper()
	for range 2 {
		left := map[string][]byte{}
		for name, p := range files {
			left[name] = p
		}
		h.runProgram("load", device.Args{Source: func(state string, p []byte) error {
			if n := copy(p, left[state]); n < len(p) || n == 0 || n > graph.ChunkBytes {
				return fmt.Errorf("%d bytes are asked for, %d are left", len(p), len(left[state]))
			}
			left[state] = left[state][len(p):]
			return nil
		}})
		for name, p := range left {
			if len(p) > 0 {
				h.t.Errorf("%d bytes of %q were not asked for", len(p), name)
			}
		}
	}
}

// testStored runs products of f32 rows with weights in every type that they are stored in, and look-ups in the same weights.
func testStored(t *testing.T, open func() device.Device, saw func(*compile.Instr)) {
	for _, ty := range storedTypes {
		t.Run(ty.String(), func(t *testing.T) {
			// Of the types that are quick to write, more than a chunk to restore.
			shapes := [][3]int{{5, 1, 1}, {48, 3, 4}, {67, 2, 11}}
			switch {
			case ty == dtype.Q4_0:
				shapes[2] = [3]int{259, 40, 11}
			case !ty.Block():
				shapes = [][3]int{{5, 1, 1}, {48, 37, 4}, {259, 600, 11}}
			}
			if testing.Short() && ty.BlockElems() > 32 {
				shapes = shapes[1:2]
			}
			for _, s := range shapes {
				testStoredAt(t, ty, s[0], s[1]*ty.BlockElems(), s[2], open(), saw)
			}
			testStoredRefusals(t, ty, open())
		})
	}
}

func testStoredAt(t *testing.T, ty dtype.Type, f, k, rows int, d device.Device, saw func(*compile.Instr)) {
	t.Helper()
	const e = 3
	s := &stored{newRig(persistent, graph.Bounds{Rows: rows + spareRows, Outs: 1}, uint64(k)), graph.NewBuilder("load", graph.Bounds{}), map[string][]float64{}}
	s.args = device.Args{Rows: rows}
	w, experts := s.weight("w", ty, graph.D(f), graph.D(k)), s.weight("experts", ty, graph.D(e), graph.D(f), graph.D(k))
	x := s.f("x", s.noise(rows*k), graph.R(1), graph.D(k))
	tol := sums(k)
	if ty.Rounds() {
		// Two roundings for each half of a group; what is widened is rounded twice, and of a scale and a minimum that cancel each.
		tol = tolerance{mag: float64(k) + 128, why: "a chain of scaled sums"}
	}
	s.check(s.MatMul(x, w), tol)
	s.check(s.Linear(x, w, s.f("bias", s.noise(f), graph.D(f))), tol)
	if _, grouped := quant.GroupOf(ty); !grouped {
		s.check(s.EmbeddingF32(s.i("tokens", s.ints(rows, f), graph.R(1)), w), exact)
	}
	rowsOf := s.f("sorted", s.noise(9*k), graph.D(9), graph.D(k))
	offsets := s.i("offsets", []int32{0, 3, 3, 9}, graph.D(e+1))
	s.check(s.GroupedMatMul(rowsOf, experts, offsets), tol)
	s.check(s.GroupedMatMul(rowsOf, experts, offsets), tol)

	job := s.job(t)
	sawAll(job, saw)
	got, want, mags := openOn(t, d, job), openOn(t, ref.New(ref.F64), job), openOn(t, ref.New(ref.F64), job)
	defer got.Close()
	defer want.Close()
	defer mags.Close()
	abs := *s.rig
	abs.data = nil
	for _, x := range s.data {
		x.f = append([]float64(nil), x.f...)
		for i := range x.f {
			x.f[i] = math.Abs(x.f[i])
		}
		abs.data = append(abs.data, x)
	}
	for _, h := range []host{got, want} {
		h.fill(s.rig)
		h.restore(s.file(t, false))
		h.run(s.args)
	}
	mags.fill(&abs)
	mags.restore(s.file(t, true))
	mags.run(s.args)
	b := graph.Bounds{Rows: rows, Outs: 1}
	for i, o := range s.outs {
		ty := s.G.Info(o.v).Type
		if err := o.tol.compare(got.floats(o.name, ty, b), want.floats(o.name, ty, b), mags.floats(o.name, ty, b)); err != "" {
			t.Fatalf("(%d,%d), %d rows, result %d: %s", f, k, rows, i, err)
		}
	}
	if err := got.untouched(s.rig); err != "" {
		t.Fatalf("(%d,%d), %d rows: %s", f, k, rows, err)
	}
	// Each row alone, and the rows of each expert, have the bits that they have together.
	whole := got.read(s.outs[0].name, int64(rows)*4*int64(f))
	data := s.datum("x").bytes()
	for r := range rows {
		if err := got.Write("x", 0, data[r*4*k:(r+1)*4*k]); err != nil {
			t.Fatal(err)
		}
		got.run(device.Args{Rows: 1})
		if one := got.read(s.outs[0].name, 4*int64(f)); !bytes.Equal(one, whole[r*4*f:(r+1)*4*f]) {
			t.Fatalf("(%d,%d): row %d of %d differs when it runs alone", f, k, r, rows)
		}
	}
}

// testStoredRefusals checks that no one takes what lies in an order of the device's own for what a file has.
func testStoredRefusals(t *testing.T, ty dtype.Type, d device.Device) {
	if !ty.Block() {
		return
	}
	s := &stored{newRig(persistent, graph.Bounds{Rows: 1, Outs: 1}, 1), graph.NewBuilder("load", graph.Bounds{}), map[string][]float64{}}
	s.MatMul(s.f("x", s.noise(256), graph.R(1), graph.D(256)), s.weight("w", ty, graph.D(16), graph.D(256)))
	h := openOn(t, d, s.job(t))
	defer h.Close()
	if err := h.Write("w", 0, make([]byte, 8)); err == nil || !strings.Contains(err.Error(), "Restore") {
		t.Errorf("Write to a weight of %v: got %v", ty, err)
	}
	if err := h.Read("w", 0, make([]byte, 8)); err == nil || !strings.Contains(err.Error(), "Restore") {
		t.Errorf("Read of a weight of %v: got %v", ty, err)
	}
	if err := h.Run("load", device.Args{}); err == nil {
		t.Errorf("restoring without a source: want an error")
	}
}
