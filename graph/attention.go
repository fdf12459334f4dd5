package graph

import (
	"fmt"
	"math"

	"loadline/tensor/dtype"
)

// AttentionSpec is the geometry that all attention operations share. Query head h reads key/value head
// h / (Heads/KVHeads).
type AttentionSpec struct {
	Heads, KVHeads, HeadDim int
	Block                   int     // tokens per KV block
	Context                 int     // the longest sequence: bounds positions, sizes scores, prices FLOPs
	Window                  int     // how many positions a row sees, its own the last; 0 for all
	Scaling                 float64 // of scores; 0 is 1/√HeadDim
	Softcap                 float64 // scaled scores s become Softcap·tanh(s/Softcap); 0 leaves them
}

// First is the first position that a row at position pos sees.
func (s AttentionSpec) First(pos int) int {
	if s.Window == 0 {
		return 0
	}
	return max(0, pos-s.Window+1)
}

// Scale is what scores are multiplied by: Scaling, or 1/√HeadDim.
func (s AttentionSpec) Scale() float32 {
	if s.Scaling != 0 {
		return float32(s.Scaling)
	}
	return float32(1 / math.Sqrt(float64(s.HeadDim)))
}

// String is the attributes of a program's text.
func (s AttentionSpec) String() string {
	text := fmt.Sprintf("heads=%d/%d head=%d block=%d context=%d", s.Heads, s.KVHeads, s.HeadDim, s.Block, s.Context)
	if s.Window > 0 {
		text += fmt.Sprintf(" window=%d", s.Window)
	}
	if s.Scaling != 0 {
		text += fmt.Sprintf(" scale=%g", s.Scaling)
	}
	if s.Softcap != 0 {
		text += fmt.Sprintf(" softcap=%g", s.Softcap)
	}
	return text
}

func (s AttentionSpec) check(q, k Type) {
	want(s.KVHeads > 0 && s.Heads%s.KVHeads == 0 && s.Block > 0 && s.Context > 0 && s.Window >= 0 && s.Softcap >= 0, "attention: bad spec %v", s)
	want(q.Shape.Last() == s.Heads*s.HeadDim, "attention: q %v is not %d heads of %d", q, s.Heads, s.HeadDim)
	want(k.Shape.Last() == s.KVHeads*s.HeadDim, "attention: k %v is not %d heads of %d", k, s.KVHeads, s.HeadDim)
}

// flops is one product of every query with the positions that it sees, positions being spread evenly over the context: half
// of it (causal), or with a window W of context C, W - W²/2C.
func (s AttentionSpec) flops(b Bounds, q Type) float64 {
	c := float64(s.Context)
	w := c
	if s.Window > 0 {
		w = min(c, float64(s.Window))
	}
	return elems(b, q) * (2*w - w*w/c)
}

// traffic is the bytes of all operands and results, of which the pools at pools hold rows that no window reaches.
func (s AttentionSpec) traffic(b Bounds, in, out []Type, table Type, pools ...int) (n float64) {
	for _, t := range append(append([]Type{}, in...), out...) {
		if t.Shape.N > 0 {
			n += float64(t.Bytes(b))
		}
	}
	if s.Window == 0 {
		return n
	}
	reach := in[0].Shape.Lead(b) + table.Shape.Lead(b)*(s.Window-1) // of all rows, each sequence's adjacent
	for _, i := range pools {
		if rows := in[i].Shape.Lead(b); rows > reach {
			n -= float64(in[i].Bytes(b)) * (1 - float64(reach)/float64(rows))
		}
	}
	return n
}

// Paging says which keys a row sees. Row r belongs to sequence Seq[r] and stands at position Pos[r]; it sees
// positions First(Pos[r])..Pos[r]. The key of position p of sequence s is slot Table[s][p/Block]·Block + p%Block. Rows of one
// sequence are adjacent and ascend in position. In training the table is the identity. Documents packed one after the other
// are sequences of their own, with positions from 0 on: where Block is 1, a document may begin at any slot.
type Paging struct {
	Table Value // i32 (sequences, blocks per sequence)
	Seq   Value // i32 (N)
	Pos   Value // i32 (N)
}

// Attention is causal grouped-query attention by online softmax over key blocks at fixed absolute positions (arXiv
// 2205.14135): q (N,H·K), k, v (S,G·K), table, seq, pos, sinks (H) or None → o (N,H·K), lse (N,H), the log of the softmax
// denominator. A sink is the score of a key that every row sees and whose value is 0 (arXiv 2309.17453).
// Keys and values have types of their own, any of KVTypes.
// Keys are taken in blocks of 128 absolute positions, ascending, so a row's bits depend on its sequence alone. Where the operands are narrow,
// probabilities may be rounded to their type for the product with v, and in the gradient so may those of scores; never
// what is summed.
type Attention struct{ AttentionSpec }

// AttentionGrad recomputes the probabilities from lse: do (N,H·K), q, k, v, o, lse, table, seq, pos → dq (N,H·K),
// dk, dv (S,G·K). Sums over rows ascend, over the query heads of a group ascend.
type AttentionGrad struct{ AttentionSpec }

func (Attention) Kind() string        { return "attention" }
func (AttentionGrad) Kind() string    { return "attention_grad" }
func (o Attention) Attrs() string     { return o.String() }
func (o AttentionGrad) Attrs() string { return o.String() }

func (o Attention) Outputs(in []Type) []Type {
	o.check(in[0], in[1])
	want(in[1].Shape == in[2].Shape, "attention: k %v, v %v", in[1], in[2])
	for _, t := range in[1:3] {
		want(o.HeadDim%t.DType.BlockElems() == 0, "attention: heads of %d are no whole blocks of %v", o.HeadDim, t)
	}
	want(len(in) < 7 || in[6].Shape.N == 0 || in[6] == F(D(o.Heads)), "attention: %d heads do not fit sinks", o.Heads)
	return []Type{in[0], {dtype.F32, in[0].Shape.WithLast(o.Heads)}}
}
func (o AttentionGrad) Outputs(in []Type) []Type { return []Type{in[1], in[2], in[3]} }

func (o Attention) FLOPs(b Bounds, in, _ []Type) float64     { return 2 * o.flops(b, in[0]) }
func (o AttentionGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 5 * o.flops(b, in[0]) }

// Traffic leaves out the keys and values that no window reaches.
func (o Attention) Traffic(b Bounds, in, out []Type) float64 {
	return o.traffic(b, in, out, in[3], 1, 2)
}

// Traffic leaves out the keys and values that no window reaches.
func (o AttentionGrad) Traffic(b Bounds, in, out []Type) float64 {
	return o.traffic(b, in, out, in[6], 2, 3)
}

// Scratch holds Σ do·o for every row and head.
func (o AttentionGrad) Scratch(b Bounds, in, _ []Type) int64 { return in[5].Bytes(b) }

// Gradient reads q, k, v, o and lse.
func (o Attention) Gradient(w *Backprop) {
	n := w.Node
	if w.Needs(6) {
		w.Set(6, w.one(SinkGrad{}, w.Dout(0), n.Out[0], n.Out[1], n.In[6], w.So(6)))
	}
	d := w.Apply(AttentionGrad{o.AttentionSpec}, w.Dout(0), n.In[0], n.In[1], n.In[2], n.Out[0], n.Out[1], n.In[3], n.In[4], n.In[5])
	for i := range d {
		w.Add(i, d[i])
	}
}

// Attention appends attention that never holds scores for a whole row.
func (b *Builder) Attention(q, k, v Value, p Paging, s AttentionSpec) Value {
	return b.AttentionWithSinks(q, k, v, None, p, s)
}

// AttentionWithSinks appends Attention where each head has a sink, or none where sinks is None.
func (b *Builder) AttentionWithSinks(q, k, v, sinks Value, p Paging, s AttentionSpec) Value {
	in := []Value{q, k, v, p.Table, p.Seq, p.Pos}
	if sinks != None {
		in = append(in, sinks)
	}
	return b.Apply(Attention{s}, in...)[0]
}

// StandardAttention appends the same function with probabilities held as a value (N,H,Context), and scores too where they have a softcap.
func (b *Builder) StandardAttention(q, k, v Value, p Paging, s AttentionSpec) Value {
	return b.StandardAttentionWithSinks(q, k, v, None, p, s)
}

// StandardAttentionWithSinks appends AttentionWithSinks as StandardAttention does.
func (b *Builder) StandardAttentionWithSinks(q, k, v, sinks Value, p Paging, s AttentionSpec) Value {
	given := func(in ...Value) []Value {
		if sinks != None {
			in = append(in, sinks)
		}
		return in
	}
	var pr Value
	if s.Softcap == 0 {
		pr = b.one(AttentionProbs{s}, given(q, k, p.Table, p.Seq, p.Pos)...)
	} else {
		pr = b.one(Softmax{}, given(b.SoftCap(b.one(Scores{s}, q, k, p.Table, p.Seq, p.Pos), s.Softcap))...)
	}
	return b.one(Mix{s}, pr, v, p.Table, p.Seq, p.Pos)
}
