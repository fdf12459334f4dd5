package graph

import (
	"fmt"
	"strings"

	"loadline/mem"
)

// Offload starts a copy of x to a lower tier; Fetch starts a copy back. Both run on the copy stream: Wait, later in the
// program, is when the copy must be done. Passes insert them; no builder does. An Offload whose second operand is a State writes x
// into it, and yields its next version.
type Offload struct {
	To mem.Tier
	Piece
}

// Fetch starts a copy back to the device tier.
type Fetch struct{ Piece }

// Wait ends an Offload or a Fetch: its operands are what the copy reads and writes, which it keeps alive.
type Wait struct{}

// Piece is the N elements from At on of a State, seen as a tensor of one axis; N = 0 is all of it, as it is.
type Piece struct{ At, N int }

// of is the type of the piece of a value of type t.
func (p Piece) of(t Type) Type {
	if p.N == 0 {
		return t
	}
	n := t.Shape.Elems(Bounds{})
	want(p.At >= 0 && p.N > 0 && int64(p.At)+int64(p.N) <= int64(n), "piece of %d elements at %d of %v", p.N, p.At, t)
	return Type{t.DType, S(D(p.N))}
}

// attrs is p's part of an operation's text.
func (p Piece) attrs() string {
	if p.N == 0 {
		return ""
	}
	return fmt.Sprintf(" at=%d n=%d", p.At, p.N)
}

func (Offload) Kind() string       { return "offload" }
func (Fetch) Kind() string         { return "fetch" }
func (Wait) Kind() string          { return "wait" }
func (o Offload) Attrs() string    { return o.To.String() + o.attrs() }
func (o Fetch) Attrs() string      { return strings.TrimPrefix(o.attrs(), " ") }
func (Offload) Writes() []Alias    { return []Alias{{0, 1}} }
func (Wait) Outputs([]Type) []Type { return nil }

func (o Offload) Outputs(in []Type) []Type {
	if len(in) < 2 {
		return in[:1]
	}
	want(o.of(in[1]) == in[0], "offload: %v to %v", in[0], in[1])
	return in[1:2]
}
func (o Fetch) Outputs(in []Type) []Type               { return []Type{o.of(in[0])} }
func (Offload) FLOPs(Bounds, []Type, []Type) float64   { return 0 }
func (Fetch) FLOPs(Bounds, []Type, []Type) float64     { return 0 }
func (Wait) FLOPs(Bounds, []Type, []Type) float64      { return 0 }
func (Offload) Traffic(Bounds, []Type, []Type) float64 { return 0 }
func (Fetch) Traffic(Bounds, []Type, []Type) float64   { return 0 }
func (Wait) Traffic(Bounds, []Type, []Type) float64    { return 0 }
