package local

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"loadline/collective"
)

// value is element i of rank r's tensor: exponents spread over 2^±16, so that the order of a sum shows in its bits.
func value(rank, i int) float32 {
	h := uint64(rank)*0x9e3779b97f4a7c15 + uint64(i)*0xbf58476d1ce4e5b9
	h ^= h >> 31
	h *= 0x94d049bb133111eb
	h ^= h >> 29
	bits := uint32(h)&0x807fffff | uint32(111+h>>32%32)<<23
	return math.Float32frombits(bits)
}

func tensor(rank, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = value(rank, i)
	}
	return x
}

// serialSum is what a reduction has to give, to the bit.
func serialSum(ranks, n int) []float32 {
	sum := tensor(0, n)
	for r := 1; r < ranks; r++ {
		for i := range sum {
			sum[i] += value(r, i)
		}
	}
	return sum
}

func TestOrderShowsInTheBits(t *testing.T) {
	differ := 0
	for i := range 4096 {
		a, b, c := value(0, i), value(1, i), value(2, i)
		if (a+b)+c != a+(b+c) {
			differ++
		}
	}
	if differ < 400 {
		t.Errorf("the order of three terms shows in %d of 4096 sums, want a tenth at least: the tests of sums see too little", differ)
	}
}

func sameBits(what string, got, want []float32) error {
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			return fmt.Errorf("%s: element %d of %d is %v, want %v", what, i, len(want), got[i], want[i])
		}
	}
	return nil
}

// playCorrect checks every collective at the lengths in arg against the serial result.
func playCorrect(g *Group, arg string, _ io.Writer) error {
	for r := bytes.NewReader([]byte(arg)); r.Len() > 0; {
		var n int
		if _, err := fmt.Fscan(r, &n); err != nil {
			return err
		}
		if err := checkAll(g, n); err != nil {
			return fmt.Errorf("rank %d, length %d: %w", g.Rank(), n, err)
		}
	}
	return g.Barrier()
}

func checkAll(g *Group, n int) error {
	rank, size := g.Rank(), g.Size()
	part := collective.Partition{Elems: n, Ranks: size}
	lo, hi := part.Shard(rank)
	mine, want := tensor(rank, n), serialSum(size, n)
	const guard = 12345

	x := slices.Clone(mine)
	if err := g.AllReduce(x); err != nil {
		return err
	}
	if err := sameBits("all-reduce", x, want); err != nil {
		return err
	}

	x = slices.Clone(mine)
	shard := make([]float32, hi-lo+1)
	shard[hi-lo] = guard
	if err := g.ReduceScatter(shard[:hi-lo], x, part); err != nil {
		return err
	}
	if err := sameBits("reduce-scatter", shard, append(slices.Clone(want[lo:hi]), guard)); err != nil {
		return err
	}
	if err := sameBits("reduce-scatter's source", x, mine); err != nil {
		return err
	}

	whole := make([]float32, n+1)
	whole[n] = guard
	if err := g.AllGather(whole[:n], shard[:hi-lo], part); err != nil {
		return err
	}
	if err := sameBits("all-gather", whole, append(slices.Clone(want), guard)); err != nil {
		return err
	}

	// Both again, with the shard in its place in the tensor.
	if err := g.ReduceScatter(x[lo:hi], x, part); err != nil {
		return err
	}
	if err := g.AllGather(x, x[lo:hi], part); err != nil {
		return err
	}
	if err := sameBits("in place", x, want); err != nil {
		return err
	}
	return checkBytes(g, n)
}

func checkBytes(g *Group, n int) error {
	rank, size := g.Rank(), g.Size()
	text := func(rank int) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(i*7 + i>>8 + rank*31)
		}
		return p
	}
	var want []byte
	for r := range size {
		want = append(want, text(r)...)
	}
	got := make([]byte, size*n)
	if err := g.AllGatherBytes(got, text(rank)); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("all-gather-bytes differs")
	}
	for root := range size {
		var got []byte
		if rank == root {
			got = make([]byte, size*n)
		}
		if err := g.GatherBytes(got, text(rank), root); err != nil {
			return err
		}
		if rank == root && !bytes.Equal(got, want) {
			return fmt.Errorf("gather-bytes to %d differs", root)
		}
		p := text(rank)
		if err := g.Broadcast(p, root); err != nil {
			return err
		}
		if !bytes.Equal(p, text(root)) {
			return fmt.Errorf("broadcast from %d differs", root)
		}
	}
	return nil
}

// The windows differ and the expected bits do not.
func TestCollectives(t *testing.T) {
	for _, ranks := range []int{2, 3, 4} {
		for _, c := range []struct {
			window  int
			lengths string
		}{
			{4096, "0 1 2 4095 4096 4097 40961"},
			{20000, "0 1 17 4095 4096 4097 12289 250001"},
			{DefaultWindowBytes, "0 1 4095 4096 4097 1000003"},
		} {
			t.Run(fmt.Sprintf("ranks=%d/window=%d", ranks, c.window), func(t *testing.T) {
				cast(t, ranks, 0, Options{WindowBytes: c.window}, "correct", c.lengths).succeed(t)
			})
		}
	}
}

// The parent is rank 0, as in a run of two ranks that starts one child.
func TestParentIsARank(t *testing.T) {
	tr := cast(t, 2, 1, Options{}, "correct", "70001")
	g, err := tr.Join(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := playCorrect(g, "70001", nil); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	tr.succeed(t)
}

// playStress makes a long series of short collectives of random kind and length, the same on every rank.
func playStress(g *Group, arg string, _ io.Writer) error {
	var seed uint64
	var rounds int
	if _, err := fmt.Sscan(arg, &seed, &rounds); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range rounds {
		n := rng.IntN(1 << rng.IntN(15))
		part := collective.Partition{Elems: n, Ranks: g.Size()}
		lo, hi := part.Shard(g.Rank())
		root := rng.IntN(g.Size())
		x := tensor(g.Rank()+i, n)
		want := tensor(i, n)
		for r := 1; r < g.Size(); r++ {
			for j := range want {
				want[j] += value(r+i, j)
			}
		}
		var err error
		switch rng.IntN(5) {
		case 0:
			err = g.AllReduce(x)
		case 1:
			if err = g.ReduceScatter(x[lo:hi], x, part); err == nil {
				x, want = x[lo:hi], want[lo:hi]
			}
		case 2:
			copy(x[lo:hi], want[lo:hi])
			err = g.AllGather(x, x[lo:hi], part)
		case 3:
			want = tensor(root+i, n)
			err = g.Broadcast(bytesOf(x), root)
		case 4:
			err = g.Barrier()
			x, want = nil, nil
		}
		if err == nil {
			err = sameBits("result", x, want)
		}
		if err != nil {
			return fmt.Errorf("rank %d, round %d: %w", g.Rank(), i, err)
		}
	}
	return nil
}

func TestStress(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	cast(t, 3, 0, Options{WindowBytes: 8192}, "stress", fmt.Sprint(seed, " ", 300)).succeed(t)
}

// Ranks may be goroutines of one process.
func TestGoroutinesAsRanks(t *testing.T) {
	w, err := NewWorld(3, Options{WindowBytes: 8192})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for r := range 3 {
		g, err := w.Join(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := playCorrect(g, "0 5 9001", nil); err != nil {
				t.Error(err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := w.Join(1, nil); err == nil {
		t.Error("a second join as rank 1 gave no error")
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// playAllocs counts heap allocations per collective in the steady state.
func playAllocs(g *Group, _ string, _ io.Writer) error {
	const n = 300000
	part := collective.Partition{Elems: n, Ranks: g.Size()}
	lo, hi := part.Shard(g.Rank())
	x, all := make([]float32, n), make([]byte, 16*g.Size())
	var err error
	do := func() {
		for _, f := range []func() error{
			func() error { return g.AllReduce(x) },
			func() error { return g.AllReduce(x[:100]) },
			func() error { return g.ReduceScatter(x[lo:hi], x, part) },
			func() error { return g.AllGather(x, x[lo:hi], part) },
			func() error { return g.Broadcast(all, 0) },
			func() error { return g.AllGatherBytes(all, all[:16]) },
			func() error { return g.GatherBytes(all, all[:16], 1) },
			g.Barrier,
		} {
			if e := f(); e != nil && err == nil {
				err = e
			}
		}
	}
	allocs := testing.AllocsPerRun(20, do)
	if err == nil && allocs != 0 {
		err = fmt.Errorf("rank %d: %v allocations in eight collectives, want 0", g.Rank(), allocs)
	}
	return err
}

func TestNoAllocation(t *testing.T) {
	cast(t, 2, 0, Options{}, "allocs", "").succeed(t)

	w, err := NewWorld(1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := w.Join(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 10000)
	part := collective.Partition{Elems: len(x), Ranks: 1}
	if n := testing.AllocsPerRun(10, func() {
		_ = g.AllReduce(x)
		_ = g.ReduceScatter(x, x, part)
		_ = g.AllGather(x, x, part)
		_ = g.Barrier()
	}); n != 0 {
		t.Errorf("%v allocations with one rank, want 0", n)
	}
	if err := playCorrect(g, "0 1 4097", nil); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
