package weights

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"loadline/model/safetensors"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// groups is the number of groups of a row, and their length.
func (f *layerFiles) groups() (n, length int) {
	length = f.scheme.GroupSize
	if length == 0 {
		length = f.k
	}
	return ceil(f.k, length), length
}

func (f *layerFiles) gptq() error {
	s := f.scheme
	groups, length := f.groups()
	down := ceil(f.k*s.Bits, 32)
	weight, err := f.want("qweight", down, f.n, safetensors.I32)
	if err != nil {
		return err
	}
	zeros, err := f.want("qzeros", groups, ceil(f.n*s.Bits, 32), safetensors.I32)
	if err != nil {
		return err
	}
	scales, err := f.want("scales", groups, f.n, plainTypes()...)
	if err != nil {
		return err
	}
	order, err := f.optional("g_idx", 1, f.k, safetensors.I32)
	if err != nil {
		return err
	}
	v1, err := version1(&zeros, f.n, s.Bits, s.Format)
	if err != nil {
		return err
	}
	zeroBytes := 4 * ceil(f.tile*s.Bits, 32)
	f.buffer = down*4*f.tile + groups*(zeroBytes+scales.width()*f.tile) + order.bytes
	f.load = func(buf []byte, first, rows int) (part, error) {
		b := &filler{buf: buf}
		g := &quant.GPTQ{Bits: s.Bits, N: rows, K: f.k, GroupSize: length, V1: v1}
		g.QWeight = b.columns(&weight, 4*first, 4*rows)
		g.QZeros = b.columns(&zeros, first/32*s.Bits*4, 4*ceil(rows*s.Bits, 32))
		g.Scales = scales.elems(b.columns(&scales, scales.width()*first, scales.width()*rows))
		g.GIdx = b.all(&order)
		if b.err != nil {
			return part{}, b.err
		}
		return part{g.DecodeRow, g.Codes}, g.Check()
	}
	f.integers(s.Bits, length)
	return f.inOrder(&order)
}

// inPlace is the codes of a layer that has no order of its own.
func inPlace(codes func([]uint8, []float32, []float32, int)) func([]uint8, []float32, []float32, int, []int32) {
	return func(c []uint8, scales, zeros []float32, i int, _ []int32) { codes(c, scales, zeros, i) }
}

// inOrder looks at where the groups of elements are: mostly one after the other, and then there is no need of an index.
func (f *layerFiles) inOrder(index *lines) error {
	if index.read == nil || f.packs == dtype.F32 {
		return nil
	}
	p := make([]byte, index.bytes) //mem:ok four bytes for an input of a layer, and dropped
	if err := index.read(p, 0); err != nil {
		return err
	}
	ascending := true
	for k := range f.k {
		ascending = ascending && int(binary.LittleEndian.Uint32(p[4*k:])) == k/f.group
	}
	if ascending {
		*index = lines{}
		return nil
	}
	n := f.k / f.group
	order := make([]int32, f.k+n) //mem:ok likewise
	if quant.GroupOrder(order[:f.k], p, order[f.k:], f.group) != nil {
		f.packs, f.why = dtype.F32, "groups of uneven lengths"
		return nil
	}
	f.order = *index
	return nil
}

// version1 decides from all zeros of a layer whether they are stored less one, some lines at a time.
func version1(zeros *lines, n, bits int, declared string) (bool, error) {
	const chunk = 32 << 10
	some := max(1, chunk/zeros.bytes)
	buf := make([]byte, min(some, zeros.count)*zeros.bytes) //mem:ok 32 KiB, or a line of one word for some rows
	v1, known := false, false
	for i := 0; i < zeros.count; i += some {
		p := buf[:min(some, zeros.count-i)*zeros.bytes]
		if err := zeros.read(p, int64(i)*int64(zeros.bytes)); err != nil {
			return false, err
		}
		a, b := quant.GPTQVersion1(p, n, bits, "gptq"), quant.GPTQVersion1(p, n, bits, "gptq_v2")
		if a != b || known && a != v1 { // not all the same value
			return declared != "gptq_v2", nil
		}
		v1, known = a, true
	}
	return v1, nil
}

func (f *layerFiles) awq() error {
	groups, length := f.groups()
	if f.n%8 != 0 {
		return fmt.Errorf("layer %q: awq of %d rows, want a multiple of 8", f.prefix, f.n)
	}
	f.tile = min(2*tileRows, f.n) // a line of the tile is 32 bytes
	weight, err := f.want("qweight", f.k, f.n/8, safetensors.I32)
	if err != nil {
		return err
	}
	zeros, err := f.want("qzeros", groups, f.n/8, safetensors.I32)
	if err != nil {
		return err
	}
	scales, err := f.want("scales", groups, f.n, plainTypes()...)
	if err != nil {
		return err
	}
	f.buffer = (f.k+groups)*f.tile/2 + groups*scales.width()*f.tile
	f.load = func(buf []byte, first, rows int) (part, error) {
		b := &filler{buf: buf}
		a := &quant.AWQ{N: rows, K: f.k, GroupSize: length}
		a.QWeight, a.QZeros = b.columns(&weight, first/2, rows/2), b.columns(&zeros, first/2, rows/2)
		a.Scales = scales.elems(b.columns(&scales, scales.width()*first, scales.width()*rows))
		if b.err != nil {
			return part{}, b.err
		}
		return part{a.DecodeRow, inPlace(a.Codes)}, a.Check()
	}
	f.integers(4, length)
	return nil
}

func (f *layerFiles) packedInt() error {
	s := f.scheme
	groups, length := f.groups()
	words := ceil(f.k*s.Bits, 32)
	weight, err := f.want("weight_packed", f.n, words, safetensors.I32)
	if err != nil {
		return err
	}
	scale, err := f.scale("weight_scale", f.n, groups)
	if err != nil {
		return err
	}
	zero, err := f.optional("weight_zero_point", ceil(f.n*s.Bits, 32), groups, safetensors.I32)
	if err != nil {
		return err
	}
	order, err := f.optional("weight_g_idx", 1, f.k, safetensors.I32)
	if err != nil {
		return err
	}
	f.buffer = f.tile*(weight.bytes+scale.bytes) + ceil(f.tile*s.Bits, 32)*zero.bytes + order.bytes
	f.load = func(buf []byte, first, rows int) (part, error) {
		b := &filler{buf: buf}
		p := &quant.PackedInt{Bits: s.Bits, N: rows, K: f.k, GroupSize: s.GroupSize}
		p.Packed = b.span(&weight, int64(first)*int64(weight.bytes), rows*weight.bytes)
		if scale.count == 1 && f.n > 1 {
			p.Scale = scale.elems(b.all(&scale))
		} else {
			p.Scale = scale.elems(b.span(&scale, int64(first)*int64(scale.bytes), rows*scale.bytes))
		}
		p.Zero = b.span(&zero, int64(first/32*s.Bits)*int64(zero.bytes), ceil(rows*s.Bits, 32)*zero.bytes)
		p.GIdx = b.all(&order)
		if b.err != nil {
			return part{}, b.err
		}
		return part{p.DecodeRow, p.Codes}, p.Check()
	}
	f.integers(s.Bits, length)
	return f.inOrder(&order)
}

// scale finds scales, of which there may be one for all.
func (f *layerFiles) scale(name string, rows, groups int) (lines, error) {
	if i, ok := f.set.Tensor(f.prefix + name); ok && i.Bytes == i.DType.Bytes() {
		return f.want(name, 1, 1, plainTypes()...)
	}
	return f.want(name, rows, groups, plainTypes()...)
}

func (f *layerFiles) scaled() error {
	s := f.scheme
	_, length := f.groups()
	rowBlock := max(1, s.RowBlock)
	if s.PerTensor {
		rowBlock = f.n
	}
	kind := map[safetensors.DType]quant.Byte{safetensors.I8: quant.ByteInt8, safetensors.F8E4M3: quant.ByteF8E4M3, safetensors.F8E5M2: quant.ByteF8E5M2}
	weight, err := f.want("weight", f.n, f.k, safetensors.I8, safetensors.F8E4M3, safetensors.F8E5M2)
	if err != nil {
		return err
	}
	scale, err := f.scale(s.ScaleName, ceil(f.n, rowBlock), ceil(f.k, length))
	if err != nil {
		return err
	}
	if scale.count == 1 && scale.bytes == scale.width() {
		rowBlock, length = f.n, f.k
	}
	zero, err := f.optional("weight_zero_point", scale.count, scale.bytes/scale.width(), safetensors.I8)
	if err != nil {
		return err
	}
	if rowBlock > 1 && rowBlock < f.n && rowBlock%tileRows != 0 { // so that the rows of a tile share their scales, or have their own
		f.tile = rowBlock
	}
	most := f.tile // lines of scales of a tile
	if rowBlock > 1 {
		most = 1
	}
	f.buffer = f.tile*f.k + most*(scale.bytes+zero.bytes)
	f.load = func(buf []byte, first, rows int) (part, error) {
		b := &filler{buf: buf}
		at, n, block := first, rows, 1
		if rowBlock > 1 {
			at, n, block = first/rowBlock, 1, rows
		}
		x := &quant.Scaled{Byte: kind[weight.typ], N: rows, K: f.k, RowBlock: block, ColBlock: length}
		x.Weight = b.span(&weight, int64(first)*int64(f.k), rows*f.k)
		x.Scale = scale.elems(b.span(&scale, int64(at)*int64(scale.bytes), n*scale.bytes))
		x.Zero = b.span(&zero, int64(at)*int64(zero.bytes), n*zero.bytes)
		if b.err != nil {
			return part{}, b.err
		}
		return part{x.DecodeRow, inPlace(x.Codes)}, x.Check()
	}
	switch kind[weight.typ] {
	case quant.ByteInt8:
		f.integers(8, length)
	case quant.ByteF8E4M3:
		f.packAs(8, length, quant.TableE4M3)
		if zero.read != nil {
			f.packs, f.why = dtype.F32, "floats with zero points"
		}
	default:
		f.why = string(weight.typ)
	}
	return nil
}

// nf4Group is the elements of a group of nf4, of which blocks are multiples.
const nf4Group = 64

// nf4State is the JSON that bitsandbytes stores as a tensor.
type nf4State struct {
	Shape        []int   `json:"shape"`
	BlockSize    int     `json:"blocksize"`
	NestedBlock  int     `json:"nested_blocksize"`
	NestedOffset float64 `json:"nested_offset"`
}

// maxNF4State bounds that JSON, and maxNF4Block what it says of blocks.
const (
	maxNF4State = 4 << 10
	maxNF4Block = 1 << 16
)

func (f *layerFiles) nf4State() (s nf4State, err error) {
	name := f.prefix + "weight.quant_state.bitsandbytes__" + f.scheme.Storage
	i, ok := f.set.Tensor(name)
	if !ok || i.Bytes > maxNF4State {
		return s, fmt.Errorf("tensor %q is missing or too long", name)
	}
	p := make([]byte, i.Bytes) //mem:ok at most maxNF4State
	if err := f.set.ReadInto(name, p); err != nil {
		return s, err
	}
	if err := json.Unmarshal(p, &s); err != nil {
		return s, fmt.Errorf("tensor %q: %w", name, err)
	}
	if len(s.Shape) != 2 || s.Shape[0] != f.n || s.Shape[1] != f.k {
		return s, fmt.Errorf("tensor %q: want [%d %d], file has %v", f.prefix+"weight", f.n, f.k, s.Shape)
	}
	if s.BlockSize < 1 || s.BlockSize > maxNF4Block || s.NestedBlock < 0 || s.NestedBlock > maxNF4Block || s.BlockSize%2 != 0 {
		return s, fmt.Errorf("tensor %q: blocks of %d, nested of %d", name, s.BlockSize, s.NestedBlock)
	}
	return s, nil
}

func (f *layerFiles) nf4() error {
	s, err := f.nf4State()
	if err != nil {
		return err
	}
	count := f.n * f.k
	blocks := ceil(count, s.BlockSize)
	codes, err := f.want("weight", ceil(count, 2), 1, safetensors.U8)
	if err != nil {
		return err
	}
	names, err := f.want("weight.quant_map", 1, 16, plainTypes()...)
	if err != nil {
		return err
	}
	var absmax, nested, nestedMap lines
	unit := s.BlockSize // elements after which blocks begin anew
	if _, ok := f.set.Tensor(f.prefix + "weight.nested_absmax"); ok && s.NestedBlock > 0 {
		unit *= s.NestedBlock
		if absmax, err = f.want("weight.absmax", blocks, 1, safetensors.U8); err == nil {
			if nested, err = f.want("weight.nested_absmax", ceil(blocks, s.NestedBlock), 1, plainTypes()...); err == nil {
				nestedMap, err = f.want("weight.nested_quant_map", 1, 256, plainTypes()...)
			}
		}
	} else {
		absmax, err = f.want("weight.absmax", blocks, 1, plainTypes()...)
	}
	if err != nil {
		return err
	}
	most := min(count, f.tile*f.k+2*unit)
	f.buffer = most/2 + 1 + names.bytes + (most/s.BlockSize+1)*absmax.bytes + nestedMap.bytes
	if nested.read != nil {
		f.buffer += (most/unit + 2) * nested.bytes
	}
	f.load = func(buf []byte, first, rows int) (part, error) {
		b := &filler{buf: buf}
		from := first * f.k / unit * unit
		end := (first + rows) * f.k
		n := ceil(end-from, s.BlockSize)
		q := &quant.NF4{Count: end - from, BlockSize: s.BlockSize, NestedBlockSize: s.NestedBlock, Offset: float32(s.NestedOffset)}
		q.Codes = b.span(&codes, int64(from/2), ceil(q.Count, 2))
		q.Map = names.elems(b.all(&names))
		scales := b.span(&absmax, int64(from/s.BlockSize*absmax.bytes), n*absmax.bytes)
		if nested.read == nil {
			q.Absmax = absmax.elems(scales)
		} else {
			q.Nested = scales
			q.NestedMap = nestedMap.elems(b.all(&nestedMap))
			q.NestedAbsmax = nested.elems(b.span(&nested, int64(from/unit*nested.bytes), ceil(n, s.NestedBlock)*nested.bytes))
		}
		if b.err != nil {
			return part{}, b.err
		}
		return part{
			func(dst []float32, i int) { q.Decode(dst, (first+i)*f.k-from) },
			func(codes []uint8, scales, _ []float32, i int, _ []int32) {
				q.CodesFrom(codes, scales, (first+i)*f.k-from)
			},
		}, q.Check()
	}
	return f.normal(&names, s.BlockSize)
}

// normal chooses groups where the values are nf4's. A block may be of several rows; what is of one row shares a scale.
func (f *layerFiles) normal(names *lines, block int) error {
	p := make([]byte, names.bytes) //mem:ok sixteen values
	if err := names.read(p, 0); err != nil {
		return err
	}
	switch q := (&quant.NF4{Map: names.elems(p)}); {
	case !q.Normal():
		f.why = "other values than nf4's"
	case block%nf4Group != 0:
		f.why = fmt.Sprintf("scales of %d elements", block)
	default:
		f.packAs(4, nf4Group, quant.TableNF4)
	}
	return nil
}
