package kernel

import "testing"

// TestVectorSetsAgree: every vector set gives the bits of the first of them.
func TestVectorSetsAgree(t *testing.T) {
	sets := Sets()[1:]
	if len(sets) < 2 {
		return // one set, or none, agrees with itself
	}
	for _, s := range sets[1:] {
		t.Run(s.Name(), func(t *testing.T) {
			r := newRand()
			for _, k := range kernels {
				for n := range 68 {
					_, in := buffers(n, k.in, n%3)
					for i := range in {
						copy(in[i], random(r, n))
					}
					_, want := buffers(n, k.out, 0)
					k.run(sets[0], want, in)
					_, got := buffers(n, k.out, 1)
					k.run(s, got, in)
					for o := range got {
						if i := diffBits(got[o], want[o]); i >= 0 {
							t.Fatalf("%s of %d, output %d at %d: got %v, want %v", k.name, n, o, i, got[o][i], want[o][i])
						}
					}
				}
			}
			for n := range 200 {
				x, y := random(r, n), random(r, n)
				if got, want := s.Dot(x, y), sets[0].Dot(x, y); got != want {
					t.Fatalf("Dot of %d: got %v, want %v", n, got, want)
				}
				a, b := random(r, n), make([]float32, n)
				copy(b, a)
				if got, want := s.ExpShift(a, a, 0.7), sets[0].ExpShift(b, b, 0.7); got != want {
					t.Fatalf("ExpShift of %d: sum got %v, want %v", n, got, want)
				}
			}
			for _, d := range [][3]int{{1, 1, 1}, {5, 40, 300}, {13, 33, 17}, {150, 100, 520}, {48, 800, 64}, {64, 128, 128}} {
				m, n, k := d[0], d[1], d[2]
				for fa := rows; fa <= strided; fa++ {
					for fb := rows; fb <= strided; fb++ {
						x, y := newMat(r, m, k, fa, 1), newMat(r, k, n, fb, 2)
						_, c0 := newC(r, m, n, 1, 0)
						want, got := clone(c0), clone(c0)
						sets[0].Gemm(want, x, y, true, workspace(r, m, n, k))
						s.Gemm(got, x, y, true, workspace(r, m, n, k))
						if i := diffBits(got.Data, want.Data); i >= 0 {
							t.Fatalf("Gemm %v forms %d %d at %d: got %v, want %v", d, fa, fb, i, got.Data[i], want.Data[i])
						}
					}
				}
			}
		})
	}
}

// TestSameBits: a set has the bits of itself, and avx2 and avx512 each other's, which TestVectorSetsAgree holds; no other pair.
func TestSameBits(t *testing.T) {
	names := []string{"generic", "avx2", "avx512", "avx512bf16", "avx512amx", "avx512amx-parts", ""}
	for _, s := range Sets() {
		for _, name := range names {
			wide := s.Name() == "avx2" && name == "avx512" || s.Name() == "avx512" && name == "avx2"
			if got, want := s.SameBits(name), wide || s.Name() == name; got != want {
				t.Errorf("%s and %q: got %v, want %v", s.Name(), name, got, want)
			}
		}
	}
}
