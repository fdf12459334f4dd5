package kernel

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"loadline/tensor/quant"
)

// Whatever the pieces, a matrix is packed to the same bytes as row by row.
func TestPackHalves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, k := range []int{1, 3, 4, 5, 8, 17, 64, 67} {
		for _, n := range []int{1, 15, 16, 17, 48, 50} {
			src := make([]byte, 2*n*k)
			for i := range src {
				src[i] = byte(rng.Uint32())
			}
			want := QuantWeights{Type: quant.F16, N: n, K: k, Data: make([]byte, QuantWeightsLen(quant.F16, n, k))}
			for r := range n {
				packHalf(want.Data[r/QuantPanel*2*QuantPanel*k:][:2*QuantPanel*k], src[2*r*k:2*(r+1)*k], r%QuantPanel)
			}
			for _, piece := range []int{2, 2 * k, 2 * (k + 1), 2 * 16 * k, 2 * 20 * k, 2 * n * k} {
				got := want
				got.Data = make([]byte, len(want.Data))
				for at := 0; at < len(src); at += piece {
					got.PackFrom(src[at:min(at+piece, len(src))], at)
				}
				if !bytes.Equal(got.Data, want.Data) {
					t.Fatalf("%d rows of %d in pieces of %d bytes: other bytes than row by row", n, k, piece)
				}
			}
		}
	}
}

func BenchmarkPackHalves(b *testing.B) {
	const n, k = 512, 2048
	src := make([]byte, 2*n*k)
	w := QuantWeights{Type: quant.F16, N: n, K: k, Data: make([]byte, QuantWeightsLen(quant.F16, n, k))}
	for name, piece := range map[string]int{"panels": len(src), "rows": 2 * k} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				for at := 0; at < len(src); at += piece {
					w.PackFrom(src[at:at+piece], at)
				}
			}
		})
	}
}

// The same of blocks: pieces of whole panels are turned, others not.
func TestPackTurned(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, typ := range []quant.Type{quant.Q4_0, quant.IQ4_NL, quant.Q4_1, quant.Q8_0, quant.Q4_K, quant.Q6_K, quant.Q5_0} {
		size := typ.BlockBytes()
		for _, blocks := range []int{1, 3} {
			for _, n := range []int{1, 15, 16, 17, 48, 50} {
				k, row := blocks*typ.BlockElems(), blocks*size
				src := make([]byte, n*row)
				for i := range src {
					src[i] = byte(rng.Uint32())
				}
				want := QuantWeights{Type: typ, N: n, K: k, Data: make([]byte, QuantWeightsLen(typ, n, k))}
				want.Pack(src, 0)
				for _, piece := range []int{size, row, 16 * row, 16*row + size, 32 * row, n * row} {
					got := want
					got.Data = make([]byte, len(want.Data))
					for at := 0; at < len(src); at += piece {
						got.PackFrom(src[at:min(at+piece, len(src))], at)
					}
					if !bytes.Equal(got.Data, want.Data) {
						t.Fatalf("%v: %d rows of %d in pieces of %d bytes: other bytes than row by row", typ, n, k, piece)
					}
				}
			}
		}
	}
}

func BenchmarkPackTurned(b *testing.B) {
	const n, k = 512, 2048
	for _, typ := range []quant.Type{quant.Q8_0, quant.Q4_0, quant.Q4_K, quant.Q6_K} {
		row := k / typ.BlockElems() * typ.BlockBytes()
		src := make([]byte, n*row)
		w := QuantWeights{Type: typ, N: n, K: k, Data: make([]byte, QuantWeightsLen(typ, n, k))}
		for name, piece := range map[string]int{"panels": len(src), "rows": row} {
			b.Run(typ.String()+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					for at := 0; at < len(src); at += piece {
						w.PackFrom(src[at:at+piece], at)
					}
				}
			})
		}
	}
}
