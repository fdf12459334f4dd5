package serve

import (
	"fmt"
	"unsafe"

	"loadline/graph"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/serve/kvcache"
	"loadline/serve/sample"
	"loadline/serve/sched"
)

// buffers are the bytes of what the engine keeps on the host, in the order in which it lies there.
type buffers struct {
	logits, copies       int64 // on the way between host and device
	sampler, pool, sched int64
}

func (o Options) buffers() buffers {
	return buffers{
		logits:  graph.RoundUp(4 * int64(o.Config.VocabSize)),
		copies:  graph.RoundUp(8 * int64(o.maxCopies())),
		sampler: graph.RoundUp(sample.Bytes(o.Config.VocabSize)),
		pool:    graph.RoundUp(4 * int64(o.pool().Words())),
		sched:   graph.RoundUp(4 * int64(o.sched().Words())),
	}
}

// parts is what the arena of b holds, whole pages.
func (b buffers) parts() (u mem.Usage) {
	staging := mem.Bytes(b.logits + b.copies)
	all := staging + mem.Bytes(b.sampler+b.pool+b.sched)
	u.Add(mem.Host, mem.Staging, staging)
	u.Add(mem.Host, mem.Workspace, arena.Round(all)-staging)
	return u
}

// carve gives everything that works on the host its buffer of memory.
func (e *Engine) carve(memory []byte) error {
	o := e.job.Options
	b := o.buffers()
	take := func(n int64) []byte {
		part := memory[:n:n]
		memory = memory[n:]
		return part
	}
	vocab := o.Config.VocabSize
	e.logits = arena.F32(take(b.logits))[:vocab]
	e.copies = arena.I32(take(b.copies))
	s := take(b.sampler)
	third := func(i int) []byte { return s[i*4*vocab : (i+1)*4*vocab] }
	var err error
	if e.sampler, err = sample.New(vocab, sample.Scratch{Weights: arena.F32(third(0)), IDs: arena.I32(third(1)), Counts: arena.I32(third(2))}); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	po := o.pool()
	po.Buf = arena.I32(take(b.pool))
	if e.pool, err = kvcache.NewPool(po); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	so := o.sched()
	so.Pool, so.Buf = e.pool, arena.I32(take(b.sched))
	if e.sched, err = sched.New(so); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// bytesOf is s as the device stores it: every machine that Go code here runs on is little-endian.
func bytesOf[T int32 | float32](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 4*len(s))
}
