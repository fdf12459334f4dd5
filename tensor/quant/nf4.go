package quant

import "fmt"

// NF4 is a tensor as bitsandbytes stores it in four bits: element i is Map[code]·absmax of block i/BlockSize, the code of an even element
// in the high half of byte i/2. With a second quantisation absmax is itself NestedMap[byte]·NestedAbsmax of its own block, plus Offset.
type NF4 struct {
	Count, BlockSize int
	Codes            []byte // ⌈Count/2⌉
	Map              Elems  // 16 values: nf4's or fp4's
	Absmax           Elems  // [blocks]; empty with a second quantisation
	Nested           []byte // [blocks] bytes; nil without
	NestedMap        Elems  // 256 values
	NestedAbsmax     Elems  // one for NestedBlockSize blocks
	NestedBlockSize  int
	Offset           float32
}

// Check compares lengths with the count.
func (q *NF4) Check() error {
	if q.Count < 1 || q.BlockSize < 1 {
		return fmt.Errorf("quant: nf4: %d elements in blocks of %d", q.Count, q.BlockSize)
	}
	blocks := ceil(q.Count, q.BlockSize)
	if err := lengths("nf4", "weight", len(q.Codes), ceil(q.Count, 2), "quant_map", q.Map.Len(), 16); err != nil {
		return err
	}
	if q.Nested == nil {
		return lengths("nf4", "absmax", q.Absmax.Len(), blocks)
	}
	if q.NestedBlockSize < 1 {
		return fmt.Errorf("quant: nf4: nested blocks of %d", q.NestedBlockSize)
	}
	return lengths("nf4", "absmax", len(q.Nested), blocks, "nested_quant_map", q.NestedMap.Len(), 256,
		"nested_absmax", q.NestedAbsmax.Len(), ceil(blocks, q.NestedBlockSize))
}

// Decode writes elements first to first+len(dst).
func (q *NF4) Decode(dst []float32, first int) {
	for i := range dst {
		at := first + i
		code := q.Codes[at/2] >> (4 - at%2*4) & 15
		dst[i] = q.Map.At(int(code)) * q.absmax(at/q.BlockSize)
	}
}

func (q *NF4) absmax(block int) float32 {
	if q.Nested == nil {
		return q.Absmax.At(block)
	}
	return float32(q.NestedMap.At(int(q.Nested[block]))*q.NestedAbsmax.At(block/q.NestedBlockSize)) + q.Offset
}

// DecodeMX4 widens e2m1 codes with an e8m0 scale for every 32, as gpt-oss' checkpoints have them in two tensors: byte i of codes has
// elements 2i (low) and 2i+1 (high). It panics when lengths differ.
func DecodeMX4(dst []float32, codes, scales []byte) {
	if len(dst) != 2*len(codes) || len(dst) != 32*len(scales) {
		panic("quant: DecodeMX4: lengths do not match")
	}
	for i, q := range codes {
		d := halfE8M0(scales[i/16])
		dst[2*i], dst[2*i+1] = d*float32(valuesE2M1[q&15]), d*float32(valuesE2M1[q>>4])
	}
}
