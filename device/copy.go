package device

import (
	"fmt"

	"loadline/compile"
	"loadline/graph"
	"loadline/mem"
	"loadline/mem/tier"
)

// Copy prepares the copy that an Offload or a Fetch starts. Between Start and Wait the copy owns its buffers; the program
// keeps them alive.
func (m *Memory) Copy(p *compile.Program, in *compile.Instr) (tier.Job, error) {
	var piece graph.Piece
	near, far := in.Out[0], in.In[0]
	o, out := in.Op.(graph.Offload)
	if out {
		near, far, piece = far, near, o.Piece
	} else if f, ok := in.Op.(graph.Fetch); ok {
		piece = f.Piece
	}
	b, err := m.Operand(p, near)
	if err != nil {
		return tier.Job{}, err
	}
	x := &p.Buffers[far.Buffer]
	at := far.Type.DType.Bytes(int64(piece.At))
	j := tier.Job{Write: out, Buf: b, Off: x.Offset + at}
	if x.Bytes-at < int64(len(b)) {
		return j, fmt.Errorf("device: copy of %d bytes of %q, from %d on, to a place of %d", len(b), x.Name, at, x.Bytes)
	}
	if x.Tier == mem.Disk {
		err := m.onDisk(&j, x)
		return j, err
	}
	whole, err := m.Buffer(p, far.Buffer)
	j.Store, j.Off = tier.NewMemStore(whole), at
	return j, err
}

// onDisk makes j a copy from or to a buffer of the disk tier.
func (m *Memory) onDisk(j *tier.Job, x *compile.Buffer) error {
	switch {
	case x.Persistent() && m.home != nil:
		if j.Store = m.home; j.Write {
			return readOnly(x.Name)
		}
	case m.file == nil:
		return fmt.Errorf("device: copy of %q without a disk tier", x.Name)
	default:
		if j.Store = m.file; !x.Persistent() {
			j.Off += m.diskSlots()
		}
	}
	return nil
}

// Start begins a prepared copy.
func (m *Memory) Start(j tier.Job) tier.Ticket { return m.stream.Start(j) }

// Wait returns when a copy is done. Its error is of the first that failed, and Close does not say it again.
func (m *Memory) Wait(t tier.Ticket) error { return m.tell(m.stream.Wait(t)) }

// Drain returns when every copy started so far is done, with the same error.
func (m *Memory) Drain() error {
	if m.stream == nil {
		return nil
	}
	return m.tell(m.stream.Drain())
}

// tell notes what the caller has been told of.
func (m *Memory) tell(err error) error {
	if err != nil {
		m.told = err
	}
	return err
}
