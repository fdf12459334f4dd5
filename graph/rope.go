package graph

import (
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
)

// Rope rotates pairs of a head's halves by position (arXiv 2104.09864; the rotate-half convention of published
// checkpoints): x (N,H·K), pos i32 (N) → (N,H·K). Of the T elements of a head that turn, element i < T/2 pairs with i + T/2; what
// follows them stays. The angle is pos · Frequencies()[i], and what turns is times Magnitude; both are computed in float64.
// Inverse turns the other way, times Magnitude as well: the gradient.
type Rope struct {
	Heads, HeadDim int
	Theta          float64
	Turned         int      // T; 0 is HeadDim
	Divisors       Divisors // of frequencies: how methods that lengthen the context scale them
	Magnitude      float64  // 0 is 1
	Inverse        bool
}

// Divisors is a list of numbers as text, with a space between, so that an operation that has one can be compared; "" is no list.
type Divisors string

// DivisorsOf is the list of v, bit for bit.
func DivisorsOf(v []float64) Divisors {
	var parts []string
	for _, x := range v {
		parts = append(parts, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return Divisors(strings.Join(parts, " "))
}

// Values is the list.
func (d Divisors) Values() []float64 {
	var out []float64
	for _, s := range strings.Fields(string(d)) {
		x, err := strconv.ParseFloat(s, 64)
		want(err == nil && x > 0, "rope: divisor %q", s)
		out = append(out, x)
	}
	return out
}

// Width is how many elements of a head turn.
func (o Rope) Width() int {
	if o.Turned == 0 {
		return o.HeadDim
	}
	return o.Turned
}

// Factor is what a turned element is multiplied by.
func (o Rope) Factor() float64 {
	if o.Magnitude == 0 {
		return 1
	}
	return o.Magnitude
}

// Frequencies is the angle of each pair at position 1: Theta^(−2i/T), divided by the pair's divisor.
func (o Rope) Frequencies() []float64 {
	t := o.Width()
	divisors := o.Divisors.Values()
	f := make([]float64, t/2) //mem:ok half a head
	for i := range f {
		f[i] = math.Pow(o.Theta, -2*float64(i)/float64(t))
		if divisors != nil {
			f[i] /= divisors[i]
		}
	}
	return f
}

func (Rope) Kind() string { return "rope" }
func (o Rope) Attrs() string {
	s := fmt.Sprintf("heads=%d head=%d theta=%g", o.Heads, o.HeadDim, o.Theta)
	if o.Turned > 0 {
		s += fmt.Sprintf(" turned=%d", o.Turned)
	}
	if o.Divisors != "" { // their hash tells lists apart
		h := fnv.New32a()
		h.Write([]byte(o.Divisors))
		s += fmt.Sprintf(" divisors=%08x", h.Sum32())
	}
	if o.Magnitude != 0 {
		s += fmt.Sprintf(" magnitude=%g", o.Magnitude)
	}
	if o.Inverse {
		s += " inverse"
	}
	return s
}
func (o Rope) Outputs(in []Type) []Type {
	want(in[0].Shape.Last() == o.Heads*o.HeadDim && o.Width()%2 == 0 && o.Turned >= 0 && o.Turned <= o.HeadDim, "rope: x %v is not %d heads of %d, of which an even number turns", in[0], o.Heads, o.HeadDim)
	n := len(o.Divisors.Values())
	want(n == 0 || n == o.Width()/2, "rope: %d divisors of %d pairs", n, o.Width()/2)
	return in[:1]
}
func (Rope) FLOPs(b Bounds, in, _ []Type) float64 { return 3 * elems(b, in[0]) }
func (Rope) InPlace() []Alias                     { return []Alias{{0, 0}} }

// Gradient is the inverse rotation; it reads only the positions.
func (o Rope) Gradient(w *Backprop) {
	o.Inverse = !o.Inverse
	w.Add(0, w.one(o, w.Dout(0), w.Node.In[1]))
}

// Rope appends a rotary position embedding of whole heads, with frequencies as they are.
func (b *Builder) Rope(x, pos Value, heads, headDim int, theta float64) Value {
	return b.Rotate(x, pos, Rope{Heads: heads, HeadDim: headDim, Theta: theta})
}

// Rotate appends a rotary position embedding.
func (b *Builder) Rotate(x, pos Value, o Rope) Value { return b.one(o, x, pos) }
