package devicetest

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"loadline/collective"
	"loadline/compile"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor"
	"loadline/tensor/dtype"
)

// testCollectives runs every collective operation on one rank and on three ranks in goroutines. Inputs are whole
// numbers, so sums are exact in any order; the order itself is the group's affair.
func testCollectives(t *testing.T, open func() device.Device, saw func(*compile.Instr)) {
	for _, ranks := range []int{1, 3} {
		for _, n := range []int{5, 4096, 2*4096 + 100, 7*4096 + 1} {
			testRanks(t, open, saw, ranks, n)
		}
	}
}

func testRanks(t *testing.T, open func() device.Device, saw func(*compile.Instr), ranks, n int) {
	t.Helper()
	r := newRig(persistent, graph.Bounds{Rows: 1, Outs: 1}, 37)
	x := r.input("x", make([]float64, n), graph.F(graph.D(n)))
	whole := r.f("whole", r.noise(n), graph.D(n))
	sum := r.Apply(graph.AllReduce{Ranks: ranks}, x)[0]
	shard := r.Apply(graph.ReduceScatter{Ranks: ranks}, x)[0]
	again := r.Apply(graph.AllGather{Ranks: ranks, Unit: 1, Elems: n, To: graph.F(graph.D(n))}, shard, graph.None)[0]
	slice := r.Apply(graph.ShardSlice{Ranks: ranks}, whole)[0]
	w := r.state("w", make([]float64, n), mem.Weights, graph.D(n))
	next := r.Apply(graph.AllGather{Ranks: ranks, Unit: 1, Elems: n, To: graph.F(graph.D(n))}, slice, w)[0]
	squares := r.Apply(graph.SumSquares{}, slice)[0]
	blocks := graph.F(graph.D(tensor.Blocks(n)))
	norms := r.Apply(graph.AllGather{Ranks: ranks, Unit: tensor.BlockElems, Elems: n, To: blocks}, squares, graph.None)[0]
	alone := r.Apply(graph.SumSquares{}, whole)[0]
	inPlace := r.Apply(graph.AllReduce{Ranks: ranks}, r.Add(x, x))[0]
	half := graph.Type{DType: dtype.BF16, Shape: graph.S(graph.D(n))}
	narrow := r.Apply(graph.ShardSlice{Ranks: ranks}, r.operand("narrow", r.noise(n), half))[0]
	nw := r.stateOf("nw", make([]float64, n), mem.Weights, half)
	narrow = r.Apply(graph.AllGather{Ranks: ranks, Unit: 1, Elems: n, To: half}, narrow, nw)[0]
	for _, v := range []graph.Value{sum, again, next, norms, alone, shard, inPlace, narrow} {
		r.check(v, exact)
	}
	job := r.job(t)
	sawAll(job, saw)
	world := newWorld(ranks)
	sessions := make([]host, ranks)
	want := make([]float64, n)
	for k := range sessions {
		s, err := open().Open(job, device.Env{Ledger: mem.NewLedger(mem.Limits{}), Group: world.rank(k)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sessions[k] = host{s, t}
		mine := r.datum("x")
		for i := range mine.f {
			mine.f[i] = float64((i*7+k*13)%101 - 50)
			want[i] += mine.f[i]
		}
		sessions[k].fill(r)
	}
	errs := make([]error, ranks)
	var wg sync.WaitGroup
	for k := range sessions {
		wg.Go(func() { errs[k] = sessions[k].Run("test", device.Args{}) })
	}
	wg.Wait()
	b := r.G.Bounds
	for k, h := range sessions {
		if errs[k] != nil {
			t.Fatal(errs[k])
		}
		at := fmt.Sprintf("rank %d of %d, %d elements", k, ranks, n)
		read := func(i int) []float64 { return h.floats(r.outs[i].name, r.G.Info(r.outs[i].v).Type, b) }
		lo, hi := tensor.Shard(n, ranks, k)
		part := make([]float64, tensor.ShardMax(n, ranks))
		copy(part, want[lo:hi])
		twice := make([]float64, n)
		for i, x := range want {
			twice[i] = 2 * x
		}
		for _, c := range []struct {
			name      string
			got, want []float64
		}{
			{"allreduce", read(0), want},
			{"reducescatter and allgather", read(1), want},
			{"shardslice and allgather into a state", read(2), r.datum("whole").f},
			{"allgather of block sums", read(3), read(4)},
			{"reducescatter", read(5)[:hi-lo], part[:hi-lo]},
			{"allreduce in place", read(6), twice},
			{"shardslice and allgather of bf16", read(7), r.datum("narrow").f},
		} {
			for i := range c.want {
				if got := c.got[i]; got != c.want[i] && math.Abs(got-c.want[i]) > ulp*math.Abs(c.want[i])*sameSums(c.name) {
					t.Fatalf("%s: %s: element %d: got %g, want %g", at, c.name, i, got, c.want[i])
				}
			}
		}
	}
}

// sameSums is how many roundings the block sums of a float64 device may have had on the way: groups carry float32.
func sameSums(name string) float64 {
	if name == "allgather of block sums" {
		return 1
	}
	return 0
}

// world is ranks of one process.
type world struct {
	mu     sync.Mutex
	turn   *sync.Cond
	posted []any
	count  int
	round  int
}

func newWorld(ranks int) *world {
	w := &world{posted: make([]any, ranks)}
	w.turn = sync.NewCond(&w.mu)
	return w
}

func (w *world) rank(k int) collective.Group { return &member{w, k} }

// exchange returns what all ranks post, once all have; nobody's is replaced before all have used it.
func (w *world) exchange(rank int, x any, use func(all []any)) {
	w.mu.Lock()
	w.posted[rank] = x
	w.mu.Unlock()
	w.meet()
	use(w.posted)
	w.meet()
}

func (w *world) meet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	if w.count == len(w.posted) {
		w.count = 0
		w.round++
		w.turn.Broadcast()
		return
	}
	for round := w.round; round == w.round; {
		w.turn.Wait()
	}
}

// member is one rank of a world.
type member struct {
	w *world
	k int
}

func (m *member) Rank() int      { return m.k }
func (m *member) Size() int      { return len(m.w.posted) }
func (m *member) Close() error   { return nil }
func (m *member) Barrier() error { m.w.meet(); return nil }

func (m *member) AllReduce(x []float32) error {
	sum := make([]float32, len(x))
	m.w.exchange(m.k, x, func(all []any) { addAll(sum, all, 0) })
	copy(x, sum)
	m.w.meet()
	return nil
}

// addAll sums all[...][from:] into sum, ranks ascending.
func addAll(sum []float32, all []any, from int) {
	for r, a := range all {
		for i := range sum {
			if v := a.([]float32)[from+i]; r == 0 {
				sum[i] = v
			} else {
				sum[i] += v
			}
		}
	}
}

func (m *member) ReduceScatter(dst, src []float32, part collective.Partition) error {
	part.CheckReduceScatter(m, dst, src)
	lo, hi := part.Shard(m.k)
	sum := make([]float32, hi-lo)
	m.w.exchange(m.k, src, func(all []any) { addAll(sum, all, lo) })
	copy(dst, sum)
	return nil
}

func (m *member) AllGather(dst, src []float32, part collective.Partition) error {
	part.CheckAllGather(m, dst, src)
	whole := make([]float32, len(dst))
	m.w.exchange(m.k, src, func(all []any) {
		for r, a := range all {
			lo, _ := part.Shard(r)
			copy(whole[lo:], a.([]float32))
		}
	})
	copy(dst, whole)
	return nil
}

func (m *member) Broadcast(p []byte, root int) error {
	m.w.exchange(m.k, p, func(all []any) { copy(p, all[root].([]byte)) })
	return nil
}

func (m *member) GatherBytes(dst, src []byte, root int) error {
	m.w.exchange(m.k, src, func(all []any) {
		if m.k == root {
			gather(dst, all)
		}
	})
	return nil
}

func (m *member) AllGatherBytes(dst, src []byte) error {
	m.w.exchange(m.k, src, func(all []any) { gather(dst, all) })
	return nil
}

func gather(dst []byte, all []any) {
	for _, a := range all {
		dst = dst[copy(dst, a.([]byte)):]
	}
}
