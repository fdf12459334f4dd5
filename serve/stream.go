package serve

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"loadline/compile"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/mem/tier"
)

// smallWeight is the bytes up to which a weight always stays: norms and biases, which are not worth a read of their own.
const smallWeight = 64 * mem.KiB

// kept chooses the weights of a pass that stay in memory under o.Resident.
func (o Options) kept(g *graph.Graph) map[string]bool {
	keep := map[string]bool{}
	var names []string
	var uses []tier.Use
	index := map[graph.Value]int{}
	for _, v := range g.States() {
		x := &g.Values[v]
		switch {
		case x.Purpose != mem.Weights:
		case mem.Bytes(x.Bytes) <= smallWeight:
			keep[x.Name] = true
		default:
			index[v] = len(uses)
			names, uses = append(names, x.Name), append(uses, tier.Use{Bytes: mem.Bytes(x.Bytes)})
		}
	}
	for i := range g.Ops {
		for _, v := range g.Ops[i].In {
			if k, ok := index[v]; ok {
				uses[k].Times++
			}
		}
	}
	for i, stays := range tier.Keep(uses, o.Resident) {
		if stays {
			keep[names[i]] = true
		}
	}
	return keep
}

// streaming builds the job of o, which does not fit whole, with weights that are read again for every pass: of all sequences together, so
// their blocks come first, if they all fit. What is left keeps weights.
// If not even the least fits, it returns that.
func streaming(o Options, dev device.Device) (*Job, error) {
	o.Stream, o.Resident = true, 0
	blocks := []int{o.Blocks}
	if o.Blocks == 0 {
		blocks = []int{o.MaxSeqs * o.width(), o.width()}
	}
	var best *Job
	for _, o.Blocks = range blocks {
		j, err := build(o, dev)
		if err != nil {
			return nil, err
		}
		if best = j; j.fits() {
			break
		}
	}
	if !best.fits() {
		return best, nil
	}
	return keepMost(best, dev)
}

// keepMost is least, which keeps nothing, with as much staying as fits. What stays takes room from the buffers that the others pass through,
// and where it is the largest of them gives more back; and how buffers come to lie beside each other depends on all of them. So this
// begins with the most that could fit, takes off what is too much, and last tries to use what that leaves.
func keepMost(least *Job, dev device.Device) (*Job, error) {
	o := least.Options
	at := func(n mem.Bytes) (*Job, error) {
		o.Resident = n
		return build(o, dev)
	}
	grain := least.Promise.Peak.Total(mem.Disk)/2048 + 1
	for n := o.Memory - least.Promise.Memory() + mem.Bytes(least.ArenaBytes(mem.Device)); n > 0; {
		j, err := at(n)
		if err != nil {
			return nil, err
		}
		if !j.fits() {
			n -= max(j.Promise.Memory()-o.Memory, grain)
			continue
		}
		for gap := o.Memory - j.Promise.Memory(); gap > grain; gap /= 2 {
			more, err := at(n + gap)
			if err != nil || more.fits() {
				return more, err
			}
		}
		return j, nil
	}
	return least, nil
}

// Streamed is the bytes of weights that every pass reads again; 0 where memory holds all of them.
func (j *Job) Streamed() mem.Bytes { return j.Program(passProgram).Streamed() }

// PassSeconds is the modelled time of a pass of as many rows as there can be: what it computes, or what it reads if that takes longer.
func (j *Job) PassSeconds() float64 {
	t := j.Program(passProgram).Seconds
	if n := j.Streamed(); n > 0 {
		t = max(t, float64(n)/j.Options.Machine.Link[mem.Disk])
	}
	return t
}

// Notes says, for people, what the plan gave up: one line each.
func (j *Job) Notes() []string {
	n := j.Streamed()
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the memory limit does not hold the weights: they are read again for every pass, %v a token batch, no faster than they can be read (%v of them stay in memory)",
		n, j.PersistentParts(mem.Device)[mem.Weights])}
}

// home is the States of the disk tier where they already are: each from its slot's offset on, read from its beginning to its end, over
// and over, as the source gives it.
type home struct {
	slots  []compile.Slot // by offset
	next   []int64        // by slot: what the source gives next
	source Source
}

// newHome returns the home of j's weights; nil if all are in memory.
func newHome(j *Job, source Source) tier.Store {
	h := &home{source: source}
	for _, s := range j.Slots {
		if s.Tier == mem.Disk {
			h.slots, h.next = append(h.slots, s), append(h.next, 0)
		}
	}
	if len(h.slots) == 0 {
		return nil
	}
	return h
}

// ReadAt reads the next bytes of a weight.
func (h *home) ReadAt(p []byte, off int64) (int, error) {
	i := sort.Search(len(h.slots), func(i int) bool { return h.slots[i].Offset > off }) - 1
	if i < 0 {
		return 0, fmt.Errorf("serve: no weight at offset %d: %w", off, io.ErrUnexpectedEOF)
	}
	s := &h.slots[i]
	at, all := off-s.Offset, s.Type.DType.Bytes(s.Type.Shape.Elems(graph.Bounds{})) // as a file has it
	if at != h.next[i] || int64(len(p)) > all-at {
		return 0, fmt.Errorf("serve: weight %q of %d bytes: want %d at %d, the source is at %d: %w", s.Name, all, len(p), at, h.next[i], io.ErrUnexpectedEOF)
	}
	if err := h.source(s.Name, p); err != nil {
		return 0, fmt.Errorf("serve: read weight %q again: %w", s.Name, err)
	}
	h.next[i] = (at + int64(len(p))) % all
	return len(p), nil
}

// WriteAt refuses: the files of a model are only read.
func (h *home) WriteAt([]byte, int64) (int, error) {
	return 0, errors.New("serve: weights are not written")
}

// Close does nothing: the files are the caller's.
func (h *home) Close() error { return nil }
