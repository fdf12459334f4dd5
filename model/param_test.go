package model

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"loadline/graph"
)

// Runs of any range name, for every element, the place that Piece's comment says, once each.
func TestRunsFollowPieces(t *testing.T) {
	var params []Param
	for _, name := range []string{"moe-tiny", "gpt2-tiny"} {
		c, _ := mustPreset(t, name)
		c.HiddenSize, c.NumHeads, c.NumKVHeads, c.HeadDim, c.IntermediateSize, c.VocabSize, c.NumLayers = 6, 1, 1, 6, 5, 7, 1
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		params = append(params, c.Parameters()...)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(params).Draw(t, "param")
		at := rapid.IntRange(0, p.Elems()).Draw(t, "at")
		n := rapid.IntRange(0, p.Elems()-at).Draw(t, "n")
		type place struct{ piece, at int }
		got := make([]place, n)
		filled := 0
		p.Runs(at, n, func(r Run) bool {
			if r.N < 1 {
				t.Fatalf("a run of %d elements", r.N)
			}
			for i := range r.N {
				x := &got[r.Range+i*r.Stride]
				if *x != (place{}) {
					t.Fatalf("element %d comes twice", r.Range+i*r.Stride)
				}
				*x = place{r.Piece, r.At + i + 1} // 1 more, so that 0 is empty
				filled++
			}
			return true
		})
		if filled != n {
			t.Fatalf("got %d elements, want %d", filled, n)
		}
		for i := range got {
			c := slices.IndexFunc(p.Pieces, func(c Piece) bool { return at+i >= c.First && at+i < c.First+c.Rows*c.Cols })
			x := p.Pieces[c]
			row, col := (at+i-x.First)/x.Cols, (at+i-x.First)%x.Cols
			want := (x.Row+row)*x.Width + x.Col + col
			if x.Transposed {
				want = (x.Row+col)*x.Width + x.Col + row
			}
			if got[i] != (place{c, want + 1}) {
				t.Fatalf("%s element %d: got %v, want %v", p.Name, at+i, got[i], place{c, want + 1})
			}
		}
	})
}

// A transposed piece costs one run for each row of the file, not one for each element, however rows are cut.
func TestTransposedRunsAreLong(t *testing.T) {
	c, _ := mustPreset(t, "gpt2-tiny")
	i := slices.IndexFunc(c.Parameters(), func(p Param) bool { return strings.HasSuffix(p.Name, "c_fc.weight") })
	p := c.Parameters()[i] // (512,128)
	runs := 0
	p.Runs(77, 300*128, func(Run) bool { runs++; return true })
	if runs != 128 {
		t.Errorf("got %d runs, want 128", runs)
	}
	p.Runs(0, 1000, func(Run) bool { runs++; return runs < 130 })
	if runs != 130 {
		t.Errorf("Runs went on after false: %d", runs)
	}
}

func TestFill(t *testing.T) {
	c, _ := mustPreset(t, "gpt2-tiny")
	h := fnv.New64a()
	for _, p := range c.Parameters() {
		whole, parts := make([]float32, p.Elems()), make([]float32, p.Elems())
		Fill(p, 1, 0, whole)
		for at := 0; at < len(parts); at += 1001 {
			Fill(p, 1, at, parts[at:min(at+1001, len(parts))])
		}
		if !slices.Equal(whole, parts) {
			t.Errorf("%s: pieces differ from the whole", p.Name)
		}
		var sum, squares float64
		for _, x := range whole {
			sum += float64(x)
			squares += float64(x) * float64(x)
			b := math.Float32bits(x)
			h.Write([]byte{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24)})
		}
		n := float64(len(whole))
		std := math.Sqrt(squares/n - sum/n*sum/n)
		want := 0.0
		switch {
		case strings.HasSuffix(p.Name, ".bias"), strings.Contains(p.Name, "ln_"): // constants, with no deviation
		case strings.Contains(p.Name, "c_proj"):
			want = 0.02 / math.Sqrt(8)
		default:
			want = 0.02
		}
		if math.Abs(std-want) > 5*want/math.Sqrt(2*n)+1e-9 {
			t.Errorf("%s: got a standard deviation of %v, want %v", p.Name, std, want)
		}
		mean := 0.0
		if strings.Contains(p.Name, "ln_") && strings.HasSuffix(p.Name, ".weight") {
			mean = 1
		}
		if math.Abs(sum/n-mean) > 5*want/math.Sqrt(n)+1e-9 {
			t.Errorf("%s: got a mean of %v, want %v", p.Name, sum/n, mean)
		}
	}
	// The same on every machine and for ever: checkpoints name a seed.
	if got, want := h.Sum64(), uint64(0x8a35812f931b758d); got != want {
		t.Errorf("got start values with hash %#x, want %#x", got, want)
	}
	p := c.Parameters()[0]
	a, b := make([]float32, 100), make([]float32, 100)
	Fill(p, 1, 0, a)
	Fill(p, 2, 0, b)
	if slices.Equal(a, b) {
		t.Error("two seeds give the same values")
	}
	p.Name += "x"
	Fill(p, 1, 0, b)
	if slices.Equal(a, b) {
		t.Error("two names give the same values")
	}
}

// The inverse normal distribution against math.Erfc, the logarithm against math.Log.
func TestNormal(t *testing.T) {
	for i := 1; i < 4000; i++ {
		for _, p := range []float64{float64(i) / 4000, math.Exp2(-float64(i) / 80), 1 - math.Exp2(-float64(i)/160)} {
			if p == 1 || p < 0x1p-53 { // Fill's least p is 2⁻⁵³
				continue
			}
			x := normal(p)
			tail := min(p, 1-p) // what lies beyond x; off by its slope, below tail·(|x|+1), times x's error
			got := math.Erfc(math.Abs(x)/math.Sqrt2) / 2
			if bound := 2e-7 * max(1, math.Abs(x)) * (math.Abs(x) + 1) * tail; !(math.Abs(got-tail) <= bound) || x*(p-0.5) < 0 {
				t.Errorf("normal(%g) = %v: got a tail of %v, want %v ± %.1g", p, x, got, tail, bound)
			}
			if got, want := logarithm(p), math.Log(p); math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
				t.Errorf("logarithm(%g): got %v, want %v", p, got, want)
			}
		}
	}
}

// The parts of a layer, in order: what recompute tags speak of.
func TestParts(t *testing.T) {
	for name, want := range map[string]string{
		"llama-tiny": "embed attn.norm attn.qkv attn.rope attn.core attn.out attn.residual mlp.norm mlp.up mlp.act mlp.down mlp.residual norm head",
		"gpt2-tiny":  "embed attn.norm attn.qkv attn.core attn.out attn.residual mlp.norm mlp.up mlp.act mlp.down mlp.residual norm head",
		"moe-tiny": "embed attn.norm attn.qkv attn.rope attn.core attn.out attn.residual mlp.norm moe.router moe.dispatch moe.experts.up " +
			"moe.experts.act moe.experts.down moe.combine mlp.residual norm head",
	} {
		c, _ := mustPreset(t, name)
		c.NumLayers = 2
		g, err := TrainGraph(c, TrainOptions{Batch: 1, Seq: 16, Dropout: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		byLayer := map[int][]string{}
		sites := map[int]bool{}
		for i := range g.Ops {
			n := &g.Ops[i]
			if parts := byLayer[n.Layer]; len(parts) == 0 || parts[len(parts)-1] != n.Part {
				byLayer[n.Layer] = append(parts, n.Part)
			}
			if d, ok := n.Op.(graph.Dropout); ok {
				sites[d.Site] = true
			}
		}
		out := byLayer[graph.Outside]
		for layer := range 2 {
			got := slices.Concat(out[:1], byLayer[layer], out[1:])
			if strings.Join(got, " ") != want {
				t.Errorf("%s layer %d: got parts %s, want %s", name, layer, strings.Join(got, " "), want)
			}
		}
		wantSites := 4
		if c.ModelType == GPT2 {
			wantSites = 5
		}
		if len(sites) != wantSites {
			t.Errorf("%s: got %d dropout sites, want %d", name, len(sites), wantSites)
		}
	}
}

func TestFillStatic(t *testing.T) {
	for _, x := range []struct{ seq, block, want int }{{256, 0, 128}, {48, 0, 48}, {51, 0, 51}, {200, 0, 100}, {509, 0, 1}, {48, 16, 16}} {
		o := TrainOptions{Batch: 3, Seq: x.seq, Block: x.block}
		b := o.KVBlock()
		if b != x.want {
			t.Errorf("seq %d: got blocks of %d, want %d", x.seq, b, x.want)
		}
		positions, sequences, table := make([]int32, 3*x.seq), make([]int32, 3*x.seq), make([]int32, 3*x.seq/b)
		for at := range positions { // one at a time, as the smallest pieces
			FillStatic(o, at, positions[at:at+1], sequences[at:at+1], nil)
		}
		FillStatic(o, 0, nil, nil, table)
		for row := range positions {
			p, s := int(positions[row]), int(sequences[row])
			if slot := int(table[s*(x.seq/b)+p/b])*b + p%b; slot != row || s != row/x.seq {
				t.Fatalf("seq %d: row %d is position %d of sequence %d, at slot %d", x.seq, row, p, s, slot)
			}
		}
	}
}
