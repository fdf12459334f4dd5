package graph

import "loadline/mem"

// Offload starts a copy of x to a lower tier; Fetch starts a copy back. Both run on the copy stream: Wait, later in the
// program, is when the copy must be done. Passes insert them; no builder does.
type Offload struct{ To mem.Tier }

// Fetch starts a copy back to the device tier.
type Fetch struct{}

// Wait ends an Offload or a Fetch: its operands are what the copy reads and writes, which it keeps alive.
type Wait struct{}

func (Offload) Kind() string                         { return "offload" }
func (Fetch) Kind() string                           { return "fetch" }
func (Wait) Kind() string                            { return "wait" }
func (o Offload) Attrs() string                      { return o.To.String() }
func (Offload) Outputs(in []Type) []Type             { return in[:1] }
func (Fetch) Outputs(in []Type) []Type               { return in[:1] }
func (Wait) Outputs([]Type) []Type                   { return nil }
func (Offload) FLOPs(Bounds, []Type, []Type) float64 { return 0 }
func (Fetch) FLOPs(Bounds, []Type, []Type) float64   { return 0 }
func (Wait) FLOPs(Bounds, []Type, []Type) float64    { return 0 }
func (Fetch) Traffic(Bounds, []Type, []Type) float64 { return 0 }
func (Wait) Traffic(Bounds, []Type, []Type) float64  { return 0 }
