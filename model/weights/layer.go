package weights

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"loadline/model/safetensors"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// tileRows is how many rows of a quantised layer are read at once: a multiple of what words hold of codes that lie down the rows.
const tileRows = 32

// layer is a linear layer of a quantised checkpoint, whose rows are made from several tensors.
//
//	tensors in the files ──load──▶ the tensors of a few rows, in the buffer of tiles ─┬─row────▶ one row in float32
//	                                                                                  └─codes──▶ one row in blocks of quant.Group
type layer struct {
	storage string
	n, k    int
	tile    int // rows that are loaded at once
	buffer  int // bytes that load takes

	order lines      // g_idx, where the elements of rows are made into blocks in another order: ascending by group
	packs dtype.Type // the blocks that rows are made into; F32 where they are widened
	group int        // elements of a row that share a scale
	why   string     // why they are widened

	// load reads what rows first to first+rows need into buf.
	load func(buf []byte, first, rows int) (part, error)
}

// part is the rows of a layer that are loaded, counted from the first of them.
type part struct {
	row   func(dst []float32, i int) // widens one
	codes func(codes []uint8, scales, zeros []float32, i int, order []int32)
}

// packAs chooses the longest groups for codes of which length in a row share a scale.
func (l *layer) packAs(bits, length int, table quant.Table) {
	l.group = length
	for _, n := range []int{128, 64, 32} {
		t, ok := quant.Group{Bits: bits, Elems: n, Table: table}.DType()
		if ok && l.k%n == 0 && (length%n == 0 || length >= l.k) {
			l.packs = t
			return
		}
	}
	l.why = fmt.Sprintf("scales of %d elements in rows of %d", min(length, l.k), l.k)
}

// integers is packAs for integers of so many bits.
func (l *layer) integers(bits, length int) {
	if bits <= 4 {
		l.packAs(4, length, quant.Integers)
		return
	}
	l.packAs(8, length, quant.Integers)
}

// tiles is the rows of a quantised layer that are in memory: one tile of one layer, and one row widened or in blocks.
type tiles struct {
	buf    []byte
	wide   []float32
	codes  []uint8
	scales []float32
	blocks []byte
	index  []byte
	order  []int32 // of the elements of rows of ordered, and behind it workspace

	of    *layer
	first int
	rows  int
	part  part

	widened int // the row in wide; −1 if none
	packed  int // the row in blocks; −1 if none
	ordered *layer

	most    int // bytes of the largest tile
	longest int // elements of the longest row
	packs   int // elements of the longest row that is made into blocks
	orders  int // elements of the longest of those that are so in another order
}

// fit makes room for the tiles of a layer.
func (t *tiles) fit(l *layer) {
	if l == nil {
		return
	}
	t.most, t.longest = max(t.most, l.buffer), max(t.longest, l.k)
	if l.packs != dtype.F32 {
		t.packs = max(t.packs, l.k)
		if l.order.read != nil {
			t.orders = max(t.orders, l.k)
		}
	}
}

// bytes is what tiles hold.
func (t *tiles) bytes() int {
	return t.most + 4*t.longest + t.packs + t.packs/smallGroup*(8+blockOf) + 8*t.orders + 4*(t.orders/smallGroup)
}

// smallGroup is the elements of the shortest group, blockOf the bytes of its longest block.
const (
	smallGroup = 32
	blockOf    = 40
)

// elems calls yield with n elements of a layer from element at on, row by row.
func (t *tiles) elems(c *placed, at, n int, yield func([]float32)) error {
	l := c.layer
	for n > 0 {
		row, col := at/l.k, at%l.k
		if err := t.load(l, row); err != nil {
			return fmt.Errorf("layer %q: %w", c.name, err)
		}
		if t.widened != row {
			t.part.row(t.wide[:l.k], row-t.first)
			t.widened = row
		}
		k := min(n, l.k-col)
		yield(t.wide[col : col+k])
		at, n = at+k, n-k
	}
	return nil
}

// inBlocks fills p with whole blocks of a layer, from block at on.
func (t *tiles) inBlocks(c *placed, at int, p []byte) error {
	l := c.layer
	g, _ := quant.GroupOf(l.packs)
	across, w := l.k/g.Elems, g.Bytes()
	for len(p) > 0 {
		row, b := at/across, at%across
		if err := t.load(l, row); err != nil {
			return fmt.Errorf("layer %q: %w", c.name, err)
		}
		if t.packed != row {
			if err := t.pack(l, g, row); err != nil {
				return fmt.Errorf("layer %q: %w", c.name, err)
			}
		}
		n := copy(p, t.blocks[b*w:across*w])
		at, p = at+n/w, p[n:]
	}
	return nil
}

// pack makes blocks of a row.
func (t *tiles) pack(l *layer, g quant.Group, row int) error {
	order, err := t.orderOf(l)
	if err != nil {
		return err
	}
	n := ceil(l.k, l.group)
	codes, scales, zeros := t.codes[:l.k], t.scales[:n], t.scales[n:2*n]
	t.part.codes(codes, scales, zeros, row-t.first, order)
	w := g.Bytes()
	for k := 0; k < l.k; k += g.Elems {
		g.Put(t.blocks[k/g.Elems*w:][:w], codes[k:k+g.Elems], scales[k/l.group], zeros[k/l.group])
	}
	t.packed = row
	return nil
}

// orderOf is the order in which rows are made into blocks; nil where it is that of the elements.
func (t *tiles) orderOf(l *layer) ([]int32, error) {
	if l.order.read == nil {
		return nil, nil
	}
	order := t.order[:l.k]
	if t.ordered == l {
		return order, nil
	}
	t.ordered = nil
	if err := l.order.read(t.index[:4*l.k], 0); err != nil {
		return nil, err
	}
	if err := quant.GroupOrder(order, t.index[:4*l.k], t.order[l.k:][:l.k/l.group], l.group); err != nil {
		return nil, err
	}
	t.ordered = l
	return order, nil
}

// reserve takes the memory of tiles.
func (t *tiles) reserve() {
	if t.buf != nil {
		return
	}
	t.buf, t.wide = make([]byte, t.most), make([]float32, t.longest)                                                                        //mem:ok a few rows; in HeapBytes, which plans count
	t.codes, t.scales, t.blocks = make([]uint8, t.packs), make([]float32, 2*(t.packs/smallGroup)), make([]byte, t.packs/smallGroup*blockOf) //mem:ok a row; likewise
	t.index, t.order = make([]byte, 4*t.orders), make([]int32, t.orders+t.orders/smallGroup)                                                //mem:ok likewise
}

// load reads the tile of a row, if it is not there.
func (t *tiles) load(l *layer, row int) error {
	t.reserve()
	if t.of == l && row >= t.first && row < t.first+t.rows {
		return nil
	}
	first := row / l.tile * l.tile
	rows := min(l.tile, l.n-first)
	t.of = nil
	p, err := l.load(t.buf[:l.buffer], first, rows)
	if err != nil {
		return err
	}
	t.of, t.first, t.rows, t.part, t.widened, t.packed = l, first, rows, p, -1, -1
	return nil
}

// matches tells whether a target of a quantization_config names a layer: whole, or a pattern behind "re:".
func matches(target, layer string) (bool, error) {
	pattern, ok := strings.CutPrefix(target, "re:")
	if !ok {
		return target == layer || strings.HasSuffix(layer, "."+target), nil
	}
	re, err := regexp.Compile("^(?:" + pattern + ")")
	if err != nil {
		return false, fmt.Errorf("quantization_config: target %q: %w", target, err)
	}
	return re.MatchString(layer), nil
}

// layerFiles finds the tensors of a layer.
type layerFiles struct {
	*published
	*layer
	scheme *quant.Scheme
	prefix string
}

func (f *layerFiles) build() error {
	f.tile = min(tileRows, f.n)
	switch f.scheme.Storage {
	case "gptq":
		return f.gptq()
	case "awq":
		return f.awq()
	case "pack-quantized":
		return f.packedInt()
	case "int-quantized", "float-quantized":
		return f.scaled()
	case "nf4", "fp4":
		return f.nf4()
	}
	return fmt.Errorf("layer %q: %s is not read", f.prefix, f.scheme.Storage)
}

// lines is a tensor of so many lines of bytes, of which a tile needs columns or lines.
type lines struct {
	name  string
	typ   safetensors.DType
	count int // lines
	bytes int // of a line
	read  func(p []byte, at int64) error
}

// want finds a tensor of the layer of one of the types, as lines of elems elements.
func (f *layerFiles) want(name string, count, elems int, types ...safetensors.DType) (lines, error) {
	name = f.prefix + name
	i, ok := f.set.Tensor(name)
	if !ok {
		return lines{}, fmt.Errorf("tensor %q is missing", name)
	}
	for _, t := range types {
		if t != i.DType {
			continue
		}
		if w := int(t.Bytes()); count < 1 || elems < 1 || elems > math.MaxInt32/w || int64(count) > math.MaxInt64/int64(elems*w) || i.Bytes != int64(count)*int64(elems*w) {
			return lines{}, fmt.Errorf("tensor %q: want %d × %d elements of %s, file has %v", name, count, elems, t, i.Shape)
		}
		return lines{name, t, count, elems * int(t.Bytes()), f.reader(name)}, nil
	}
	return lines{}, fmt.Errorf("tensor %q is %s: want %v", name, i.DType, types)
}

// optional is want of a tensor that need not be there.
func (f *layerFiles) optional(name string, count, elems int, types ...safetensors.DType) (lines, error) {
	if _, ok := f.set.Tensor(f.prefix + name); !ok {
		return lines{}, nil
	}
	return f.want(name, count, elems, types...)
}

// plainTypes are the types of scales.
func plainTypes() []safetensors.DType {
	return []safetensors.DType{safetensors.F16, safetensors.BF16, safetensors.F32}
}

// width is the bytes of an element.
func (l *lines) width() int { return int(l.typ.Bytes()) }

// elems is p as plain elements.
func (l *lines) elems(p []byte) quant.Elems { return quant.Elems{Type: elemType(l.typ), Data: p} }

// filler fills a buffer piece by piece; after an error it does nothing.
type filler struct {
	buf []byte
	err error
}

// take cuts n bytes off the buffer.
func (b *filler) take(n int) []byte {
	p := b.buf[:n:n]
	b.buf = b.buf[n:]
	return p
}

// columns reads n bytes of every line, from byte at of it on.
func (b *filler) columns(l *lines, at, n int) []byte {
	p := b.take(l.count * n)
	if n == l.bytes {
		return b.read(l, p, 0)
	}
	for i := range l.count {
		b.read(l, p[i*n:(i+1)*n], int64(i)*int64(l.bytes)+int64(at))
	}
	return p
}

// span reads n bytes from byte at on; nil of a tensor that is not there.
func (b *filler) span(l *lines, at int64, n int) []byte {
	if l.read == nil {
		return nil
	}
	return b.read(l, b.take(n), at)
}

// all reads the whole tensor; nil of one that is not there.
func (b *filler) all(l *lines) []byte { return b.span(l, 0, l.count*l.bytes) }

func (b *filler) read(l *lines, p []byte, at int64) []byte {
	if b.err == nil {
		b.err = l.read(p, at)
	}
	return p
}

func ceil(n, by int) int { return (n + by - 1) / by }
