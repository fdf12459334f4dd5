package ref

import (
	"fmt"

	"loadline/graph"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

func kvAppend[T real](c *call[T]) error {
	pool, x, slots, out := &c.in[0], &c.in[1], &c.in[2], &c.out[0]
	copy(out.f, pool.f)
	for r, s := range slots.i {
		if s < 0 {
			continue
		}
		slot, err := index("slot", s, out.rows())
		if err != nil {
			return err
		}
		copy(out.row(slot), x.row(r))
		roundBlocks(out.typ.DType, out.row(slot))
	}
	return nil
}

// roundBlocks rounds a row to the block type of its pool, in place; to other types a session rounds all results.
func roundBlocks[T real](t dtype.Type, row []T) {
	if !t.Block() {
		return
	}
	var x [32]float32
	var bytes [34]byte
	f, _ := quant.Of(t)
	b := bytes[:f.BlockBytes()]
	for ; len(row) > 0; row = row[len(x):] {
		for i := range x {
			x[i] = float32(row[i])
		}
		quant.EncodeRows(b, f, x[:])
		quant.Decode(x[:], f, b)
		for i := range x {
			row[i] = T(x[i])
		}
	}
}

func kvCopy[T real](c *call[T], o graph.KVCopy) error {
	pool, pairs, out := &c.in[0], &c.in[1], &c.out[0]
	copy(out.f, pool.f)
	n := o.Block * out.last()
	blocks := len(out.f) / n
	for i := 0; i+1 < len(pairs.i); i += 2 {
		from, to := int(pairs.i[i]), int(pairs.i[i+1])
		if from < 0 {
			break
		}
		if from >= blocks || to < 0 || to >= blocks {
			return fmt.Errorf("copy of block %d to %d: there are %d", from, to, blocks)
		}
		copy(out.f[to*n:(to+1)*n], out.f[from*n:(from+1)*n])
	}
	return nil
}
