package model

import (
	"fmt"
	"math"

	"loadline/graph"
)

// Param is a weight: a State of the graphs, and its place in published checkpoint files.
type Param struct {
	Name   string     // the State's name: the published tensor's where State and tensor are one
	Type   graph.Type // in the graph's orientation: a matrix is (outputs, inputs), experts are (E, outputs, inputs)
	Init   Init
	Layer  int    // graph.Outside for embeddings, the final norm and the head
	Part   string // the part of the layer that reads it, e.g. "attn.qkv"
	Pieces []Piece
}

// Piece is a part of a Param that lies in one published tensor. A Param has several where a file keeps every expert in a tensor
// of its own; several Params share a tensor where a file keeps projections fused (GPT-2's c_attn).
//
//	elements of the Param                    published tensor Name, row-major, Width columns
//	First + r·Cols + c, r < Rows, c < Cols   row Row+r, column Col+c; or Row+c, Col+r where Transposed
type Piece struct {
	Name       string // published name
	Shape      []int  // of the published tensor
	First      int    // first element in the Param
	Rows, Cols int    // of the piece, in the Param's orientation
	Width      int    // columns of the published tensor
	Row, Col   int    // where the piece begins in the published tensor
	Transposed bool
}

// Run is a stretch of a published tensor: N elements from element At on are the elements Range, Range+Stride, … of a
// range of a Param.
type Run struct {
	Piece  int // index in Param.Pieces
	At     int
	Range  int
	Stride int
	N      int
}

// Elems is the number of elements.
func (p Param) Elems() int { return int(p.Type.Shape.Elems(graph.Bounds{})) }

// Runs calls yield for the stretches of published tensors that together are elements at to at+n of p, until yield returns false.
// It is how a file is read or written in the order of the State, through a buffer of any length: where a piece is not transposed a
// range is one run (or one a row, beside other pieces); where it is transposed, a range is one run for each of the published
// tensor's rows that it meets, as long as the range has rows, so a longer buffer makes longer runs.
func (p Param) Runs(at, n int, yield func(Run) bool) {
	end := at + n
	for i := range p.Pieces {
		c := &p.Pieces[i]
		lo, hi := max(at, c.First), min(end, c.First+c.Rows*c.Cols)
		if lo >= hi {
			continue
		}
		base := lo - at
		lo, hi = lo-c.First, hi-c.First // in the piece
		var ok bool
		if c.Transposed {
			ok = c.across(i, lo, hi, base, yield)
		} else {
			ok = c.along(i, lo, hi, base, yield)
		}
		if !ok {
			return
		}
	}
}

// along yields runs of elements that are neighbours on both sides.
func (c *Piece) along(i, lo, hi, base int, yield func(Run) bool) bool {
	if c.Cols == c.Width { // whole rows
		return yield(Run{i, c.Row*c.Width + lo, base, 1, hi - lo})
	}
	for x := lo; x < hi; {
		r, col := x/c.Cols, x%c.Cols
		n := min(hi-x, c.Cols-col)
		if !yield(Run{i, (c.Row+r)*c.Width + c.Col + col, base + x - lo, 1, n}) {
			return false
		}
		x += n
	}
	return true
}

// across yields, for each column of the piece, the elements that the range has of it: neighbours in the file, Cols apart in the
// range.
func (c *Piece) across(i, lo, hi, base int, yield func(Run) bool) bool {
	for col := range c.Cols {
		first := (lo - col + c.Cols - 1) / c.Cols // the first row r with r·Cols+col >= lo
		if lo <= col {
			first = 0
		}
		last := (hi - col + c.Cols - 1) / c.Cols // one past the last
		if hi <= col || last <= first {
			continue
		}
		if !yield(Run{i, (c.Row+col)*c.Width + c.Col + first, base + first*c.Cols + col - lo, c.Cols, last - first}) {
			return false
		}
	}
	return true
}

// initStd is the standard deviation of weights; that of a projection back onto the residual stream is divided by
// √(2·layers) (GPT-2).
const initStd = 0.02

// lister appends parameters.
type lister struct {
	out   []Param
	layer int
}

// add appends a parameter that is a published tensor of the same name and shape.
func (l *lister) add(part, name string, in Init, dims ...int) {
	w := dims[len(dims)-1]
	l.piece(part, name, in, dims, Piece{Name: name, Shape: dims, Rows: elems(dims) / w, Cols: w, Width: w})
}

// piece appends a parameter with its pieces.
func (l *lister) piece(part, name string, in Init, dims []int, pieces ...Piece) {
	ds := make([]graph.Dim, len(dims))
	for i, n := range dims {
		ds[i] = graph.D(n)
	}
	l.out = append(l.out, Param{Name: name, Type: graph.F(ds...), Init: in, Layer: l.layer, Part: part, Pieces: pieces})
}

func elems(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// Parameters lists the weights of a valid configuration: the embedding, the layers in order, the final norm, the head.
func (c Config) Parameters() []Param {
	l := &lister{layer: graph.Outside}
	if c.ModelType == GPT2 {
		l.gpt2(c)
	} else {
		l.llama(c)
	}
	return l.out
}

func (l *lister) llama(c Config) {
	d, f, h, g := c.HiddenSize, c.IntermediateSize, c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	std, one := Init{Std: initStd}, Init{Const: 1}
	back := Init{Std: float32(initStd / math.Sqrt(2*float64(c.NumLayers)))}
	l.add("embed", "model.embed_tokens.weight", std, c.VocabSize, d)
	for l.layer = range c.NumLayers {
		n := fmt.Sprintf("model.layers.%d.", l.layer)
		l.add("attn.norm", n+"input_layernorm.weight", one, d)
		l.add("attn.qkv", n+"self_attn.q_proj.weight", std, h, d)
		l.add("attn.qkv", n+"self_attn.k_proj.weight", std, g, d)
		l.add("attn.qkv", n+"self_attn.v_proj.weight", std, g, d)
		l.add("attn.out", n+"self_attn.o_proj.weight", back, d, h)
		l.add("mlp.norm", n+"post_attention_layernorm.weight", one, d)
		if c.MoE() {
			e := c.NumLocalExperts
			n += "block_sparse_moe."
			l.add("moe.router", n+"gate.weight", std, e, d)
			l.experts("moe.experts.up", n+"experts.", "w1", std, e, f, d)
			l.experts("moe.experts.up", n+"experts.", "w3", std, e, f, d)
			l.experts("moe.experts.down", n+"experts.", "w2", back, e, d, f)
			continue
		}
		l.add("mlp.up", n+"mlp.gate_proj.weight", std, f, d)
		l.add("mlp.up", n+"mlp.up_proj.weight", std, f, d)
		l.add("mlp.down", n+"mlp.down_proj.weight", back, d, f)
	}
	l.layer = graph.Outside
	l.add("norm", "model.norm.weight", one, d)
	if !c.TieWordEmbeddings {
		l.add("head", "lm_head.weight", std, c.VocabSize, d)
	}
}

// experts appends one projection of all experts, published as a tensor an expert.
func (l *lister) experts(part, prefix, w string, in Init, e, rows, cols int) {
	pieces := make([]Piece, e)
	for i := range pieces {
		pieces[i] = Piece{
			Name: fmt.Sprintf("%s%d.%s.weight", prefix, i, w), Shape: []int{rows, cols},
			First: i * rows * cols, Rows: rows, Cols: cols, Width: cols,
		}
	}
	l.piece(part, prefix+w, in, []int{e, rows, cols}, pieces...)
}

// conv appends one of the projections that GPT-2's Conv1D named name holds side by side, with its bias: published as (inputs,
// fused outputs), of which the rows of this one are columns from first on.
func (l *lister) conv(part, state, name string, in Init, first, rows, cols, fused int) {
	l.piece(part, state+".weight", in, []int{rows, cols}, Piece{
		Name: name + ".weight", Shape: []int{cols, fused}, Rows: rows, Cols: cols, Width: fused, Col: first, Transposed: true,
	})
	l.piece(part, state+".bias", Init{}, []int{rows}, Piece{
		Name: name + ".bias", Shape: []int{fused}, Rows: 1, Cols: rows, Width: fused, Col: first,
	})
}

func (l *lister) gpt2(c Config) {
	d, f := c.HiddenSize, c.IntermediateSize
	std, one := Init{Std: initStd}, Init{Const: 1}
	back := Init{Std: float32(initStd / math.Sqrt(2*float64(c.NumLayers)))}
	l.add("embed", "transformer.wte.weight", std, c.VocabSize, d)
	l.add("embed", "transformer.wpe.weight", std, c.MaxPositionEmbeddings, d)
	for l.layer = range c.NumLayers {
		n := fmt.Sprintf("transformer.h.%d.", l.layer)
		l.add("attn.norm", n+"ln_1.weight", one, d)
		l.add("attn.norm", n+"ln_1.bias", Init{}, d)
		for i, x := range []string{"q", "k", "v"} {
			l.conv("attn.qkv", n+"attn.c_attn."+x, n+"attn.c_attn", std, i*d, d, d, 3*d)
		}
		l.conv("attn.out", n+"attn.c_proj", n+"attn.c_proj", back, 0, d, d, d)
		l.add("mlp.norm", n+"ln_2.weight", one, d)
		l.add("mlp.norm", n+"ln_2.bias", Init{}, d)
		l.conv("mlp.up", n+"mlp.c_fc", n+"mlp.c_fc", std, 0, f, d, f)
		l.conv("mlp.down", n+"mlp.c_proj", n+"mlp.c_proj", back, 0, d, f, d)
	}
	l.layer = graph.Outside
	l.add("norm", "transformer.ln_f.weight", one, d)
	l.add("norm", "transformer.ln_f.bias", Init{}, d)
	if !c.TieWordEmbeddings {
		l.add("head", "lm_head.weight", std, c.VocabSize, d)
	}
}
