package weights

import (
	"fmt"

	"loadline/model"
	"loadline/model/safetensors"
	"loadline/tensor/quant"
)

// mxBlock is the elements of a block, mxCodes the bytes of their codes, mxBytes those of the block with its scale.
const (
	mxBlock = 32
	mxCodes = 16
	mxBytes = 17
)

// mxChunk is how many blocks are read at once.
const mxChunk = 256

// mxfp4 finds gpt-oss' experts as they are published: codes (E, outputs, inputs/32, 16) and scales (E, outputs, inputs/32), two
// projections in turns. Their blocks are put together as GGUF has them, so they are handed out as they are. It tells whether there are any.
func (p *published) mxfp4(name string, c model.Piece) (at placed, ok bool, err error) {
	codes, ok := p.set.Tensor(name + "_blocks")
	if !ok || len(c.Shape) != 3 || !c.Transposed {
		return at, false, nil
	}
	e, k, n := c.Shape[0], c.Shape[1], c.Shape[2] // experts, inputs, outputs
	scales, ok := p.set.Tensor(name + "_scales")
	if !ok {
		return at, true, fmt.Errorf("tensor %q is missing", name+"_scales")
	}
	switch {
	case codes.DType != safetensors.U8 || scales.DType != safetensors.U8:
		return at, true, fmt.Errorf("tensors of %q are %s and %s: want U8", name, codes.DType, scales.DType)
	case k%mxBlock != 0 || !sameShape(codes.Shape, []int{e, n, k / mxBlock, mxCodes}) || !sameShape(scales.Shape, []int{e, n, k / mxBlock}):
		return at, true, fmt.Errorf("tensor %q: want blocks of %d × %d × %d, file has %v and %v", name, e, n, k, codes.Shape, scales.Shape)
	}
	t := p.tensors[name]
	if t == nil {
		t = &tensor{name: name, typ: quant.MXFP4, bytes: scales.Bytes * mxBytes, read: mxReader(p.reader(codes.Name), p.reader(scales.Name))}
		p.tensors[name] = t
	}
	first, step := c.Row/k*n+c.Col, max(1, c.Step)
	c.Row, c.Col, c.Width, c.Step, c.Transposed = 0, 0, k, 0, false
	return placed{Piece: c, tensor: t, rows: func(row int) int { return first + row*step }}, true, nil
}

// mxReader reads whole blocks as GGUF has them: the scale, then element i in the low half of code i and element i+16 in its high half,
// where the published codes have elements 2i and 2i+1.
func mxReader(codes, scales func(p []byte, at int64) error) func(p []byte, at int64) error {
	var from [mxChunk * mxCodes]byte
	var scale [mxChunk]byte
	return func(p []byte, at int64) error {
		for at /= mxBytes; len(p) > 0; {
			n := min(mxChunk, len(p)/mxBytes)
			if err := codes(from[:n*mxCodes], at*mxCodes); err != nil {
				return err
			}
			if err := scales(scale[:n], at); err != nil {
				return err
			}
			for b := range n {
				q, out := from[b*mxCodes:][:mxCodes], p[b*mxBytes:][:mxBytes]
				out[0] = scale[b]
				for i := range mxCodes / 2 {
					low, high := q[i], q[i+mxCodes/2]
					out[1+2*i], out[2+2*i] = low&15|high<<4, low>>4|high&0xf0
				}
			}
			at, p = at+int64(n), p[n*mxBytes:]
		}
		return nil
	}
}
