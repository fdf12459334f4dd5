package tensor

import "testing"

func TestShardCoversOnceInWholeBlocks(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 4097, 3 * 4096, 1_000_003} {
		for ranks := 1; ranks <= 7; ranks++ {
			at := 0
			for r := range ranks {
				lo, hi := Shard(n, ranks, r)
				if lo != at || hi < lo || hi-lo > ShardMax(n, ranks) || lo%BlockElems != 0 && lo != n {
					t.Fatalf("Shard(%d,%d,%d) = %d,%d after %d", n, ranks, r, lo, hi, at)
				}
				at = hi
			}
			if at != n {
				t.Fatalf("shards of %d over %d ranks end at %d", n, ranks, at)
			}
		}
	}
}
