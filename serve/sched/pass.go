package sched

import (
	"fmt"
	"strings"

	"loadline/serve/kvcache"
)

// noBlock pads the tables of a pass.
const noBlock int32 = -1

// Pass is one forward of the model over T rows, each one token, of S sequences; O of the rows need logits. Its arrays
// belong to the scheduler, are filled anew by the next Schedule, and must not be changed.
type Pass struct {
	Tokens    []int32 // (T) token ids
	Positions []int32 // (T) from 0 in the sequence
	RowSeq    []int32 // (T) index into Seqs
	Slots     []int32 // (T) where the row's key and value go: block·BlockSize + offset

	Seqs   []*Sequence // (S)
	Starts []int32     // (S+1) first row of each sequence; the last entry is T
	Lens   []int32     // (S) tokens of the sequence in the pool once the pass has written its rows
	Tables []int32     // (S,Width) blocks of the sequence, padded with -1
	Width  int

	Outs    []int32     // (O) rows that need logits. All n samples of a request take their first token from the same row, which then stands here n times
	OutSeqs []*Sequence // (O) whose next token they give

	Copies []kvcache.Copy // blocks to copy, one after the other, before any row is written
}

// Empty reports whether there is nothing to run.
func (p Pass) Empty() bool { return len(p.Tokens) == 0 }

// String lists what runs, a sequence to a line: "a/0 4..7 blocks [2 5] out".
func (p Pass) String() string {
	var b strings.Builder
	for _, c := range p.Copies {
		fmt.Fprintf(&b, "copy %d -> %d\n", c.Src, c.Dst)
	}
	for i, q := range p.Seqs {
		first, last := p.Starts[i], p.Starts[i+1]-1
		fmt.Fprintf(&b, "%s/%d %d", q.ID, q.Index, p.Positions[first])
		if last > first {
			fmt.Fprintf(&b, "..%d", p.Positions[last])
		}
		row := p.Tables[i*p.Width : (i+1)*p.Width]
		for len(row) > 0 && row[len(row)-1] == noBlock {
			row = row[:len(row)-1]
		}
		fmt.Fprintf(&b, " blocks %v", row)
		switch n := p.outsOf(last); n {
		case 0:
		case 1:
			b.WriteString(" out")
		default:
			fmt.Fprintf(&b, " out ×%d", n)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (p Pass) outsOf(row int32) int {
	n := 0
	for _, out := range p.Outs {
		if out == row {
			n++
		}
	}
	return n
}

// newPass carves an empty pass from the options' buffer.
func newPass(o Options) Pass {
	buf := o.Buf
	carve := func(n int) []int32 {
		part := buf[:n:n]
		buf = buf[n:]
		return part
	}
	p := Pass{
		Tokens:    carve(o.MaxRows)[:0],
		Positions: carve(o.MaxRows)[:0],
		RowSeq:    carve(o.MaxRows)[:0],
		Slots:     carve(o.MaxRows)[:0],
		Seqs:      make([]*Sequence, 0, o.MaxSeqs),
		Starts:    carve(o.MaxSeqs + 1)[:0],
		Lens:      carve(o.MaxSeqs)[:0],
		Tables:    carve(o.MaxSeqs * o.width()),
		Width:     o.width(),
		Outs:      carve(o.MaxOuts)[:0],
		OutSeqs:   make([]*Sequence, 0, o.MaxOuts),
		Copies:    make([]kvcache.Copy, 0, o.MaxSeqs),
	}
	for i := range p.Tables {
		p.Tables[i] = noBlock
	}
	p.Tables = p.Tables[:0]
	return p
}

// reset empties the pass. The tables keep their entries, which place overwrites and pads.
func (p *Pass) reset() {
	p.Tokens, p.Positions, p.RowSeq, p.Slots = p.Tokens[:0], p.Positions[:0], p.RowSeq[:0], p.Slots[:0]
	clear(p.Seqs)
	clear(p.OutSeqs)
	p.Seqs, p.Starts, p.Lens, p.Tables = p.Seqs[:0], append(p.Starts[:0], 0), p.Lens[:0], p.Tables[:0]
	p.Outs, p.OutSeqs, p.Copies = p.Outs[:0], p.OutSeqs[:0], p.Copies[:0]
}
