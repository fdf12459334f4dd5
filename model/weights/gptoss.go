package weights

import (
	"fmt"
	"strings"

	"loadline/model"
	"loadline/model/safetensors"
	"loadline/tensor/quant"
)

// gpt-oss publishes its experts as (experts, inputs, outputs), gate and up in turns. Other files have them row by row:
//
//	GGUF                                      ffn_gate_exps, ffn_up_exps, ffn_down_exps (experts, outputs, inputs), and their biases
//	Hugging Face, mxfp4: NAME_blocks, _scales (experts, outputs, inputs/32, 16) and (experts, outputs, inputs/32), gate and up in turns

// byRow is a piece of such a tensor where every projection has a tensor of its own, row by row.
func byRow(c model.Piece) model.Piece {
	if !c.Transposed { // a bias
		return model.Piece{Name: c.Name, Shape: []int{c.Rows, c.Cols}, First: c.First, Rows: c.Rows, Cols: c.Cols, Width: c.Cols}
	}
	return model.Piece{
		Name: c.Name, Shape: []int{c.Shape[0], c.Rows, c.Cols}, First: c.First, Rows: c.Rows, Cols: c.Cols, Width: c.Cols, Row: c.Row / c.Cols * c.Rows,
	}
}

// rowExperts is where a GGUF file has a projection of gpt-oss's experts; false if c is of none.
func (g *ggufFile) rowExperts(c model.Piece) (at placed, ok bool, err error) {
	layer, part, ok := layerPart(c.Name)
	if part, ok = strings.CutPrefix(part, "mlp.experts."); !ok || g.config.ModelType != model.GPTOss {
		return placed{}, false, nil
	}
	part, bias := strings.CutSuffix(part, "_bias")
	name := map[string]string{"gate_up_proj": "ffn_gate_exps", "down_proj": "ffn_down_exps"}[part]
	if part == "gate_up_proj" && c.Col == 1 {
		name = "ffn_up_exps"
	}
	kind := ".weight"
	if bias {
		kind = ".bias"
	}
	name = fmt.Sprintf("blk.%d.%s%s", layer, name, kind)
	info, ok := g.f.Tensor(name)
	if !ok {
		return placed{}, true, fmt.Errorf("tensor %q is missing (%s)", name, c.Name)
	}
	c = byRow(c)
	if !sameShape(info.Shape, c.Shape) {
		return placed{}, true, fmt.Errorf("tensor %q: want %v, file has %v", name, c.Shape, info.Shape)
	}
	t, err := g.tensor(&info, 0)
	c.Name = name
	return placed{Piece: c, tensor: t}, true, err
}

// Geometry of mxfp4 in blocks of its own.
const (
	mxElems  = 32
	mxCodes  = mxElems / 2 // bytes of codes
	mxBlock  = 1 + mxCodes // bytes of a GGUF block: the scale, then codes
	mxAtOnce = 64          // blocks
)

var _ [mxBlock]byte = [17]byte{}

// microscaled is a projection of gpt-oss's experts that is stored in mxfp4; false if it is not. Rows are handed out as GGUF's blocks,
// which have the same scales and codes: element j of a block is nibble j of the file's codes, the lower one first, and in GGUF the lower
// nibble of code j, or, from element 16 on, the upper one of code j − 16.
func (p *published) microscaled(name string, c model.Piece) (at placed, ok bool, err error) {
	blocks, ok := p.set.Tensor(name + "_blocks")
	if !ok || !c.Transposed || len(c.Shape) != 3 {
		return placed{}, false, nil
	}
	experts, k, width, step := c.Shape[0], c.Shape[1], c.Shape[2], max(1, c.Step)
	if k%mxElems != 0 {
		return placed{}, true, fmt.Errorf("tensor %q: rows of %d elements are not whole blocks of %d", blocks.Name, k, mxElems)
	}
	scales, ok := p.set.Tensor(name + "_scales")
	if !ok {
		return placed{}, true, fmt.Errorf("tensor %q is missing", name+"_scales")
	}
	for _, x := range []struct {
		safetensors.Info
		want []int
	}{{blocks, []int{experts, width, k / mxElems, mxCodes}}, {scales, []int{experts, width, k / mxElems}}} {
		if x.DType != safetensors.U8 || !sameShape(x.Shape, x.want) {
			return placed{}, true, fmt.Errorf("tensor %q: want %v of %s, file has %v of %s", x.Name, x.want, safetensors.U8, x.Shape, x.DType)
		}
	}
	first, rows := c.Col, c.Rows
	c = byRow(c)
	key := fmt.Sprintf("%s[%d:]", name, first)
	t := p.tensors[key]
	if t == nil {
		m := &mxRows{row: k / mxElems, codes: p.reader(blocks.Name), scales: p.reader(scales.Name)}
		m.place = func(row int) int { return row/rows*width + first + row%rows*step }
		t = &tensor{name: key, typ: quant.MXFP4, read: m.read}
		p.tensors[key] = t
	}
	return placed{Piece: c, tensor: t}, true, nil
}

// mxRows hands out rows of blocks.
type mxRows struct {
	row           int               // blocks
	place         func(row int) int // of a row in the file
	codes, scales func(p []byte, at int64) error
	in            [mxAtOnce * mxCodes]byte
	exponents     [mxAtOnce]byte
}

// read fills p with whole blocks from byte at on.
func (m *mxRows) read(p []byte, at int64) error {
	for b := int(at / mxBlock); len(p) > 0; {
		row, col := b/m.row, b%m.row
		n := min(len(p)/mxBlock, m.row-col, mxAtOnce)
		from := int64(m.place(row)*m.row + col)
		in, exponents := m.in[:n*mxCodes], m.exponents[:n]
		if err := m.codes(in, from*mxCodes); err != nil {
			return err
		}
		if err := m.scales(exponents, from); err != nil {
			return err
		}
		for i, e := range exponents {
			out, codes := p[i*mxBlock:][:mxBlock], in[i*mxCodes:][:mxCodes]
			out[0] = e
			for j := range mxCodes {
				shift := j % 2 * 4
				out[1+j] = codes[j/2]>>shift&15 | codes[8+j/2]>>shift&15<<4
			}
		}
		b, p = b+n, p[n*mxBlock:]
	}
	return nil
}
