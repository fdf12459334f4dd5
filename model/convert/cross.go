package convert

import (
	"context"
	"fmt"
	"math"

	"loadline/model"
	"loadline/model/weights"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// part is where elements of a published tensor lie in a weight.
type part struct {
	state string
	model.Piece
}

// matrix is rows of elements that a file is to have, found in the weights of an open model.
//
//	row i of the file ─turn─▶ row of the published tensor, or with flipped its column ─parts─▶ elements of weights
type matrix struct {
	m          *weights.Model
	parts      []part
	rows, cols int
	turn       int // width of heads whose rows llama.cpp has in another order; 0 for none
	plus       float32
	flipped    bool
	width      int // bytes of an element of typ
	typ        dtype.Type
}

// source is the published row that is row i of the file.
func (x *matrix) source(i int) int {
	if x.turn == 0 {
		return i
	}
	in := i % x.turn
	return i - in + in/2 + in%2*(x.turn/2)
}

// read fills p with elements of rows of the file, n of them from element at on, as they are in the weights.
func (x *matrix) read(p []byte, at, n int) error {
	for n > 0 {
		row, col := at/x.cols, at%x.cols
		k := min(n, x.cols-col)
		rows := 1
		if col == 0 && n >= x.cols {
			rows = n / x.cols
			k = rows * x.cols
		}
		if err := x.span(p[:k*x.width], row, rows, col, k/rows); err != nil {
			return err
		}
		p, at, n = p[k*x.width:], at+k, n-k
	}
	return nil
}

// span fills p with columns of some rows.
func (x *matrix) span(p []byte, row, rows, col, cols int) error {
	found := 0
	for _, c := range x.parts {
		firstRow, firstCol, height, width := c.Row, c.Col, c.Rows, c.Cols
		if c.Transposed {
			height, width = c.Cols, c.Rows
		}
		if x.flipped {
			firstRow, firstCol, height, width = firstCol, firstRow, width, height
		}
		lo, hi := max(col, firstCol), min(col+cols, firstCol+width)
		if lo >= hi {
			continue
		}
		if c.Transposed != x.flipped {
			n, err := x.down(p, &c, row, rows, col, cols, lo, hi, firstRow, firstCol, height)
			if err != nil {
				return err
			}
			found += n
			continue
		}
		for r := range rows {
			i := x.source(row+r) - firstRow
			if i < 0 || i >= height {
				continue
			}
			to := (r*cols + lo - col) * x.width
			if err := x.elems(c.state, c.First+i*width+lo-firstCol, p[to:to+(hi-lo)*x.width]); err != nil {
				return err
			}
			found += hi - lo
		}
	}
	if found != rows*cols {
		return fmt.Errorf("%d elements of %d are in no weight", rows*cols-found, rows*cols)
	}
	return nil
}

// down is span for a part that lies across: neighbours of a column are neighbours in the weight.
func (x *matrix) down(p []byte, c *part, row, rows, col, cols, lo, hi, firstRow, firstCol, height int) (found int, err error) {
	from, to := max(row, firstRow), min(row+rows, firstRow+height)
	if from >= to {
		return 0, nil
	}
	var line [16 << 10]byte
	most := len(line) / x.width
	for j := lo; j < hi; j++ {
		for i := from; i < to; i += most {
			k := min(most, to-i)
			s := line[:k*x.width]
			if err := x.elems(c.state, c.First+(j-firstCol)*height+i-firstRow, s); err != nil {
				return 0, err
			}
			for r := range k {
				copy(p[((i-row+r)*cols+j-col)*x.width:][:x.width], s[r*x.width:])
			}
			found += k
		}
	}
	return found, nil
}

// elems reads elements of a weight.
func (x *matrix) elems(state string, at int, p []byte) error {
	return x.m.ReadBytes(state, int64(at)*int64(x.width), p)
}

// tensor makes what is written of a matrix.
func (x *matrix) tensor(name string, shape []int64) *tensor {
	t := &tensor{name: name, shape: shape, from: storage(x.typ)}
	t.to = t.from
	if x.plus == 0 {
		t.raw = func(p []byte, at int64) error { return x.read(p, int(at), len(p)/x.width) }
	}
	t.wide = func(dst []float32, at int64) error {
		var piece [16 << 10]byte
		for len(dst) > 0 {
			n := min(len(dst), len(piece)/x.width)
			p := piece[:n*x.width]
			if n > x.cols { // whole rows, or columns that lie across are read again and again
				n = n / x.cols * x.cols
				p = p[:n*x.width]
			}
			if err := x.read(p, int(at), n); err != nil {
				return err
			}
			quant.Decode(dst[:n], t.from, p)
			if x.plus != 0 {
				for i := range dst[:n] {
					dst[i] += x.plus
				}
			}
			dst, at = dst[n:], at+int64(n)
		}
		return nil
	}
	return t
}

// turnedBias widens the bias of turned rows: rows of one element.
func (x *matrix) turnedBias(from quant.Type) func(dst []float32, at int64) error {
	return func(dst []float32, at int64) error {
		var one [4]byte
		for i := range dst {
			if err := x.read(one[:x.width], x.source(int(at)+i), 1); err != nil {
				return err
			}
			quant.Decode(dst[i:i+1], from, one[:x.width])
		}
		return nil
	}
}

// storage is the format of plain elements.
func storage(t dtype.Type) quant.Type {
	switch t {
	case dtype.F16:
		return quant.F16
	case dtype.BF16:
		return quant.BF16
	}
	return quant.F32
}

// crossing is an open model on its way to the other format.
type crossing struct {
	*weights.Model
	parts map[string][]part
	order []model.Piece // published tensors, each once
	types map[string]dtype.Type
}

// open opens the model, and has what is quantised widened.
func (o *Options) open() (*crossing, error) {
	m, err := weights.Open(o.In)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	x := &crossing{Model: m, parts: map[string][]part{}, types: map[string]dtype.Type{}}
	for _, p := range m.Config.Parameters() {
		t := m.Types[p.Name]
		if t != dtype.F16 && t != dtype.BF16 {
			delete(m.Types, p.Name)
			t = dtype.F32
		}
		for _, c := range p.Pieces {
			if x.parts[c.Name] == nil {
				x.order = append(x.order, c)
			}
			x.parts[c.Name] = append(x.parts[c.Name], part{p.Name, c})
			if old, ok := x.types[c.Name]; ok && old != t {
				t = dtype.F32
			}
			x.types[c.Name] = t
		}
	}
	for name, parts := range x.parts { // weights that share a tensor have one type
		for _, p := range parts {
			if x.types[name] == dtype.F32 {
				delete(m.Types, p.state)
			}
		}
	}
	return x, nil
}

// matrix finds a published tensor.
func (x *crossing) matrix(c model.Piece) *matrix {
	rows, cols := 1, 1
	for i, d := range c.Shape {
		if i == len(c.Shape)-1 {
			cols = d
		} else {
			rows *= d
		}
	}
	t := x.types[c.Name]
	width := 4
	if t != dtype.F32 {
		width = 2
	}
	return &matrix{m: x.Model, parts: x.parts[c.Name], rows: rows, cols: cols, typ: t, width: width}
}

// published are the tensors of a Hugging Face directory.
func (x *crossing) published() (all []*tensor) {
	for _, c := range x.order {
		t := x.matrix(c).tensor(c.Name, wideShape(c.Shape))
		t.stored = x.Stored(x.parts[c.Name][0].state)
		all = append(all, t)
	}
	return all
}

func wideShape(shape []int) (wide []int64) {
	for _, d := range shape {
		wide = append(wide, int64(d))
	}
	return wide
}

// inGGUF are the tensors of a GGUF file.
func (x *crossing) inGGUF() (all []*tensor, err error) {
	stacks := map[string][]*matrix{}
	for _, c := range x.order {
		at, err := weights.PlaceInGGUF(x.Config, c)
		if err == nil && at.Stacked {
			err = fmt.Errorf("tensor %q holds several projections of experts, which are not taken apart here", c.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
		m := x.matrix(c)
		m.turn, m.plus = at.Turn, at.Plus
		shape := wideShape(c.Shape)
		if at.Flipped && len(shape) == 2 {
			m.flipped = true
			m.rows, m.cols = m.cols, m.rows
			shape[0], shape[1] = shape[1], shape[0]
		}
		if at.Expert < 0 {
			t := m.tensor(at.Name, shape)
			t.stored = x.Stored(x.parts[c.Name][0].state)
			if m.turn > 0 && len(c.Shape) == 1 {
				t.raw, t.wide = nil, m.turnedBias(t.from)
			}
			all = append(all, t)
			continue
		}
		if stacks[at.Name] == nil {
			t := &tensor{name: at.Name, shape: append([]int64{0}, shape...), from: storage(m.typ), to: storage(m.typ)}
			all = append(all, t)
		}
		if at.Expert != len(stacks[at.Name]) {
			return nil, fmt.Errorf("convert: tensor %q: expert %d comes after %d", c.Name, at.Expert, len(stacks[at.Name]))
		}
		stacks[at.Name] = append(stacks[at.Name], m)
	}
	for _, t := range all {
		if s := stacks[t.name]; s != nil {
			t.stack(s)
		}
	}
	return all, nil
}

// stack makes a tensor of one matrix an expert.
func (t *tensor) stack(experts []*matrix) {
	t.shape[0] = int64(len(experts))
	one := int64(experts[0].rows) * int64(experts[0].cols)
	var each []*tensor
	for _, m := range experts {
		if m.typ != experts[0].typ {
			t.from, t.to = quant.F32, quant.F32
		}
		each = append(each, m.tensor(t.name, nil))
	}
	if t.from == storage(experts[0].typ) {
		width := int64(experts[0].width)
		t.raw = func(p []byte, at int64) error {
			for len(p) > 0 {
				e, in := at/one, at%one
				n := min(int64(len(p))/width, one-in)
				if err := each[e].raw(p[:n*width], in); err != nil {
					return err
				}
				p, at = p[n*width:], at+n
			}
			return nil
		}
	}
	t.wide = func(dst []float32, at int64) error {
		for len(dst) > 0 {
			e, in := at/one, at%one
			n := min(int64(len(dst)), one-in)
			if err := each[e].wide(dst[:n], in); err != nil {
				return err
			}
			dst, at = dst[n:], at+n
		}
		return nil
	}
}

// made is a tensor that no file has.
func made(name string, values []float64) *tensor {
	t := &tensor{name: name, shape: []int64{int64(len(values))}, from: quant.F32, to: quant.F32, made: true}
	t.wide = func(dst []float32, at int64) error {
		for i := range dst {
			dst[i] = float32(values[at+int64(i)])
		}
		return nil
	}
	return t
}

// narrow finds tensors of float32 whose elements all are what a type has, and writes them in it: vectors and others that a GGUF file has
// in float32 whatever they were made from. One that the buffer does not hold stays.
func narrow(tensors []*tensor, to quant.Type, buf []float32) error {
	round := dtype.ToBF16
	back := dtype.FromBF16
	if to == quant.F16 {
		round, back = dtype.ToF16, dtype.FromF16
	}
	for _, t := range tensors {
		n := t.elems()
		if t.other != "" || t.from != quant.F32 || n > int64(len(buf)) {
			continue
		}
		x := buf[:n]
		if err := t.wide(x, 0); err != nil {
			return fmt.Errorf("convert: %w", err)
		}
		exact := true
		for _, v := range x {
			exact = exact && math.Float32bits(back(round(v))) == math.Float32bits(v)
		}
		if exact {
			t.to = to
		}
	}
	return nil
}

// ggufToDirectory makes a Hugging Face directory.
func (o *Options) ggufToDirectory(ctx context.Context) (*Result, error) {
	x, err := o.open()
	if err != nil {
		return nil, err
	}
	defer x.Close() // read only
	tensors := x.published()
	if err := o.choose(tensors); err != nil {
		return nil, err
	}
	if most, _ := mostly(tensors); o.Type == "" && most != quant.F32 {
		wide, _ := o.halves()
		if err := narrow(tensors, most, wide); err != nil {
			return nil, err
		}
	}
	return o.writeDirectory(ctx, tensors, nil, func(dir string) error { return o.directoryFiles(dir, x, tensors) })
}

// directoryToGGUF makes a GGUF file.
func (o *Options) directoryToGGUF(ctx context.Context) (*Result, error) {
	x, err := o.open()
	if err != nil {
		return nil, err
	}
	defer x.Close() // read only
	tensors, err := x.inGGUF()
	if err != nil {
		return nil, err
	}
	meta, more, err := o.metadata(x)
	if err != nil {
		return nil, err
	}
	tensors = append(tensors, more...)
	if err := o.choose(tensors); err != nil {
		return nil, err
	}
	for _, t := range tensors {
		if stays(t.name) && t.from.BlockElems() == 1 {
			t.to = quant.F32
		}
	}
	setFileType(&meta, tensors)
	if err := o.readsBack(x.Config, tensors, meta); err != nil {
		return nil, err
	}
	return o.writeGGUF(ctx, tensors, meta)
}
