package graph

import "fmt"

// Dropout zeroes elements with probability P and scales the rest by 1/(1−P): x (N,D), seed i32 (2) → (N,D). Whether element
// (r,c) stays is a function of (seed[0], Site, seed[1]+r, c) alone (a counter-based generator: Salmon et al., SC'11), so
// recompute, ranks and micro-batches repeat it. seed[1] is the number of the pass's first row in the whole step.
type Dropout struct {
	P    float32
	Site int
}

func (Dropout) Kind() string                         { return "dropout" }
func (o Dropout) Attrs() string                      { return fmt.Sprintf("p=%g site=%d", o.P, o.Site) }
func (Dropout) Outputs(in []Type) []Type             { return in[:1] }
func (Dropout) FLOPs(b Bounds, in, _ []Type) float64 { return 10 * elems(b, in[0]) }
func (Dropout) InPlace() []Alias                     { return []Alias{{0, 0}} }

// Gradient is the same mask on the gradient; it reads only the seed.
func (o Dropout) Gradient(w *Backprop) { w.Add(0, w.one(o, w.Dout(0), w.Node.In[1])) }

// Dropout appends a dropout with a site number of its own.
func (b *Builder) Dropout(x, seed Value, p float32) Value {
	b.site++
	return b.one(Dropout{p, b.site}, x, seed)
}

// Unseeded is the same dropout at the site of all others.
func (o Dropout) Unseeded() Op {
	o.Site = 0
	return o
}

// Keep tells whether Dropout keeps element (row, col): the definition that every device implements. row counts in the
// whole step. The generator is SplitMix64's finaliser over the packed counter (Steele et al., OOPSLA'14).
func (o Dropout) Keep(seed int32, row, col int) bool {
	x := uint64(uint32(seed))<<32 ^ uint64(o.Site)*0x9e3779b97f4a7c15
	x = mix64(x) ^ uint64(row)
	x = mix64(x) ^ uint64(col)
	return float32(mix64(x)>>40)*(1.0/(1<<24)) >= o.P
}

func mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
