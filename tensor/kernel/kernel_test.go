package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// eachSet runs f for every set of this CPU.
func eachSet(t *testing.T, f func(t *testing.T, s Set)) {
	for _, s := range Sets() {
		t.Run(s.Name(), func(t *testing.T) { f(t, s) })
	}
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

const guard = float32(-12345.5)

// guarded is a slice between guard values, at an offset that misaligns it.
type guarded struct{ all, v []float32 }

func newGuarded(n, off int) guarded {
	all := make([]float32, 16+off+n+16)
	for i := range all {
		all[i] = guard
	}
	return guarded{all, all[16+off:][:n:n]}
}

// check fails when a value beside the slice changed.
func (g guarded) check(t *testing.T, what string) {
	t.Helper()
	off := len(g.all) - len(g.v) - 16
	for i, v := range g.all {
		if (i < off || i >= off+len(g.v)) && v != guard {
			t.Fatalf("%s: wrote %v at %d, outside the slice of %d at %d", what, v, i, len(g.v), off)
		}
	}
}

// random returns n values in (-1,1) times a power of two that varies.
func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32((r.Float64()*2 - 1) * math.Exp2(float64(r.IntN(9)-4)))
	}
	return x
}

func sameBits(a, b []float32) bool { return diffBits(a, b) < 0 }

// diffBits returns the first index where the bits differ (any NaN equals any other), or -1.
func diffBits(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			return i
		}
	}
	return -1
}

func TestSets(t *testing.T) {
	all := Sets()
	if all[0] != Generic() || Generic().Name() != "generic" {
		t.Errorf("first set is %q, want generic", all[0].Name())
	}
	for range 20 {
		if Best() != Best() {
			t.Fatal("Best changes from call to call")
		}
	}
	if best := Best(); !slices.Contains(all, best) || len(all) > 1 && best == Generic() {
		t.Errorf("Best is %q, want a vector set of Sets where there is one", best.Name())
	}
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.Name()] {
			t.Errorf("set %q occurs twice", s.Name())
		}
		seen[s.Name()] = true
	}
}

func TestWrongLengthPanics(t *testing.T) {
	for name, f := range map[string]func(s Set, x, y []float32){
		"Add":     func(s Set, x, y []float32) { s.Add(x, x, y) },
		"Dot":     func(s Set, x, y []float32) { s.Dot(x, y) },
		"SwiGLU":  func(s Set, x, y []float32) { s.SwiGLU(x, y, x) },
		"RMSNorm": func(s Set, x, y []float32) { s.RMSNorm(x, x, y, 1) },
		"AdamW":   func(s Set, x, y []float32) { s.AdamW(x, x, x, y, AdamW{}) },
		"Rope":    func(s Set, x, y []float32) { s.Rope(x, x, y, y) },
		"Gemm": func(s Set, x, y []float32) {
			s.Gemm(RowMajor(x, 1, 1, 1), RowMajor(x, 1, 1, 1), RowMajor(y, 1, 1, 1), false, nil)
		},
	} {
		eachSet(t, func(t *testing.T, s Set) {
			defer func() {
				if recover() == nil {
					t.Errorf("%s with slices of different lengths did not panic", name)
				}
			}()
			f(s, make([]float32, 8), make([]float32, 7))
		})
	}
}
