package cpu

import (
	"encoding/binary"
	"fmt"

	"loadline/compile"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
	"loadline/tensor/quant"
)

// pool is the rows of keys or values in their storage type: floats, or bytes b of fp8 or of blocks. Row after row, as files have
// them: unlike weights, rows come and go one at a time. What attention reads of bytes is widened into a thread's
// workspace, a head of up to keyBlock positions at a time; what is appended is rounded once, a head's blocks on their own,
// so that a row's bytes depend on nothing but the row.
type pool struct {
	plain   floats
	t       dtype.Type // of b
	b       []byte
	format  quant.Type    // of blocks
	widened *[256]float32 // by byte of fp8, by code of a block: the element, or what times the scale is it
}

// pool resolves o, the keys or values of many positions.
func (b *binder) pool(o compile.Operand) pool {
	t := o.Type.DType
	var code func(i int) float32
	switch t {
	case dtype.F8E4M3:
		code = func(i int) float32 { return dtype.FromE4M3(uint8(i)) }
	case dtype.Q8_0:
		code = func(i int) float32 { return float32(int8(i)) }
	case dtype.Q4_0:
		code = func(i int) float32 { return float32(i - 8) }
	default:
		return pool{plain: b.floats(o)}
	}
	x := pool{t: t, b: b.bytes(o), widened: new([256]float32)}
	x.format, _ = quant.Of(t)
	for i := range x.widened {
		x.widened[i] = code(i)
	}
	if b.err == nil && o.Type.Shape.Last()%t.BlockElems() != 0 {
		b.err = fmt.Errorf("want rows of whole blocks, got %v", o.Type)
	}
	return x
}

// at is the byte where element i begins, the first of a block.
func (x *pool) at(i int) int { return int(x.t.Bytes(int64(i))) }

// read widens elements i on: quant.Decode's bits. A table is several times as fast as turning integers into floats.
func (x *pool) read(i int, to []float32) {
	from := x.b[x.at(i):x.at(i+len(to))]
	switch x.t {
	case dtype.Q8_0:
		for ; len(to) >= 32; to, from = to[32:], from[34:] {
			d, out := scale(from), (*[32]float32)(to)
			for j, c := range (*[32]byte)(from[2:]) {
				out[j] = x.widened[c] * d
			}
		}
	case dtype.Q4_0:
		for ; len(to) >= 32; to, from = to[32:], from[18:] {
			d, out := scale(from), (*[32]float32)(to)
			for j, c := range (*[16]byte)(from[2:]) {
				out[j], out[j+16] = d*x.widened[c&15], d*x.widened[c>>4]
			}
		}
	default:
		to = to[:len(from)]
		for j, c := range from {
			to[j] = x.widened[c]
		}
	}
}

// scale is the scale at the beginning of a block.
func scale(block []byte) float32 { return dtype.FromF16(binary.LittleEndian.Uint16(block)) }

// write rounds elements to their place, i on.
func (x *pool) write(i int, from []float32) {
	to := x.b[x.at(i):x.at(i+len(from))]
	if x.t != dtype.F8E4M3 {
		quant.EncodeRows(to, x.format, from)
		return
	}
	for j, v := range from {
		to[j] = dtype.ToE4M3(v)
	}
}

// move copies n elements of x from i on to j on.
func (x *pool) move(s *Session, j, i, n int) {
	if x.b != nil {
		copy(x.b[x.at(j):x.at(j+n)], x.b[x.at(i):])
		return
	}
	x.plain.copy(s, j, x.plain, i, n, nil)
}

// carryPool makes dst begin as src. It does nothing where they are the same memory.
func (s *Session) carryPool(c *copyTask, dst, src *pool) {
	if dst.b == nil {
		s.carryF(c, dst.plain, src.plain)
		return
	}
	if len(dst.b) > 0 && &dst.b[0] != &src.b[0] {
		copy(dst.b, src.b)
	}
}

// stored is keys of a pool of any type: as keys, or widened in buf.
func (p *paging) stored(s *Session, x *pool, q, at, n, g int, buf []float32) kernel.Mat {
	hd := p.HeadDim
	if x.b == nil {
		return p.keys(s, x.plain, q, at, n, g, buf)
	}
	for i := range n {
		x.read((p.slot(q, at+i)*p.KVHeads+g)*hd, buf[i*hd:(i+1)*hd])
	}
	return rowMajor(buf, n, hd)
}
