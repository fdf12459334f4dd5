package compile

import (
	"fmt"

	"loadline/graph"
	"loadline/mem"
	"loadline/mem/arena"
)

// Slot is a persistent buffer of a job: an Input or State that its programs share by name.
type Slot struct {
	Name    string
	Kind    graph.Kind
	Type    graph.Type
	Tier    mem.Tier
	Purpose mem.Purpose
	Bytes   int64
	Offset  int64 // in the tier's persistent memory
}

// Job is the programs of one run of the command: step, evaluation, save, resume, pass. They share their States and
// Inputs, and one arena a tier; the job's peak is that of its largest branch.
type Job struct {
	Programs   []*Program
	Slots      []Slot
	Persistent [mem.NumTiers]int64 // bytes of all slots, by tier
	Arena      [mem.NumTiers]int64 // the largest arena of any program, by tier
	Fixed      mem.Usage           // held throughout besides: the Go runtime, kernel scratch, comm windows, token data
}

// NewJob joins programs. Slots of one name must agree in type; offsets of persistent buffers are set in the programs.
func NewJob(fixed mem.Usage, programs ...*Program) (*Job, error) {
	j := &Job{Programs: programs, Fixed: fixed}
	index := map[string]int{}
	for _, p := range programs {
		for t := range p.Arena {
			j.Arena[t] = max(j.Arena[t], p.Arena[t])
		}
		for i := range p.Buffers {
			b := &p.Buffers[i]
			if !b.Persistent() {
				continue
			}
			k, ok := index[b.Name]
			if !ok {
				k = len(j.Slots)
				index[b.Name] = k
				j.Slots = append(j.Slots, Slot{Name: b.Name, Kind: b.Kind, Type: b.Type, Tier: b.Tier, Purpose: b.Purpose})
			}
			s := &j.Slots[k]
			if s.Kind != b.Kind || s.Tier != b.Tier || s.Type.DType != b.Type.DType || b.Kind == graph.State && s.Type != b.Type {
				return nil, fmt.Errorf("compile: %s %q of program %q is %v, elsewhere %v", kindName(b.Kind), b.Name, p.Name, b.Type, s.Type)
			}
			s.Bytes = max(s.Bytes, b.Bytes) // inputs of different bounds share the larger
		}
	}
	for k := range j.Slots {
		s := &j.Slots[k]
		s.Offset = j.Persistent[s.Tier]
		j.Persistent[s.Tier] += s.Bytes
	}
	for _, p := range programs {
		for i := range p.Buffers {
			if b := &p.Buffers[i]; b.Persistent() {
				b.Offset = j.Slots[index[b.Name]].Offset
			}
		}
	}
	return j, nil
}

func kindName(k graph.Kind) string { return [...]string{"input", "state", "temp"}[k] }

// Slot returns the persistent buffer named name, or nil.
func (j *Job) Slot(name string) *Slot {
	for i := range j.Slots {
		if j.Slots[i].Name == name {
			return &j.Slots[i]
		}
	}
	return nil
}

// Program returns the program named name, or nil.
func (j *Job) Program(name string) *Program {
	for _, p := range j.Programs {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// PersistentParts is how tier t's persistent memory of PersistentBytes divides into purposes; rounding to whole pages
// counts as Workspace.
func (j *Job) PersistentParts(t mem.Tier) (parts [mem.NumPurposes]mem.Bytes) {
	for i := range j.Slots {
		if s := &j.Slots[i]; s.Tier == t {
			parts[s.Purpose] += mem.Bytes(s.Bytes)
		}
	}
	parts[mem.Workspace] += mem.Bytes(rounded(t, j.Persistent[t]) - j.Persistent[t])
	return parts
}

// ArenaParts is how tier t's arena divides into purposes at the peak of the branch that needs the largest one; what no
// buffer holds at that moment counts as Workspace.
func (j *Job) ArenaParts(t mem.Tier) (parts [mem.NumPurposes]mem.Bytes) {
	p := j.largest(t)
	if p == nil {
		return parts
	}
	ids := p.arenaBuffers(t)
	best, at := alive(p, ids)
	for _, i := range ids {
		if b := &p.Buffers[i]; b.First <= at && at <= b.Last {
			parts[b.Purpose] += mem.Bytes(b.Bytes)
		}
	}
	parts[mem.Workspace] += mem.Bytes(rounded(t, j.Arena[t]) - best)
	return parts
}

// arenaBuffers are the buffers of tier t's arena.
func (p *Program) arenaBuffers(t mem.Tier) (ids []int32) {
	for i := range p.Buffers {
		if b := &p.Buffers[i]; !b.Persistent() && b.Tier == t {
			ids = append(ids, int32(i))
		}
	}
	return ids
}

// largest is the first program with the largest arena on tier t.
func (j *Job) largest(t mem.Tier) *Program {
	for _, p := range j.Programs {
		if p.Arena[t] == j.Arena[t] && p.Arena[t] > 0 {
			return p
		}
	}
	return nil
}

// arenaTimeline is Timeline without the persistent buffers.
func (p *Program) arenaTimeline() []mem.Usage {
	q := Program{Instrs: p.Instrs}
	for _, b := range p.Buffers {
		if !b.Persistent() {
			q.Buffers = append(q.Buffers, b)
		}
	}
	return q.Timeline()
}

// rounded is what a mapping of n bytes takes on tier t: whole pages in memory, the bytes themselves on disk.
func rounded(t mem.Tier, n int64) int64 {
	if n == 0 || !t.Memory() {
		return n
	}
	return int64(arena.Round(mem.Bytes(n)))
}

// PersistentBytes and ArenaBytes are the sizes of tier t's two mappings.
func (j *Job) PersistentBytes(t mem.Tier) int64 { return rounded(t, j.Persistent[t]) }

// ArenaBytes is the size of tier t's arena mapping.
func (j *Job) ArenaBytes(t mem.Tier) int64 { return rounded(t, j.Arena[t]) }

// Plan is the job's promise: its peak by tier and purpose, and each branch's.
func (j *Job) Plan() *mem.Plan {
	fixed := j.Fixed
	for t := range mem.Tier(mem.NumTiers) {
		for q, n := range j.PersistentParts(t) {
			fixed.Add(t, mem.Purpose(q), n)
		}
	}
	with := func(j *Job) mem.Usage {
		u := fixed
		for t := range mem.Tier(mem.NumTiers) {
			for q, n := range j.ArenaParts(t) {
				u.Add(t, mem.Purpose(q), n)
			}
		}
		return u
	}
	pl := &mem.Plan{Peak: with(j)}
	if p := j.largest(mem.Device); p != nil {
		pl.Name = p.Name
	}
	for _, p := range j.Programs {
		pl.Branches = append(pl.Branches, mem.Branch{Name: p.Name, Peak: with(&Job{Programs: []*Program{p}, Arena: p.Arena})})
	}
	return pl
}
