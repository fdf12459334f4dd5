package sched

import (
	"fmt"
	"slices"
	"testing"

	"loadline/serve/kvcache"

	"pgregory.net/rapid"
)

// simDevice stands for the engine and its device. A slot of its memory holds the token whose key and value would be
// there; a row with logits reads the whole sequence back through the block table, so that a wrong block, a missing
// copy or a false cache hit changes the token that comes next.
type simDevice struct {
	memory []int32
	size   int
}

// next is the model: any function of all tokens and the sample will do.
func next(tokens []int32, sample int) int32 {
	h := uint32(2166136261) + uint32(sample)*77
	for _, tok := range tokens {
		h = (h ^ uint32(tok)) * 16777619
	}
	return int32(h >> 8 % 5)
}

func (d *simDevice) run(p Pass) []int32 {
	for _, c := range p.Copies {
		copy(d.memory[int(c.Dst)*d.size:][:d.size], d.memory[int(c.Src)*d.size:][:d.size])
	}
	for i, slot := range p.Slots {
		d.memory[slot] = p.Tokens[i]
	}
	var out []int32
	for i, row := range p.Outs {
		seq := p.RowSeq[row]
		table := p.Tables[int(seq)*p.Width:][:p.Width]
		tokens := make([]int32, p.Positions[row]+1)
		for pos := range tokens {
			tokens[pos] = d.memory[int(table[pos/d.size])*d.size+pos%d.size]
		}
		out = append(out, next(tokens, p.OutSeqs[i].Index))
	}
	return out
}

// answer computes a sample without scheduler or pool.
func answer(r Request, sample int) []int32 {
	tokens := slices.Clone(r.Prompt)
	for len(tokens) < len(r.Prompt)+r.MaxTokens {
		tok := next(tokens, sample)
		tokens = append(tokens, tok)
		if slices.Contains(r.Stop, tok) {
			break
		}
	}
	return tokens[len(r.Prompt):]
}

// checkPass verifies the bounds of a pass and that its arrays say the same as its sequences.
func checkPass(s *Scheduler, p Pass) error {
	o := s.o
	if len(p.Tokens) > o.MaxRows || len(p.Seqs) > o.MaxSeqs || len(p.Outs) > o.MaxOuts || len(p.Copies) > o.MaxSeqs {
		return fmt.Errorf("%d rows, %d sequences, %d outs, %d copies: over the bounds", len(p.Tokens), len(p.Seqs), len(p.Outs), len(p.Copies))
	}
	if s.slots > s.limit || len(s.running) > s.slots {
		return fmt.Errorf("%d running sequences in %d slots, limit %d", len(s.running), s.slots, s.limit)
	}
	if p.Empty() != s.Idle() {
		return fmt.Errorf("empty pass %v, idle %v", p.Empty(), s.Idle())
	}
	seen := map[int32]bool{}
	for i, q := range p.Seqs {
		if n := int(p.Starts[i+1] - p.Starts[i]); n < 1 || n > o.PrefillChunk || n != q.rows {
			return fmt.Errorf("%s/%d: %d rows", q.ID, q.Index, n)
		}
		if int(p.Lens[i]) != q.Computed+q.rows || int(p.Lens[i]) > len(q.Tokens) {
			return fmt.Errorf("%s/%d: length %d, computed %d of %d", q.ID, q.Index, p.Lens[i], q.Computed, len(q.Tokens))
		}
		row := p.Tables[i*p.Width : (i+1)*p.Width]
		for j, b := range row {
			if want := noBlock; j >= len(q.table) && b != want || j < len(q.table) && b != int32(q.table[j]) {
				return fmt.Errorf("%s/%d: table %v, want %v padded", q.ID, q.Index, row, q.table)
			}
		}
		for r := p.Starts[i]; r < p.Starts[i+1]; r++ {
			pos := p.Positions[r]
			if p.RowSeq[r] != int32(i) || pos != int32(q.Computed)+r-p.Starts[i] || p.Tokens[r] != q.Tokens[pos] {
				return fmt.Errorf("%s/%d: row %d is token %d at %d of sequence %d", q.ID, q.Index, r, p.Tokens[r], pos, p.RowSeq[r])
			}
			if seen[p.Slots[r]] {
				return fmt.Errorf("%s/%d: slot %d is written twice", q.ID, q.Index, p.Slots[r])
			}
			seen[p.Slots[r]] = true
		}
	}
	if len(s.running) > 0 && s.running[0].rows == 0 {
		return fmt.Errorf("%s/%d arrived first and is not in the pass", s.running[0].ID, s.running[0].Index)
	}
	for _, q := range append(slices.Clone(s.running), s.waiting...) {
		if q.Computed < 0 || q.Computed > len(q.Tokens) {
			return fmt.Errorf("%s/%d: computed %d of %d", q.ID, q.Index, q.Computed, len(q.Tokens))
		}
		if q.state == stateWaiting && (q.Computed != 0 || len(q.table) != 0) {
			return fmt.Errorf("%s/%d waits with %d tokens in %v", q.ID, q.Index, q.Computed, q.table)
		}
	}
	return nil
}

// TestSimulation runs random requests through random bounds, with cancellations, preemptions and passes that fail at
// random moments, and compares every token with the answer computed alone.
func TestSimulation(t *testing.T) {
	var total Stats
	var copied, evicted int64
	rapid.Check(t, func(t *rapid.T) {
		ko := kvcache.Options{
			Blocks:    rapid.IntRange(2, 24).Draw(t, "blocks"),
			BlockSize: rapid.IntRange(1, 5).Draw(t, "block size"),
			Cache:     rapid.Bool().Draw(t, "cache"),
		}
		pool, err := kvcache.NewPool(ko)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{
			MaxRows:      rapid.IntRange(1, 24).Draw(t, "rows"),
			MaxSeqs:      rapid.IntRange(1, 8).Draw(t, "seqs"),
			MaxOuts:      rapid.IntRange(1, 8).Draw(t, "outs"),
			PrefillChunk: rapid.IntRange(0, 6).Draw(t, "chunk"),
			Pool:         pool,
		})
		if err != nil {
			t.Fatal(err)
		}
		device := &simDevice{memory: make([]int32, ko.Blocks*ko.BlockSize), size: ko.BlockSize}
		for i := range device.memory {
			device.memory[i] = -1
		}

		requests := map[string]Request{}
		outputs := map[string][][]int32{} // tokens of the events, in order
		finished := map[string]int{}
		context := ko.Blocks * ko.BlockSize
		drawn := rapid.IntRange(1, 40).Draw(t, "requests")
		budget := 0 // passes until everything has to be done
		add := func() {
			r := Request{
				ID:     fmt.Sprint("r", len(requests)),
				Prompt: rapid.SliceOfN(rapid.Int32Range(1, 2), 1, max(1, context/2)).Draw(t, "prompt"),
				N:      rapid.IntRange(1, s.limit).Draw(t, "n"),
				Stop:   rapid.SampledFrom([][]int32{nil, {0}}).Draw(t, "stop"),
			}
			r.MaxTokens = rapid.IntRange(1, max(1, min(20, context-len(r.Prompt)+1))).Draw(t, "max")
			if err := s.Add(r); err != nil {
				t.Fatalf("Add of a request that fits: %v", err)
			}
			requests[r.ID] = r
			outputs[r.ID] = make([][]int32, r.N)
			// Alone, the request takes a pass for each token, twice over for every token it may have to compute again.
			budget += r.N * (len(r.Prompt) + r.MaxTokens) * (r.MaxTokens + 1)
		}
		check := func(after string) {
			if err := checkPool(s); err != nil {
				t.Fatalf("after %s: %v", after, err)
			}
		}
		for passes := 0; len(requests) < drawn || !s.Idle(); passes++ {
			if len(requests) < drawn && (s.Idle() || rapid.IntRange(0, 3).Draw(t, "add") == 0) {
				add()
				check("Add")
			}
			p := s.Schedule()
			check("Schedule")
			if err := checkPass(s, p); err != nil {
				t.Fatalf("pass %d: %v\n%s", passes, err, p)
			}
			// Disturbances, while the pass runs and while more requests come: so not forever.
			if disturb := rapid.IntRange(0, 30).Draw(t, "disturb"); len(requests) < drawn && disturb < 4 {
				id := fmt.Sprint("r", rapid.IntRange(0, len(requests)-1).Draw(t, "who"))
				switch disturb {
				case 0, 1:
					s.ForcePreempt(id)
					check("ForcePreempt")
				case 2:
					if s.Cancel(id) {
						delete(outputs, id)
					}
					check("Cancel")
				case 3:
					s.Abort()
					check("Abort")
					continue
				}
			}
			for _, e := range s.Commit(p, device.run(p)) {
				id, i := e.Seq.ID, e.Seq.Index
				if e.Kind == Preempted || outputs[id] == nil {
					if e.Kind == Token {
						t.Fatalf("token for %s/%d, which was cancelled", id, i)
					}
					continue
				}
				outputs[id][i] = append(outputs[id][i], e.Token)
				want := answer(requests[id], i)
				if n := len(outputs[id][i]); n > len(want) || !slices.Equal(outputs[id][i], want[:n]) || !slices.Equal(outputs[id][i], e.Seq.Output()) {
					t.Fatalf("%s/%d: got %v, want %v, sequence holds %v", id, i, outputs[id][i], want, e.Seq.Output())
				}
				if done := len(outputs[id][i]) == len(want); done != (e.Finished != NotFinished) {
					t.Fatalf("%s/%d: finished %q after %d of %d tokens", id, i, e.Finished, len(outputs[id][i]), len(want))
				}
				if e.Finished != NotFinished {
					finished[id]++
				}
			}
			check("Commit")
			if passes > budget+100 {
				t.Fatalf("%d passes, and not done:\n%s", passes, p)
			}
		}
		for id, out := range outputs {
			if finished[id] != len(out) {
				t.Fatalf("%s: %d of %d samples finished", id, finished[id], len(out))
			}
		}
		if st := pool.Stats(); st.Live != 0 || len(s.byID) != 0 {
			t.Fatalf("idle, with %d live blocks and %d requests", st.Live, len(s.byID))
		}
		total.Preemptions += s.Stats().Preemptions
		total.PrefixHits += s.Stats().PrefixHits
		copied += pool.Stats().Copied
		evicted += pool.Stats().Evicted
	})
	t.Logf("%d preemptions, %d tokens from the prefix cache, %d copies, %d evictions", total.Preemptions, total.PrefixHits, copied, evicted)
	least := int64(50)
	if testing.Short() {
		least = 10 // of a fifth of the checks
	}
	if total.Preemptions < least || total.PrefixHits < least || copied < least || evicted < least {
		t.Error("the simulation no longer reaches what it is there for")
	}
}
