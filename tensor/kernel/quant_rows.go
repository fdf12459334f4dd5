package kernel

import (
	"encoding/binary"

	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// PackFrom fills W from src, whole blocks of its rows as a file has them, one row after another, of which at is the first block's place in
// bytes: what Pack does, for pieces of any length. Data begins as zeros, which rows beyond N stay. Threads may fill disjoint pieces at once.
func (w QuantWeights) PackFrom(src []byte, at int) {
	p, ok := panelOf(w.Type)
	size := 1
	if ok {
		size = w.Type.BlockBytes()
	}
	if !ok || len(w.Data) != QuantWeightsLen(w.Type, w.N, w.K) || at < 0 || at%size != 0 || len(src)%size != 0 {
		panic("kernel: QuantWeights.PackFrom: lengths do not match")
	}
	row := w.K / p.elems // in blocks
	if at/size+len(src)/size > w.N*row {
		panic("kernel: QuantWeights.PackFrom: rows outside the matrix")
	}
	for b := at / size; len(src) > 0; {
		n, k := b/row, b%row
		panel := w.panel(n, p)
		many := 1
		if p.elems == 1 { // the blocks are elements: as many as are left of the row
			if whole := QuantPanel * row; k == 0 && n%QuantPanel == 0 && len(src) >= 2*whole { // a panel
				packHalves(panel, src, row)
				src, b = src[2*whole:], b+whole
				continue
			}
			many = min(row-k, len(src)/size)
		} else if t := turningOf(w.Type); t != nil && k == 0 && n%QuantPanel == 0 && len(src) >= QuantPanel*row*size { // a panel
			t.packPanel(panel, src, row, size, p.bytes)
			src, b = src[QuantPanel*row*size:], b+QuantPanel*row
			continue
		}
		p.pack(panel[k*p.bytes:(k+many)*p.bytes], src[:many*size], n%QuantPanel)
		src, b = src[many*size:], b+many
	}
}

// Row widens row n to dst, K elements, with quant.Decode's bits. Exact.
func (w QuantWeights) Row(dst []float32, n int) {
	p, ok := panelOf(w.Type)
	if !ok || n < 0 || n >= w.N || len(dst) != w.K || len(w.Data) != QuantWeightsLen(w.Type, w.N, w.K) {
		panic("kernel: QuantWeights.Row: lengths do not match")
	}
	from, row := w.panel(n, p), n%QuantPanel
	if p.elems == 1 {
		for k := range dst {
			h := binary.LittleEndian.Uint16(from[2*(QuantPanel*k+row):])
			if w.Type == quant.BF16 {
				dst[k] = dtype.FromBF16(h)
			} else {
				dst[k] = dtype.FromF16(h)
			}
		}
		return
	}
	u := unpacked{only: row + 1}
	steps := p.elems / QuantGroup
	for g := range w.K / QuantGroup {
		u.unpack(w.Type, from[g/steps*p.bytes:][:p.bytes], g%steps)
		out := dst[g*QuantGroup:][:QuantGroup]
		for i, code := range u.codes[row] {
			half := 0
			if u.halves {
				half = i / 16
			}
			x := float32(u.scale[half][row] * float32(int32(code)-u.zero))
			if u.mins {
				x += u.min[half][row]
			}
			out[i] = x
		}
	}
}

// PackFrom fills W from src, whole blocks of a quant.Group of its rows, one row after another, of which at is the first block's place in
// bytes. Data begins as zeros, which rows beyond N stay. Threads may fill disjoint pieces at once.
func (w GroupedWeights) PackFrom(src []byte, at int) {
	g := quant.Group{Bits: w.Bits, Elems: w.Group}
	size, row := g.Bytes(), w.K/w.Group
	if len(w.Data) != GroupedLen(w.Bits, w.N, w.K, w.Group) || w.Group > maxGroup || at < 0 || at%size != 0 || len(src)%size != 0 {
		panic("kernel: GroupedWeights.PackFrom: lengths do not match")
	}
	if (at+len(src))/size > w.N*row {
		panic("kernel: GroupedWeights.PackFrom: rows outside the matrix")
	}
	var codes [maxGroup]uint8
	for b := at / size; len(src) > 0; b, src = b+1, src[size:] {
		scale, zero := g.Get(codes[:w.Group], src[:size])
		w.packGroup(b/row, b%row, codes[:w.Group], scale, zero)
	}
}

// maxGroup is the elements of the longest group that PackFrom takes.
const maxGroup = 128
