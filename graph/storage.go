package graph

// ChunkBytes is the largest staging buffer of Save and Restore.
const ChunkBytes = 256 << 10

// Zero fills a State with zeros.
type Zero struct{}

// Save streams a State to the caller through a staging buffer of at most ChunkBytes. States of block types are not saved.
type Save struct{}

// Restore fills a State from the caller through a staging buffer of at most ChunkBytes. The caller gives what a file has
// (its DType.Bytes), in order, whatever the State looks like in memory.
type Restore struct{}

func (Zero) Kind() string                            { return "zero" }
func (Save) Kind() string                            { return "save" }
func (Restore) Kind() string                         { return "restore" }
func (Zero) Outputs(in []Type) []Type                { return in[:1] }
func (Save) Outputs([]Type) []Type                   { return nil }
func (Restore) Outputs(in []Type) []Type             { return in[:1] }
func (Zero) FLOPs(Bounds, []Type, []Type) float64    { return 0 }
func (Save) FLOPs(Bounds, []Type, []Type) float64    { return 0 }
func (Restore) FLOPs(Bounds, []Type, []Type) float64 { return 0 }
func (Zero) Writes() []Alias                         { return []Alias{{0, 0}} }
func (Restore) Writes() []Alias                      { return []Alias{{0, 0}} }

// Scratch is the staging buffer.
func (Save) Scratch(b Bounds, in, _ []Type) int64 { return min(in[0].Bytes(b), ChunkBytes) }

// Scratch is the staging buffer.
func (Restore) Scratch(b Bounds, in, _ []Type) int64 { return min(in[0].Bytes(b), ChunkBytes) }
