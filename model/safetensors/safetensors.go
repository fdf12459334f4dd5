// Package safetensors reads and writes safetensors files: named tensors behind one JSON header.
//
//	┌──────────────┬───────────────┬──────────────────────────────┐
//	│ u64 LE: size │ JSON, spaces  │ tensors, back to back        │
//	│ of header    │ to 8 bytes    │ data_offsets count from here │
//	└──────────────┴───────────────┴──────────────────────────────┘
//	{"__metadata__":{"k":"v"},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}
//
// A file is checked whole when it is opened: the header is bounded before it is read, and the tensors must cover the
// rest of the file without a gap or an overlap, each as long as its shape and type say. Tensor bytes are little-endian,
// and go between the file and buffers that the caller hands in; nothing but the header is ever held here. A written file
// takes its name only when it is complete and on the disk. A model may be in several files, which an index maps names to;
// the index names files beside itself and no others.
//
// The package converts no values, and knows nothing of what a tensor is for.
//
// Source: the format section of huggingface/safetensors' README, and its Rust reader (0.8) for what is refused.
package safetensors

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxHeaderBytes bounds a header; a shard of a large model has 200 KB. (The reference reader allows 100 MB.)
const maxHeaderBytes = 16 << 20

// maxDims bounds the dimensions of a tensor.
const maxDims = 16

// metadataKey is the header's key that is not a tensor.
const metadataKey = "__metadata__"

// DType is the element type of a tensor, by its name in the file.
type DType string

// The element types. Their values are not interpreted here.
const (
	F64    DType = "F64"
	F32    DType = "F32"
	F16    DType = "F16"
	BF16   DType = "BF16"
	F8E4M3 DType = "F8_E4M3"
	F8E5M2 DType = "F8_E5M2"
	F8E8M0 DType = "F8_E8M0"
	I64    DType = "I64"
	I32    DType = "I32"
	I16    DType = "I16"
	I8     DType = "I8"
	U64    DType = "U64"
	U32    DType = "U32"
	U16    DType = "U16"
	U8     DType = "U8"
	Bool   DType = "BOOL"
)

// Bytes returns the size of an element, and 0 for a type that is not known.
func (d DType) Bytes() int64 {
	switch d {
	case F64, I64, U64:
		return 8
	case F32, I32, U32:
		return 4
	case F16, BF16, I16, U16:
		return 2
	case F8E4M3, F8E5M2, F8E8M0, I8, U8, Bool:
		return 1
	}
	return 0
}

// Info describes a tensor of a file.
type Info struct {
	Name   string
	DType  DType
	Shape  []int64 // row-major; empty for a scalar
	Offset int64   // from the beginning of the file; Create fills it in
	Bytes  int64   // the product of Shape times the element's size; Create fills it in
}

// size returns the bytes that the shape and type ask for.
func (i *Info) size() (int64, error) {
	n := i.DType.Bytes()
	if n == 0 {
		return 0, fmt.Errorf("safetensors: tensor %q: dtype %q is not known", i.Name, i.DType)
	}
	if len(i.Shape) > maxDims {
		return 0, fmt.Errorf("safetensors: tensor %q: has %d dimensions, want at most %d", i.Name, len(i.Shape), maxDims)
	}
	empty := false
	for _, d := range i.Shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("safetensors: tensor %q: shape %v has a negative dimension", i.Name, i.Shape)
		case d == 0:
			empty = true
		case n > math.MaxInt64/d:
			return 0, fmt.Errorf("safetensors: tensor %q: shape %v overflows", i.Name, i.Shape)
		default:
			n *= d
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}

// Sort orders tensors as the reference writer does: wide types first, so that every tensor is aligned to its elements,
// and by name among types of one width.
func Sort(infos []Info) {
	slices.SortFunc(infos, func(a, b Info) int {
		if x, y := a.DType.Bytes(), b.DType.Bytes(); x != y {
			return int(y - x)
		}
		return strings.Compare(a.Name, b.Name)
	})
}
