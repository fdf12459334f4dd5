// Package gguf reads and writes GGUF files: metadata and named tensors, one model in one file or split over several.
//
//	┌──────┬─────────┬──────────┬──────┬───────────────────┬──────────────────────────────┬─────┬─────────┬─────┐
//	│"GGUF"│ version │ tensors  │ keys │ key, kind, value  │ name, dims, type, offset …   │ pad │ tensor  │ pad │ …
//	│      │ u32     │ u64      │ u64  │ …                 │ offsets count from the pad on│     │         │     │
//	└──────┴─────────┴──────────┴──────┴───────────────────┴──────────────────────────────┴─────┴─────────┴─────┘
//
// A header is hostile until read. Invariants of one that was accepted: every length was compared with the bytes that are left before
// anything was allocated for it, so that reading allocates a small multiple of the header's own bytes; keys and names are valid UTF-8 and
// appear once; every shape's product and every offset is within an int64; and, where the file's length is known, tensors lie inside it,
// at multiples of its alignment, and overlap nothing.
//
// Tensor bytes go between the file and buffers that the caller hands in. Files are read in either byte order and written little-endian,
// version 3. A written file takes its name only when it is complete and on the disk.
//
// The package interprets no key but general.alignment and those of splitting, and decodes no tensor (see tensor/quant).
//
// Sources: docs/gguf.md of ggml; gguf.cpp, llama-model-loader.cpp and gguf-split.cpp of llama.cpp; gguf-py's reader for byte orders.
package gguf

import (
	"fmt"
	"math"

	"loadline/tensor/quant"
)

// Bounds of a header, far above what models have: a vocabulary of 262,144 tokens with its merges is some 20 MB.
const (
	maxHeaderBytes = 128 << 20
	maxKeys        = 1 << 16
	maxTensors     = 1 << 20
	maxNameBytes   = 1 << 10
	maxKeyBytes    = 1<<16 - 1
	maxStringBytes = 16 << 20
	maxDims        = 4
	maxAlignment   = 1 << 16
	maxSplits      = 4096
)

const (
	magic            = "GGUF"
	version          = 3
	defaultAlignment = 32
)

// Keys that this package interprets.
const (
	alignmentKey    = "general.alignment"
	splitNoKey      = "split.no"
	splitCountKey   = "split.count"
	splitTensorsKey = "split.tensors.count"
)

// Info describes a tensor.
type Info struct {
	Name   string
	Type   quant.Type
	Shape  []int64 // row-major, the row's length last; the file has it the other way round. Empty for a scalar
	Offset int64   // from the beginning of its file; from the beginning of the tensors in a Header of no known length. Create fills it in
	Bytes  int64   // what shape and type ask for; Create fills it in
	File   int     // which file of a split model it is in
}

// Elems is the product of the shape.
func (i *Info) Elems() int64 {
	n := int64(1)
	for _, d := range i.Shape {
		n *= d
	}
	return n
}

// size checks shape and type, and returns the bytes that they ask for.
func (i *Info) size() (int64, error) {
	if !i.Type.Known() {
		return 0, fmt.Errorf("gguf: tensor %q: %v is not known", i.Name, i.Type)
	}
	if len(i.Shape) > maxDims {
		return 0, fmt.Errorf("gguf: tensor %q: has %d dimensions, want at most %d", i.Name, len(i.Shape), maxDims)
	}
	n := int64(1)
	for _, d := range i.Shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("gguf: tensor %q: shape %v has a negative dimension", i.Name, i.Shape)
		case d > 0 && n > math.MaxInt64/d:
			return 0, fmt.Errorf("gguf: tensor %q: shape %v overflows", i.Name, i.Shape)
		}
		n *= d
	}
	row := int64(1)
	if len(i.Shape) > 0 {
		row = i.Shape[len(i.Shape)-1]
	}
	if row%int64(i.Type.BlockElems()) != 0 {
		return 0, fmt.Errorf("gguf: tensor %q: rows of %d elements, want a multiple of %d for %v", i.Name, row, i.Type.BlockElems(), i.Type)
	}
	bytes, ok := i.Type.Bytes(n)
	if !ok || bytes > math.MaxInt64/4 {
		return 0, fmt.Errorf("gguf: tensor %q: %v of shape %v overflows", i.Name, i.Type, i.Shape)
	}
	return bytes, nil
}

// padded rounds n, at most 2⁶², up to a multiple of a power of two.
func padded(n, alignment int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }
