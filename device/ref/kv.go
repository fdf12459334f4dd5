package ref

import (
	"fmt"

	"loadline/graph"
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
	}
	return nil
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
