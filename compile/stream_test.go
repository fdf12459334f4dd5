package compile

import (
	"path/filepath"
	"strings"
	"testing"

	"loadline/graph"
	"loadline/mem"
)

// Streamed weights are fetched ahead of their uses, and the arena says what that takes.
func TestStream(t *testing.T) {
	doc := shape{d: 64, layers: 2, heads: 4, kv: 2, ffn: 160, vocab: 256, batch: 2, seq: 64, tied: true, chunk: 128}
	g := doc.forward("step")
	keep := map[string]bool{}
	var whole, small mem.Bytes
	for _, v := range g.States() {
		x := &g.Values[v]
		whole += mem.Bytes(x.Bytes)
		if x.Type.Shape.N == 1 {
			keep[x.Name] = true
			small += mem.Bytes(x.Bytes)
		}
	}
	plain := mustStep(t, g, Options{})
	p := mustStep(t, Stream(g, StreamOptions{Keep: keep}), Options{})
	if err := Verify(p); err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "stream.txt"), p.Text())
	if got := plain.Streamed(); got != 0 {
		t.Errorf("without the pass %v are streamed", got)
	}
	if got, want := p.Timeline()[0].Total(mem.Disk), whole-small; got != want {
		t.Errorf("on disk: got %d bytes, want %d", got, want)
	}
	table := g.Values[g.Find("embed")].Type.Bytes(g.Bounds)
	if got, want := p.Streamed(), whole-small+mem.Bytes(table); got != want { // the table is the head's weight too
		t.Errorf("a run reads %d bytes, want %d", got, want)
	}
	// The most that are alive at once is two neighbours, the largest; smaller ones are fetched ahead in the same room.
	alive, most, largest := map[int32]int64{}, 0, int64(0)
	var order []int64
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if _, ok := in.Op.(graph.Fetch); ok {
			alive[in.Out[0].Buffer] = p.Buffers[in.Out[0].Buffer].Bytes
			order = append(order, p.Buffers[in.Out[0].Buffer].Bytes)
		}
		sum := int64(0)
		for _, n := range alive {
			sum += n
		}
		most, largest = max(most, len(alive)), max(largest, sum)
		for b := range alive {
			if int(p.Buffers[b].Last) == i {
				delete(alive, b)
			}
		}
	}
	pair := int64(0)
	for i := 1; i < len(order); i++ {
		pair = max(pair, order[i-1]+order[i])
	}
	if largest != pair || most < 3 {
		t.Errorf("%d bytes of streamed weights are alive, and up to %d of them: want the %d bytes of the largest neighbours, and more than two of the small ones", largest, most, pair)
	}
	all := Stream(g, StreamOptions{Keep: map[string]bool{}})
	for _, v := range all.States() {
		if x := &all.Values[v]; x.Purpose == mem.Weights && x.Tier != mem.Disk {
			t.Errorf("%q is on %v, want it on disk", x.Name, x.Tier)
		}
	}
	if n := strings.Count(mustStep(t, all, Options{}).Text(), "fetch("); n < len(g.States()) {
		t.Errorf("got %d fetches of %d states", n, len(g.States()))
	}
}
