package collective_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"loadline/collective"
)

func TestShard(t *testing.T) {
	for _, c := range []struct {
		n, ranks int
		want     []int // hi of every rank
	}{
		{0, 1, []int{0}},
		{0, 2, []int{0, 0}},
		{1, 2, []int{1, 1}},
		{4096, 2, []int{4096, 4096}},
		{4097, 2, []int{4096, 4097}},
		{4096 * 5, 2, []int{4096 * 3, 4096 * 5}},
		{4096*5 - 1, 3, []int{4096 * 2, 4096 * 4, 4096*5 - 1}},
		{4096*7 + 1, 4, []int{4096 * 2, 4096 * 4, 4096 * 6, 4096*7 + 1}},
	} {
		var got []int
		for r := range c.ranks {
			_, hi := collective.Shard(c.n, c.ranks, r)
			got = append(got, hi)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("shards of %d over %d end at %v, want %v", c.n, c.ranks, got, c.want)
		}
	}
}

func TestShardCoversInWholeBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := collective.Partition{Elems: rapid.IntRange(0, 1<<24).Draw(t, "n"), Ranks: rapid.IntRange(1, 70).Draw(t, "ranks")}
		at, longest, shortest := 0, 0, p.Elems
		for r := range p.Ranks {
			lo, hi := p.Shard(r)
			if lo != at || hi < lo {
				t.Fatalf("rank %d owns [%d,%d), want it to start at %d", r, lo, hi, at)
			}
			if lo%collective.BlockElems != 0 && lo != p.Elems {
				t.Fatalf("rank %d starts at %d, inside a block", r, lo)
			}
			at = hi
			longest, shortest = max(longest, hi-lo), min(shortest, hi-lo)
		}
		if at != p.Elems {
			t.Fatalf("shards end at %d, want %d", at, p.Elems)
		}
		if p.Max() != longest {
			t.Fatalf("Max() = %d, want %d", p.Max(), longest)
		}
		if longest-shortest > 2*collective.BlockElems-1 {
			t.Fatalf("shards from %d to %d elements, want less than two blocks apart", shortest, longest)
		}
	})
}

func TestSingle(t *testing.T) {
	g := collective.Single()
	if g.Rank() != 0 || g.Size() != 1 {
		t.Fatalf("rank %d of %d, want 0 of 1", g.Rank(), g.Size())
	}
	src := []float32{1, 2, 3}
	dst := make([]float32, 3)
	part := collective.Partition{Elems: 3, Ranks: 1}
	b := make([]byte, 2)
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(g.AllReduce(src))
	check(g.ReduceScatter(dst, src, part))
	if !slices.Equal(dst, []float32{1, 2, 3}) {
		t.Errorf("reduce-scatter left %v", dst)
	}
	clear(dst)
	check(g.AllGather(dst, src, part))
	if !slices.Equal(dst, []float32{1, 2, 3}) {
		t.Errorf("all-gather left %v", dst)
	}
	check(g.AllGatherBytes(b, []byte{7, 8}))
	if !slices.Equal(b, []byte{7, 8}) {
		t.Errorf("all-gather-bytes left %v", b)
	}
	check(g.GatherBytes(b, []byte{9, 8}, 0))
	check(g.Broadcast(b, 0))
	if !slices.Equal(b, []byte{9, 8}) {
		t.Errorf("gather-bytes and broadcast left %v", b)
	}
	check(g.Barrier())
	if n := testing.AllocsPerRun(10, func() {
		_ = g.AllReduce(src)
		_ = g.ReduceScatter(dst, src, part)
		_ = g.AllGather(dst, src, part)
		_ = g.Broadcast(b, 0)
		_ = g.Barrier()
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	check(g.Close())
}

func TestWrongLengthsPanic(t *testing.T) {
	g := collective.Single()
	x := make([]float32, 4)
	for name, f := range map[string]func(){
		"shard":     func() { _ = g.ReduceScatter(x[:3], x, collective.Partition{Elems: 4, Ranks: 1}) },
		"tensor":    func() { _ = g.AllGather(x[:3], x, collective.Partition{Elems: 4, Ranks: 1}) },
		"ranks":     func() { _ = g.AllGather(x, x, collective.Partition{Elems: 4, Ranks: 2}) },
		"root":      func() { _ = g.Broadcast(nil, 1) },
		"gather":    func() { _ = g.AllGatherBytes(make([]byte, 3), make([]byte, 2)) },
		"rank":      func() { collective.Shard(10, 2, 2) },
		"no ranks":  func() { collective.Shard(10, 0, 0) },
		"below nil": func() { collective.Shard(-1, 1, 0) },
	} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "collective: ") {
					t.Errorf("%s: recovered %v, want a message of collective", name, s)
				}
			}()
			f()
		}()
	}
}

func TestErrors(t *testing.T) {
	two := []collective.Call{{Op: collective.OpAllReduce, Length: 5}, {Op: collective.OpBroadcast, Length: 6, Root: 1}}
	for want, err := range map[string]error{
		"collective: rank 3 left the group before the others":                                   &collective.RankLostError{Rank: 3, Left: true},
		"collective: rank 3 was lost: its process ended":                                        &collective.RankLostError{Rank: 3},
		"collective: rank 2 did not come within 5ns":                                            &collective.TimeoutError{Rank: 2, Wait: 5},
		"collective: ranks differ: rank 0 in all-reduce of 5, rank 1 in broadcast of 6, root 1": &collective.MismatchError{Calls: two},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err.Error(), want)
		}
	}
}

// meeting is a Group of goroutines that knows only what messages need.
type meeting struct {
	collective.Group
	rank  int
	table *table
}

type table struct {
	mu    *sync.Cond
	ranks int
	come  int
	turn  int
	data  [][]byte
}

// swap leaves p and returns what all left.
func (t *table) swap(rank int, p []byte) [][]byte {
	t.mu.L.Lock()
	defer t.mu.L.Unlock()
	if t.come == 0 {
		t.data = make([][]byte, t.ranks)
	}
	data, turn := t.data, t.turn
	data[rank] = slices.Clone(p)
	if t.come++; t.come == t.ranks {
		t.come, t.turn = 0, turn+1
		t.mu.Broadcast()
	}
	for t.turn == turn {
		t.mu.Wait()
	}
	return data
}

func (m meeting) Rank() int { return m.rank }
func (m meeting) Size() int { return m.table.ranks }
func (m meeting) Broadcast(p []byte, root int) error {
	copy(p, m.table.swap(m.rank, p)[root])
	return nil
}
func (m meeting) AllGatherBytes(dst, src []byte) error {
	copy(dst, slices.Concat(m.table.swap(m.rank, src)...))
	return nil
}

func TestMessages(t *testing.T) {
	tab := &table{ranks: 3, mu: sync.NewCond(&sync.Mutex{})}
	texts := []string{"", "a longer one", "short"}
	var wg sync.WaitGroup
	for r := range 3 {
		wg.Go(func() {
			g := meeting{rank: r, table: tab}
			all, err := collective.AllGatherMessages(g, []byte(texts[r]), 12)
			if err != nil {
				t.Errorf("rank %d: %v", r, err)
			}
			for q, p := range all {
				if string(p) != texts[q] {
					t.Errorf("rank %d: message %d is %q, want %q", r, q, p, texts[q])
				}
			}
			got, err := collective.BroadcastMessage(g, []byte(texts[r]), 1, 12)
			if err != nil || string(got) != texts[1] {
				t.Errorf("rank %d: broadcast gave %q, %v", r, got, err)
			}
			if _, err := collective.BroadcastMessage(g, []byte(texts[r]), 1, 11); err == nil {
				t.Errorf("rank %d: a broadcast over the limit gave no error", r)
			}
			if _, err := collective.AllGatherMessages(g, []byte(texts[r]), 11); err == nil || errors.Unwrap(err) != nil {
				t.Errorf("rank %d: a gather over the limit gave %v", r, err)
			}
		})
	}
	wg.Wait()
}
