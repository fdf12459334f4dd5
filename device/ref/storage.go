package ref

import (
	"errors"
	"fmt"

	"loadline/graph"
	"loadline/tensor/dtype"
)

func zero[T real](c *call[T]) error {
	clear(c.out[0].f)
	clear(c.out[0].i)
	return nil
}

func save[T real](c *call[T]) error {
	if c.in[0].typ.DType.Block() {
		return fmt.Errorf("state %q of %v is not saved", c.state, c.in[0].typ)
	}
	if c.s.args.Sink == nil {
		return errors.New("no sink to save to")
	}
	return eachChunk(c, &c.in[0], func(st *store[T], p []byte, at int) error {
		st.encode(p, at)
		return c.s.args.Sink(c.state, p)
	})
}

func restore[T real](c *call[T]) error {
	if c.s.args.Source == nil {
		return errors.New("no source to restore from")
	}
	return eachChunk(c, &c.out[0], func(st *store[T], p []byte, at int) error {
		err := c.s.args.Source(c.state, p)
		if err == nil && st.dt.Block() {
			st.decodeBlocks(p, at)
		} else if err == nil {
			st.decode(p, at)
		}
		return err
	})
}

// eachChunk goes through the storage bytes of v in pieces of at most graph.ChunkBytes: f gets a piece of the staging
// buffer and the element that it begins at.
func eachChunk[T real](c *call[T], v *view[T], f func(st *store[T], p []byte, at int) error) error {
	if c.s.staging == nil {
		c.s.staging = make([]byte, graph.ChunkBytes) //mem:ok counted as the instruction's scratch
	}
	st := store[T]{dt: v.typ.DType, f: v.f}
	if st.dt == dtype.I32 {
		st.i = v.i
	}
	unit, width := st.dt.BlockElems(), int(st.dt.Bytes(int64(st.dt.BlockElems())))
	step := graph.ChunkBytes / width * unit
	for at := 0; at < st.elems(); at += step {
		n := min(step, st.elems()-at)
		if err := f(&st, c.s.staging[:n/unit*width], at); err != nil {
			return fmt.Errorf("state %q: %w", c.state, err)
		}
	}
	return nil
}
