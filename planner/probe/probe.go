// Package probe measures this machine for the cost model: how long every kind of operation takes in every element type,
// how fast memory is copied, and how fast a file is written and read.
//
// Operations are not timed alone but inside training steps of small models, where caches hold what they hold in earnest.
// The models take turns, a few steps of each at a time, and every instruction is timed. Of its times the low ones count (see Low): what the
// machine does undisturbed. cost.Fit makes rates of them. The models differ in width, length and kind so that the parts of a rate can be told
// apart; none is there because a plan that is judged later has its shape.
//
// Meter does all that a little at a time. Rig runs the steps, and serves benchmarks too: several settings of one model, open at once, that take turns.
//
// It decides nothing: what it finds is data for cost. A cache keeps it, by processor, kernels and version.
package probe

import (
	"errors"
	"fmt"
	"os"
	"time"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/tensor/dtype"
)

// Options are how a machine is measured.
type Options struct {
	Name   string        // of the machine that results
	Dir    string        // where a file may be written, and removed
	Memory mem.Bytes     // most that the largest model may hold; 0 is no limit
	Time   time.Duration // about what all may take; 0 is the least that gives rates

	Progress func(done, all int, took time.Duration) // called after every visit to a model, if not nil
}

// rounds is how often every model is visited.
const rounds = 2

// Measure measures dev. What it returns is fitted to this process's own steps, so nothing else should be running.
func Measure(dev device.Device, o Options) (cost.Machine, error) {
	m := NewMeter(dev, o)
	end := time.Now().Add(o.Time)
	all := rounds * m.Models()
	left := all
	for range rounds {
		for i := range m.Models() {
			began := time.Now()
			if err := m.Visit(i, time.Until(end)/time.Duration(left)); err != nil { // what one took too long, the rest has less
				return cost.Machine{}, err
			}
			left--
			if o.Progress != nil {
				o.Progress(all-left, all, time.Since(began))
			}
		}
	}
	return m.Machine()
}

// describeInstr is a sample without its time.
func describeInstr(p *compile.Program, in *compile.Instr) cost.Sample {
	types := func(os []compile.Operand) (out []graph.Type) {
		for _, o := range os {
			out = append(out, o.Type)
		}
		return out
	}
	i, o := types(in.In), types(in.Out)
	return cost.Sample{Key: cost.KeyOf(in.Op, i, o), Work: cost.WorkOf(in.Op, p.Bounds, i, o)}
}

// describe makes a machine of samples. Its memory is as fast as the largest update was, which reads and writes more than caches hold.
func describe(name string, samples []cost.Sample) cost.Machine {
	m := cost.Machine{Name: name, Overhead: 1, Rates: cost.Fit(samples)}
	var most float64
	for _, s := range samples {
		if s.Key.Type != dtype.F32 || !(s.Seconds > 0) {
			continue
		}
		switch kind := s.Key.Kind; {
		case kind == graph.MatMul{}.Kind():
			m.FLOPs = max(m.FLOPs, s.FLOPs/s.Seconds)
		case kind == graph.AdamW{}.Kind() && s.Moved > most:
			most, m.Bandwidth = s.Moved, s.Moved/s.Seconds
		}
		m.Overhead = min(m.Overhead, s.Seconds)
	}
	return m
}

// linkBytes is what is copied and written.
const linkBytes = 32 << 20

// copyRate is the bytes a second that one thread copies between two places in memory.
func copyRate() (rate float64, err error) {
	var parts [mem.NumPurposes]mem.Bytes
	parts[mem.Staging] = 2 * linkBytes
	a, err := arena.New(mem.NewLedger(mem.Limits{}), mem.Host, parts)
	if err != nil {
		return 0, fmt.Errorf("probe: memory: %w", err)
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b := a.Bytes()
	best := time.Duration(1<<63 - 1)
	for range 4 { // the first touches the pages
		begin := time.Now()
		copy(b[linkBytes:2*linkBytes], b[:linkBytes])
		best = min(best, time.Since(begin))
	}
	return linkBytes / best.Seconds(), nil
}

// fileRate is the bytes a second that reach a file and its disk, or come back, whichever are fewer.
func fileRate(dir string) (rate float64, err error) {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return 0, fmt.Errorf("probe: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := os.Remove(f.Name()); err != nil { // at once, so that nothing is left behind whatever happens
		return 0, fmt.Errorf("probe: %w", err)
	}
	piece := make([]byte, 64<<10)
	for i := range piece {
		piece[i] = byte(i * 7)
	}
	begin := time.Now()
	for range linkBytes / len(piece) {
		if _, err := f.Write(piece); err != nil {
			return 0, fmt.Errorf("probe: %w", err)
		}
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("probe: %w", err)
	}
	write := time.Since(begin)
	begin = time.Now()
	for i := range linkBytes / len(piece) {
		if _, err := f.ReadAt(piece, int64(i*len(piece))); err != nil {
			return 0, fmt.Errorf("probe: %w", err)
		}
	}
	return linkBytes / max(write, time.Since(begin)).Seconds(), nil
}
