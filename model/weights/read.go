package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"loadline/mem/arena"
	"loadline/model"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// Bounds of what is read and widened at once.
const (
	scratchBytes = 32 << 10
	scratchElems = 4 << 10
)

// param is a weight and where it lies.
type param struct {
	model.Param          // Pieces are of the files' tensors, as they are there
	in          []placed // by piece
	stored      quant.Type
	whole       bool        // all pieces are of one type, in whole blocks that can be handed out as they are
	blocks      model.Param // Pieces in blocks in the place of elements; where whole
	at          int64       // bytes that Source has handed out
}

// placed is a piece in the tensor of a file.
type placed struct {
	model.Piece
	*tensor
	// rows is where the file has a row of the tensor: nil where it is in its place.
	rows func(row int) int
}

// tensor is a tensor of a file: plain elements, or blocks of them; or a layer whose rows are made from several tensors.
type tensor struct {
	name  string // in the file
	typ   quant.Type
	plus  float32 // what was added to every element when the file was made
	bytes int64   // of read
	read  func(p []byte, at int64) error
	layer *layer // nil where read has the elements
}

// resolve finds every weight.
func (m *Model) resolve() error {
	for _, p := range m.Config.Parameters() {
		x := &param{Param: p}
		x.Pieces = slices.Clone(p.Pieces)
		for i, c := range p.Pieces {
			at, err := m.files.place(c)
			if err != nil {
				return fmt.Errorf("weights: %s: %w", m.Path, err)
			}
			x.in, x.Pieces[i] = append(x.in, at), at.Piece
		}
		m.order = append(m.order, x)
		m.named[p.Name] = x
		x.uniform()
		if t, ok := x.kind(); ok && p.Matrix() && t != dtype.F32 {
			m.Types[p.Name] = t
			if l := x.in[0].layer; l != nil && l.order.read != nil {
				m.Types[p.Name+model.OrderSuffix] = dtype.I32
				m.orders[p.Name+model.OrderSuffix] = &ordering{layer: l}
			}
		}
		for _, at := range x.in {
			m.tiles.fit(at.layer)
		}
	}
	return nil
}

// unit is the elements and bytes of what the tensor is read in.
func (t *tensor) unit() (elems, bytes int) {
	if t.layer == nil {
		return t.typ.BlockElems(), t.typ.BlockBytes()
	}
	d := t.layer.packs
	return d.BlockElems(), int(d.Bytes(int64(d.BlockElems())))
}

// uniform finds out whether the bytes of the files, or of the blocks that layers are made into, are those of the weight.
func (x *param) uniform() {
	first := x.in[0].tensor
	x.stored = first.typ
	n, _ := first.unit()
	x.blocks = x.Param
	x.blocks.Pieces = slices.Clone(x.Pieces)
	for i, at := range x.in {
		c := &x.blocks.Pieces[i]
		switch {
		case at.layer == nil && first.layer == nil && at.typ == first.typ && at.plus == 0:
		case at.layer != nil && first.layer != nil && at.layer.packs == first.layer.packs && at.layer.packs != dtype.F32 && x.Part != embedPart && (at.layer.order.read == nil || len(x.in) == 1 && x.Type.Shape.N == 2):
		default:
			return
		}
		if n > 1 && (c.Transposed || c.Step > 1 || c.First%n != 0 || c.Cols%n != 0 || c.Width%n != 0 || c.Col%n != 0) {
			return
		}
		c.First, c.Cols, c.Width, c.Col = c.First/n, c.Cols/n, c.Width/n, c.Col/n
	}
	x.whole = true
}

// embedPart is the part that tables are looked up in: a row of groups of codes is not.
const embedPart = "embed"

// kind is the type in which blocks are handed out as they are; false where there is none.
func (x *param) kind() (t dtype.Type, ok bool) {
	switch {
	case !x.whole:
		return 0, false
	case x.in[0].layer != nil:
		return x.in[0].layer.packs, true
	}
	return x.stored.DType()
}

// Widened says, for people, which weights of a quantised checkpoint are handed out as f32 although its layers are quantised, and why: one
// line for each reason.
func (m *Model) Widened() (lines []string) {
	type reason struct{ storage, why string }
	count, name := map[reason]int{}, map[reason]string{}
	var order []reason
	for _, x := range m.order {
		i := slices.IndexFunc(x.in, func(at placed) bool { return at.layer != nil })
		if _, ok := x.kind(); ok || i < 0 {
			continue
		}
		l := x.in[i].layer
		r := reason{l.storage, l.why}
		if r.why == "" {
			r.why = "parts that differ, or each in an order of its own"
			if x.Part == embedPart {
				r.why = "a table that tokens are looked up in"
			}
		}
		if count[r]++; count[r] == 1 {
			name[r], order = x.Name, append(order, r)
		}
	}
	for _, r := range order {
		more := ""
		if n := count[r] - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		lines = append(lines, fmt.Sprintf("%s%s: %s widened to f32: %s", name[r], more, r.storage, r.why))
	}
	return lines
}

// Has tells whether a State is a weight of the model.
func (m *Model) Has(state string) bool { return m.named[state] != nil }

// Stored is the type that the files have a weight in, by GGUF's name, or that of a way of quantising; empty where parts of it differ.
func (m *Model) Stored(state string) string {
	x := m.named[state]
	if x == nil {
		return ""
	}
	name := ""
	for _, at := range x.in {
		s := at.typ.String()
		if at.layer != nil {
			s = at.layer.storage
		}
		if name != "" && s != name {
			return ""
		}
		name = s
	}
	return name
}

// Source fills p with the next bytes of a State, in the type that Types gives it and row after row: whole elements or blocks of them.
// After the last it begins again. It is a device.Args.Source.
func (m *Model) Source(state string, p []byte) error {
	if o := m.orders[state]; o != nil {
		return m.within(o.source(&m.tiles, p))
	}
	x := m.named[state]
	if x == nil {
		return fmt.Errorf("weights: %q is no weight of the model", state)
	}
	if err := m.ReadBytes(state, x.at, p); err != nil {
		return err
	}
	x.at += int64(len(p))
	if all, _ := x.bytes(m.Types[state]); x.at == all {
		x.at = 0
	}
	return nil
}

// Rewind lets Source begin every State again.
func (m *Model) Rewind() {
	for _, x := range m.order {
		x.at = 0
	}
	for _, o := range m.orders {
		o.at = 0
	}
}

// ordering is the State that says in what order a weight's inputs are.
type ordering struct {
	layer *layer
	at    int // elements that Source has handed out
}

// source fills p with the next elements.
func (o *ordering) source(t *tiles, p []byte) error {
	t.reserve()
	order, err := t.orderOf(o.layer)
	if err != nil {
		return err
	}
	if len(p)%4 != 0 || len(p)/4 > len(order)-o.at {
		return fmt.Errorf("an order of %d inputs: want %d bytes after %d", len(order), len(p), 4*o.at)
	}
	for ; len(p) > 0; p, o.at = p[4:], o.at+1 {
		binary.LittleEndian.PutUint32(p, uint32(order[o.at]))
	}
	o.at %= len(order)
	return nil
}

// Widen makes Source hand out every weight as f32.
func (m *Model) Widen() { clear(m.Types) }

// unit is the elements and bytes of what a type is read in.
func unit(t dtype.Type) (elems, bytes int, err error) {
	_, ok := quant.Of(t)
	_, group := quant.GroupOf(t)
	if !ok && !group {
		return 0, 0, fmt.Errorf("weights: no file has weights of type %v", t)
	}
	return t.BlockElems(), int(t.Bytes(int64(t.BlockElems()))), nil
}

// bytes is the length of a weight in a type.
func (x *param) bytes(t dtype.Type) (int64, error) {
	elems, bytes, err := unit(t)
	return int64(x.Elems()) / int64(max(1, elems)) * int64(bytes), err
}

// ReadBytes fills p with the bytes of a State from byte at on, in the type that Types gives it.
func (m *Model) ReadBytes(state string, at int64, p []byte) error {
	x := m.named[state]
	if x == nil {
		return fmt.Errorf("weights: %q is no weight of the model", state)
	}
	t := m.Types[state]
	_, w, err := unit(t)
	if err != nil {
		return err
	}
	all, _ := x.bytes(t)
	switch {
	case at < 0 || int64(len(p)) > all-at:
		return fmt.Errorf("weights: %q: has %d bytes as %v, want %d after %d", state, all, t, len(p), at)
	case at%int64(w) != 0 || len(p)%w != 0:
		return fmt.Errorf("weights: %q: want whole blocks of %d bytes as %v, not %d after %d", state, w, t, len(p), at)
	}
	own, ok := x.kind()
	switch {
	case ok && own == t && t != dtype.F32:
		err = x.same(m, int(at/int64(w)), p, w)
	case t == dtype.F32:
		err = m.ReadAt(state, int(at/4), p)
	case t == dtype.F16 || t == dtype.BF16:
		err = m.round(state, t, int(at/2), p)
	default:
		err = fmt.Errorf("weights: %q is stored as %s, which is not handed out as %v", state, m.Stored(state), t)
	}
	return err
}

// same hands out blocks as they are, n of them of w bytes each.
func (x *param) same(m *Model, at int, p []byte, w int) (err error) {
	x.blocks.Runs(at, len(p)/w, func(r model.Run) bool {
		c := &x.in[r.Piece]
		err = stretches(r, c.rows, x.blocks.Pieces[r.Piece].Width, func(at, to, n int) error {
			if c.layer != nil { // which is never turned, so the run is of neighbours
				return m.tiles.inBlocks(c, at, p[w*to:w*(to+n)])
			}
			if n == 1 {
				return m.near(c.tensor, p[w*to:w*(to+1)], int64(w)*int64(at))
			}
			if r.Stride == 1 {
				return c.read(p[w*to:w*(to+n)], int64(w)*int64(at))
			}
			for n > 0 {
				k := min(n, scratchBytes/w)
				s := m.buffer[:k*w]
				if err := c.read(s, int64(w)*int64(at)); err != nil {
					return err
				}
				for i := range k {
					copy(p[w*(to+i*r.Stride):][:w], s[w*i:])
				}
				at, to, n = at+k, to+k*r.Stride, n-k
			}
			return nil
		})
		return err == nil
	})
	return m.within(err)
}

// near reads a few bytes, and keeps those after them at hand: two projections that are published in turns are read element by element.
func (m *Model) near(t *tensor, p []byte, at int64) error {
	w := &m.window
	if w.of != t || at < w.at || at+int64(len(p)) > w.at+int64(w.n) {
		w.of = nil
		w.at, w.n = at, int(min(int64(len(w.bytes)), t.bytes-at))
		if err := t.read(w.bytes[:w.n], at); err != nil {
			return err
		}
		w.of = t
	}
	copy(p, w.bytes[at-w.at:])
	return nil
}

// window is a stretch of a tensor of plain elements.
type window struct {
	of    *tensor
	at    int64
	n     int
	bytes [4 << 10]byte
}

// within says in which model an error is.
func (m *Model) within(err error) error {
	if err != nil {
		return fmt.Errorf("weights: %s: %w", m.Path, err)
	}
	return nil
}

// stretches calls read for what of a run is neighbours in the file: all of it, or rows of it where they are in an order of its own.
func stretches(r model.Run, rows func(int) int, width int, read func(at, to, n int) error) error {
	if rows == nil {
		return read(r.At, r.Range, r.N)
	}
	for done := 0; done < r.N; {
		row, col := (r.At+done)/width, (r.At+done)%width
		n := min(r.N-done, width-col)
		if err := read(rows(row)*width+col, r.Range+done*r.Stride, n); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// Turn is where llama.cpp has a row of a query or key projection whose heads are width rows each: pairs that rotary positions turn are
// neighbours there, and half a head apart as published.
func Turn(row, width int) int {
	head, in := row/width*width, row%width
	return head + in%(width/2)*2 + in/(width/2)
}

// round fills p with elements rounded to a type of two bytes, from element at on.
func (m *Model) round(state string, t dtype.Type, at int, p []byte) error {
	to := dtype.ToBF16
	if t == dtype.F16 {
		to = dtype.ToF16
	}
	var wide [4096]byte
	for len(p) > 0 {
		s := wide[:min(2*len(p), len(wide))]
		if err := m.ReadAt(state, at, s); err != nil {
			return err
		}
		n := len(s) / 4
		for i := range n {
			binary.LittleEndian.PutUint16(p[2*i:], to(math.Float32frombits(binary.LittleEndian.Uint32(s[4*i:]))))
		}
		at, p = at+n, p[2*n:]
	}
	return nil
}

// ReadAt fills p, which lies at a multiple of 4 bytes, with float32 elements of a State, from element at on.
func (m *Model) ReadAt(state string, at int, p []byte) error {
	x := m.named[state]
	if x == nil {
		return fmt.Errorf("weights: %q is no weight of the model", state)
	}
	n := len(p) / 4
	if len(p)%4 != 0 || at < 0 || n > x.Elems()-at {
		return fmt.Errorf("weights: %q: has %d elements, want %d bytes after %d", state, x.Elems(), len(p), at)
	}
	var err error
	x.Runs(at, n, func(r model.Run) bool {
		c := &x.in[r.Piece]
		err = stretches(r, c.rows, c.Width, func(at, to, n int) error { return m.elems(c, at, n, p, to, r.Stride) })
		return err == nil
	})
	return m.within(err)
}

// elems widens n elements of a tensor from element at on, to elements to, to+stride, … of p.
func (m *Model) elems(c *placed, at, n int, p []byte, to, stride int) error {
	if c.layer != nil {
		return m.tiles.elems(c, at, n, func(x []float32) { to = put(p, to, stride, x) })
	}
	if n == 1 && c.typ.BlockElems() == 1 {
		s := m.buffer[:c.typ.BlockBytes()]
		if err := m.near(c.tensor, s, int64(at)*int64(len(s))); err != nil {
			return err
		}
		quant.Decode(m.wide[:1], c.typ, s)
		m.wide[0] -= c.plus
		put(p, to, stride, m.wide[:1])
		return nil
	}
	if c.typ == quant.F32 && stride == 1 && c.plus == 0 {
		return c.read(p[4*to:4*(to+n)], 4*int64(at))
	}
	be, bb := c.typ.BlockElems(), c.typ.BlockBytes()
	most := min(scratchBytes/bb, scratchElems/be)
	for n > 0 {
		skip := at % be
		blocks := min((skip+n+be-1)/be, most)
		k := min(n, blocks*be-skip)
		s := m.buffer[:blocks*bb]
		if err := c.read(s, int64(at/be)*int64(bb)); err != nil {
			return err
		}
		if stride == 1 && skip == 0 && k == blocks*be && c.plus == 0 {
			quant.Decode(arena.F32(p[4*to:4*(to+k)]), c.typ, s)
			to += k
		} else {
			x := m.wide[:blocks*be]
			quant.Decode(x, c.typ, s)
			if c.plus != 0 {
				for i := range x {
					x[i] -= c.plus
				}
			}
			to = put(p, to, stride, x[skip:skip+k])
		}
		at, n = at+k, n-k
	}
	return nil
}

// put writes elements to every stride-th place of p from place to on, and returns the next.
func put(p []byte, to, stride int, x []float32) int {
	for _, v := range x {
		binary.LittleEndian.PutUint32(p[4*to:], math.Float32bits(v))
		to += stride
	}
	return to
}
