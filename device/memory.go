package device

import (
	"errors"
	"fmt"

	"loadline/compile"
	"loadline/graph"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/mem/tier"
)

// Memory is a job's memory on a device whose tiers this process can address: for each memory tier one arena of persistent
// slots and one that programs share, and for the disk tier one file that holds both. Everything is booked in the ledger
// from NewMemory to Close.
//
// Invariant: an operand's bytes lie inside its arena; names and offsets from outside are checked before they are used.
type Memory struct {
	job        *compile.Job
	slots      map[string]int
	limit      []int64 // bytes of each slot that Write and Read may touch
	persistent [mem.NumTiers]*arena.Arena
	arena      [mem.NumTiers]*arena.Arena
	file       *tier.FileStore // nil without a disk tier
	home       tier.Store      // where the disk tier's slots lie; nil where they begin the file
	stream     *tier.Stream    // nil where no program copies
	told       error           // of the stream, if a caller knows of it
	last       *compile.Program
	bounds     graph.Bounds // of the last run
}

// NewMemory books and maps the job's memory. After an error nothing is held.
func NewMemory(job *compile.Job, env Env) (*Memory, error) {
	m := &Memory{job: job, home: env.Home, slots: map[string]int{}, limit: make([]int64, len(job.Slots))}
	for i := range job.Slots {
		m.slots[job.Slots[i].Name] = i
	}
	copies := false
	for _, p := range job.Programs {
		for i := range p.Buffers {
			if b := &p.Buffers[i]; b.Persistent() {
				k := m.slots[b.Name]
				m.limit[k] = max(m.limit[k], b.Type.Bytes(p.Bounds))
			}
		}
		for i := range p.Instrs {
			copies = copies || p.Instrs[i].Ticket >= 0
		}
	}
	if err := m.open(env); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if copies {
		m.stream = tier.NewStream()
	}
	return m, nil
}

func (m *Memory) open(env Env) error {
	var err error
	for t := range mem.Tier(mem.NumTiers) {
		if !t.Memory() {
			continue
		}
		if m.job.PersistentBytes(t) > 0 {
			if m.persistent[t], err = arena.New(env.Ledger, t, m.job.PersistentParts(t)); err != nil {
				return fmt.Errorf("device: persistent memory: %w", err)
			}
		}
		if m.job.ArenaBytes(t) > 0 {
			if m.arena[t], err = arena.New(env.Ledger, t, m.job.ArenaParts(t)); err != nil {
				return fmt.Errorf("device: arena: %w", err)
			}
		}
	}
	if m.job.PersistentBytes(mem.Remote)+m.job.ArenaBytes(mem.Remote) > 0 {
		return errors.New("device: the job puts buffers on the remote tier, which no device has yet")
	}
	if n := m.diskSlots() + m.job.ArenaBytes(mem.Disk); n > 0 {
		if env.Dir == "" {
			return fmt.Errorf("device: the job puts %v on the disk tier: want a directory for its file", mem.Bytes(n))
		}
		if m.file, err = tier.TempFile(env.Ledger, m.diskPurpose(), env.Dir, mem.Bytes(n)); err != nil {
			return fmt.Errorf("device: disk tier: %w", err)
		}
	}
	return nil
}

// diskSlots is the bytes of the file that are for slots, from its start on.
func (m *Memory) diskSlots() int64 {
	if m.home != nil {
		return 0
	}
	return m.job.PersistentBytes(mem.Disk)
}

// diskPurpose is what most of the disk tier's bytes are for.
func (m *Memory) diskPurpose() mem.Purpose {
	a, p := m.job.ArenaParts(mem.Disk), m.job.PersistentParts(mem.Disk)
	best := mem.Purpose(0)
	for q := range mem.Purpose(mem.NumPurposes) {
		if a[q]+p[q] > a[best]+p[best] {
			best = q
		}
	}
	return best
}

// Mappings returns the whole mappings of a memory tier, persistent before arena; those of no bytes are left out.
func (m *Memory) Mappings(t mem.Tier) [][]byte {
	var all [][]byte
	for _, a := range []*arena.Arena{m.persistent[t], m.arena[t]} {
		if a != nil {
			all = append(all, a.Bytes())
		}
	}
	return all
}

// Arena returns the arena that programs share on a memory tier; nil if it has no bytes.
func (m *Memory) Arena(t mem.Tier) []byte {
	if m.arena[t] == nil {
		return nil
	}
	return m.arena[t].Bytes()
}

// Buffer returns the bytes of one of p's buffers in a memory tier, all that its rounding gives.
func (m *Memory) Buffer(p *compile.Program, buffer int32) ([]byte, error) {
	b := &p.Buffers[buffer]
	a := m.arena[b.Tier]
	if b.Persistent() {
		a = m.persistent[b.Tier]
	}
	if b.Bytes == 0 {
		return nil, nil
	}
	if a == nil {
		return nil, fmt.Errorf("device: buffer %q of %q is on the %v tier, which cannot be addressed", b.Name, p.Name, b.Tier)
	}
	return a.Bytes()[b.Offset : b.Offset+b.Bytes : b.Offset+b.Bytes], nil
}

// Operand returns the bytes of o under p's bounds; nil for an absent operand.
func (m *Memory) Operand(p *compile.Program, o compile.Operand) ([]byte, error) {
	if o.Buffer < 0 {
		return nil, nil
	}
	b, err := m.Buffer(p, o.Buffer)
	if err != nil {
		return nil, err
	}
	n := o.Type.Bytes(p.Bounds)
	if n > int64(len(b)) {
		return nil, fmt.Errorf("device: operand %v of %q is larger than buffer %q", o.Type, p.Name, p.Buffers[o.Buffer].Name)
	}
	return b[:n:n], nil
}

// Ran notes which program ran last and with what bounds, which decides what outputs Read finds; nil forgets.
func (m *Memory) Ran(p *compile.Program, b graph.Bounds) { m.last, m.bounds = p, b }

// Write fills bytes of an Input or State from offset at on.
func (m *Memory) Write(name string, at int64, src []byte) error {
	b, off, err := m.find(name, at, int64(len(src)), false)
	if err != nil {
		return err
	}
	switch {
	case off >= 0 && m.home != nil:
		return readOnly(name)
	case off >= 0:
		_, err = m.file.WriteAt(src, off)
	}
	copy(b, src)
	return err
}

// Read copies bytes of an Input, a State, or an output of the program that ran last.
func (m *Memory) Read(name string, at int64, dst []byte) error {
	b, off, err := m.find(name, at, int64(len(dst)), true)
	if err != nil {
		return err
	}
	if off >= 0 {
		var from tier.Store = m.file
		if m.home != nil {
			from = m.home
		}
		_, err = from.ReadAt(dst, off)
	}
	copy(dst, b)
	return err
}

// find returns n bytes of a value by name: a slice where they lie in memory, an offset in the file (else -1) where they lie on
// disk. Outputs are found only if asked for.
func (m *Memory) find(name string, at, n int64, outputs bool) (b []byte, off int64, err error) {
	if k, ok := m.slots[name]; ok {
		s := &m.job.Slots[k]
		if err := inside(name, at, n, m.limit[k]); err != nil || n == 0 {
			return nil, -1, err
		}
		lo := s.Offset + at
		if s.Tier == mem.Disk {
			return nil, lo, nil
		}
		return m.persistent[s.Tier].Bytes()[lo : lo+n], -1, nil
	}
	if !outputs || m.last == nil {
		return nil, -1, fmt.Errorf("device: the job has no input or state %q", name)
	}
	for i := range m.last.Outputs {
		o := &m.last.Outputs[i]
		if o.Name != name {
			continue
		}
		if err := inside(name, at, n, o.Type.Bytes(m.bounds)); err != nil {
			return nil, -1, err
		}
		b, err := m.Operand(m.last, o.Operand)
		if err != nil {
			return nil, -1, err
		}
		return b[at : at+n], -1, nil
	}
	return nil, -1, fmt.Errorf("device: %q is no input or state of the job and no output of program %q, which ran last", name, m.last.Name)
}

func readOnly(name string) error {
	return fmt.Errorf("device: %q is on the disk tier, in a file that is only read", name)
}

func inside(name string, at, n, limit int64) error {
	if at < 0 || at > limit || n > limit-at {
		return fmt.Errorf("device: %q has %d bytes, want %d at offset %d", name, limit, n, at)
	}
	return nil
}

// Close ends the copies, unmaps everything and removes the file of the disk tier.
func (m *Memory) Close() error {
	var errs []error
	if m.stream != nil {
		if err := m.stream.Close(); err != m.told {
			errs = append(errs, err)
		}
		m.stream = nil
	}
	for t := range m.arena {
		for _, a := range []*arena.Arena{m.persistent[t], m.arena[t]} {
			if a != nil {
				errs = append(errs, a.Close())
			}
		}
		m.persistent[t], m.arena[t] = nil, nil
	}
	if m.file != nil {
		errs = append(errs, m.file.Close())
		m.file = nil
	}
	return errors.Join(errs...)
}
