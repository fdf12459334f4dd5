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
		l := x.lie(&c)
		if l.step > 1 && x.flipped {
			return fmt.Errorf("tensor %q: columns in turns are not turned over", c.Name)
		}
		from, to := max(0, ceil(col-l.col, l.step)), min(l.cols, ceil(col+cols-l.col, l.step))
		if from >= to {
			continue
		}
		fill := x.along
		if c.Transposed != x.flipped {
			fill = x.down
		}
		n, err := fill(p, c.state, &l, row, rows, col, cols, from, to)
		if err != nil {
			return err
		}
		found += n
	}
	if found != rows*cols {
		return fmt.Errorf("%d elements of %d are in no weight", rows*cols-found, rows*cols)
	}
	return nil
}

// lying is where a part lies in the rows and columns of the file: its element (i, k) is in row row+i and column col+k·step.
type lying struct {
	first, row, col, rows, cols, step int
}

func (x *matrix) lie(c *part) lying {
	l := lying{c.First, c.Row, c.Col, c.Rows, c.Cols, max(1, c.Step)}
	if c.Transposed {
		l.rows, l.cols = c.Cols, c.Rows
	}
	if x.flipped {
		l.row, l.col, l.rows, l.cols = l.col, l.row, l.cols, l.rows
	}
	return l
}

// ceil is n/by rounded up, 0 for a negative one.
func ceil(n, by int) int { return max(0, n+by-1) / by }

// along fills in columns from to to of a part whose rows are neighbours in the weight.
func (x *matrix) along(p []byte, state string, l *lying, row, rows, col, cols, from, to int) (found int, err error) {
	var line [16 << 10]byte
	for r := range rows {
		i := x.source(row+r) - l.row
		if i < 0 || i >= l.rows {
			continue
		}
		at, w := l.first+i*l.cols, x.width
		if l.step == 1 {
			begin := (r*cols + l.col + from - col) * w
			err = x.elems(state, at+from, p[begin:begin+(to-from)*w])
		}
		for k := from; k < to && l.step > 1 && err == nil; {
			s := line[:min(len(line)/w, to-k)*w]
			err = x.elems(state, at+k, s)
			for ; len(s) > 0 && err == nil; s, k = s[w:], k+1 {
				copy(p[(r*cols+l.col+k*l.step-col)*w:][:w], s)
			}
		}
		if err != nil {
			return 0, err
		}
		found += to - from
	}
	return found, nil
}

// down is along for a part whose columns are neighbours in the weight.
func (x *matrix) down(p []byte, state string, l *lying, row, rows, col, cols, from, to int) (found int, err error) {
	first, last := max(row, l.row), min(row+rows, l.row+l.rows)
	if first >= last {
		return 0, nil
	}
	var line [16 << 10]byte
	most := len(line) / x.width
	for k := from; k < to; k++ {
		j := l.col + k*l.step - col
		for i := first; i < last; i += most {
			n := min(most, last-i)
			s := line[:n*x.width]
			if err := x.elems(state, l.first+k*l.rows+i-l.row, s); err != nil {
				return 0, err
			}
			for r := range n {
				copy(p[((i-row+r)*cols+j)*x.width:][:x.width], s[r*x.width:])
			}
			found += n
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

	shapes map[string][]int64    // of weights
	blocks map[string]dtype.Type // of weights that are stored in blocks
}

// open opens the model, and has what is quantised widened.
func (o *Options) open() (*crossing, error) {
	m, err := weights.Open(o.In)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	x := &crossing{Model: m, parts: map[string][]part{}, types: map[string]dtype.Type{}, shapes: map[string][]int64{}, blocks: map[string]dtype.Type{}}
	for _, p := range m.Config.Parameters() {
		t := m.Types[p.Name]
		for _, d := range p.Type.Shape.Dims[:p.Type.Shape.N] {
			x.shapes[p.Name] = append(x.shapes[p.Name], int64(d.N))
		}
		if t != dtype.F16 && t != dtype.BF16 {
			if _, ok := quant.Of(t); ok && t != dtype.F32 { // groups of codes are widened: no file has them
				x.blocks[p.Name] = t
			}
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
		if err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
		if at.Stacked {
			for _, p := range x.parts[c.Name] {
				if p.First > 0 {
					continue // a weight has a part for every expert
				}
				t, err := x.stacked(p)
				if err != nil {
					return nil, err
				}
				all = append(all, t)
			}
			continue
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

// stacked is what GGUF has of experts that are published in one tensor: a weight as it is, in blocks where it is stored in them.
func (x *crossing) stacked(p part) (*tensor, error) {
	at, err := weights.PlaceInGGUF(x.Config, p.Piece)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	if t, ok := x.blocks[p.state]; ok {
		x.Types[p.state] = t
	}
	from, err := quant.Parse(x.Types[p.state].String())
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	b := &blockReader{from, func(q []byte, at int64) error { return x.ReadBytes(p.state, at, q) }}
	return &tensor{name: at.Name, shape: x.shapes[p.state], from: from, to: from, stored: x.Stored(p.state), raw: b.raw, wide: b.wide}, nil
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
	if err := o.choose(tensors, nil); err != nil {
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
	if err := o.choose(tensors, meta); err != nil {
		return nil, err
	}
	for _, t := range tensors {
		if stays(t.name) && t.from.BlockElems() == 1 {
			t.to = quant.F32
		}
	}
	o.setFileType(&meta, tensors)
	if err := o.readsBack(x.Config, tensors, meta); err != nil {
		return nil, err
	}
	return o.writeGGUF(ctx, tensors, meta)
}
