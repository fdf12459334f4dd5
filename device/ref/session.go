package ref

import (
	"errors"
	"fmt"

	"loadline/collective"
	"loadline/compile"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// session is a job on the reference device.
type session[T real] struct {
	dev      *Device
	group    collective.Group
	programs []prepared[T]
	held     []*mem.Reservation
	slots    map[string]*store[T] // persistent buffers by name
	pool     *pool[T]
	ran      *prepared[T] // the program run last, whose outputs can be read
	bounds   graph.Bounds // of that run
	tickets  map[int32]bool
	args     device.Args
	staging  []byte // of Save and Restore, made when first needed
	closed   bool
}

// prepared is a program with its kernels and lifetimes.
type prepared[T real] struct {
	*compile.Program
	lives   lifetimes
	kernels []kernel[T]
}

func open[T real](d *Device, job *compile.Job, env device.Env) (*session[T], error) {
	s := &session[T]{dev: d, group: env.Group, slots: map[string]*store[T]{}, pool: newPool[T](), tickets: map[int32]bool{}}
	if s.group == nil {
		s.group = collective.Single()
	}
	for i := range job.Slots {
		x := &job.Slots[i]
		if err := supported[T](x.Type.DType); err != nil {
			return nil, fmt.Errorf("ref: %q: %w", x.Name, err)
		}
		st := newStore[T](x.Type.DType, elemsIn(x.Type, x.Bytes))
		s.slots[x.Name] = &st
		if x.Tier == mem.Disk && env.Home != nil {
			if err := st.fill(env.Home, x.Offset); err != nil {
				return nil, fmt.Errorf("ref: %q: %w", x.Name, err)
			}
		}
	}
	for _, p := range job.Programs {
		r, err := prepare(s, p)
		if err != nil {
			return nil, fmt.Errorf("ref: program %q: %w", p.Name, err)
		}
		s.programs = append(s.programs, r)
	}
	for t := range mem.Tier(mem.NumTiers) {
		for _, parts := range [...][mem.NumPurposes]mem.Bytes{job.PersistentParts(t), job.ArenaParts(t)} {
			r, err := env.Ledger.ReserveSplit(t, parts)
			if err != nil {
				s.release()
				return nil, fmt.Errorf("ref: open: %w", err)
			}
			s.held = append(s.held, r)
		}
	}
	return s, nil
}

// prepare finds the kernels of p and checks that every operand fits into its buffer.
func prepare[T real](s *session[T], p *compile.Program) (prepared[T], error) {
	r := prepared[T]{Program: p, lives: scan(p)}
	for i := range p.Buffers {
		if err := supported[T](p.Buffers[i].Type.DType); err != nil {
			return r, fmt.Errorf("%q: %w", p.Buffers[i].Name, err)
		}
	}
	for t := range p.Instrs {
		in := &p.Instrs[t]
		k, err := kernelOf[T](in.Op, s.group.Size())
		if err != nil {
			return r, fmt.Errorf("instruction %d %s: %w", t, in.Op.Kind(), err)
		}
		r.kernels = append(r.kernels, k)
		for _, os := range [2][]compile.Operand{in.In, in.Out} {
			for _, o := range os {
				if o.Buffer < 0 {
					continue
				}
				b := &p.Buffers[o.Buffer]
				if o.Type.DType != b.Type.DType || o.Type.Bytes(p.Bounds) > b.Bytes {
					return r, fmt.Errorf("instruction %d %s: operand %v does not fit buffer %q of %v, %d bytes", t, in.Op.Kind(), o.Type, b.Name, b.Type, b.Bytes)
				}
			}
		}
	}
	return r, nil
}

// program returns the prepared program named name, or nil.
func (s *session[T]) program(name string) *prepared[T] {
	for i := range s.programs {
		if s.programs[i].Name == name {
			return &s.programs[i]
		}
	}
	return nil
}

// Run runs a program to its end.
func (s *session[T]) Run(name string, a device.Args) error {
	p := s.program(name)
	if p == nil || s.closed {
		return fmt.Errorf("ref: no program %q in this session", name)
	}
	b := p.Bounds
	if a.Rows < 0 || a.Rows > b.Rows || a.Outs < 0 || a.Outs > b.Outs {
		return fmt.Errorf("ref: program %q: want at most %d rows and %d outs, got %d and %d", name, b.Rows, b.Outs, a.Rows, a.Outs)
	}
	if a.Rows > 0 {
		b.Rows = a.Rows
	}
	if a.Outs > 0 {
		b.Outs = a.Outs
	}
	if s.ran != nil {
		s.pool.clear(s.ran.Program)
	}
	s.ran, s.bounds, s.args = p, b, a
	clear(s.tickets)
	for t := range p.Instrs {
		if err := s.step(p, t); err != nil {
			s.pool.clear(p.Program)
			s.ran = nil
			return fmt.Errorf("ref: program %q: instruction %d %s: %w", name, t, p.Instrs[t].Op.Kind(), err)
		}
	}
	if len(s.tickets) > 0 {
		return fmt.Errorf("ref: program %q: %d copies are never waited for", name, len(s.tickets))
	}
	return nil
}

// step runs instruction t of p.
func (s *session[T]) step(p *prepared[T], t int) error {
	for _, id := range p.lives.births[t] {
		s.pool.alloc(p.Program, id)
	}
	if s.dev.Observe != nil {
		s.dev.Observe(p.Name, t, p.lives.base.Plus(s.pool.used))
	}
	in := &p.Instrs[t]
	c := &call[T]{s: s, instr: in}
	for _, o := range in.In {
		c.in = append(c.in, s.view(p, o))
	}
	for _, o := range in.Out {
		c.out = append(c.out, s.view(p, o))
	}
	if len(in.In) > 0 && in.In[0].Buffer >= 0 {
		c.state = p.Buffers[in.In[0].Buffer].Name
	}
	if err := p.kernels[t](c); err != nil {
		return err
	}
	for _, v := range c.out {
		roundTo(v.typ.DType, v.f)
	}
	for _, id := range p.lives.deaths[t] {
		s.pool.release(p.Program, id)
	}
	return nil
}

// view is operand o at the bounds of this run.
func (s *session[T]) view(p *prepared[T], o compile.Operand) view[T] {
	if o.Buffer < 0 {
		return view[T]{}
	}
	v := view[T]{on: true, typ: o.Type}
	n := 1
	for i, d := range o.Type.Shape.Dims[:o.Type.Shape.N] {
		v.dims[i] = d.Len(s.bounds)
		n *= v.dims[i]
	}
	st := s.find(p, o.Buffer)
	if o.Type.DType == dtype.I32 {
		v.i = st.i[:n]
	} else {
		v.f = st.f[:n]
	}
	return v
}

func (s *session[T]) find(p *prepared[T], id int32) *store[T] {
	if b := &p.Buffers[id]; b.Persistent() {
		return s.slots[b.Name]
	}
	st := s.pool.live[id]
	return &st
}

// named returns the store of an Input, a State or an Output of the program run last, and how many elements it has.
func (s *session[T]) named(name string) (*store[T], int, error) {
	if s.closed {
		return nil, 0, errors.New("ref: the session is closed")
	}
	if st := s.slots[name]; st != nil {
		return st, st.elems(), nil
	}
	if s.ran != nil {
		for _, o := range s.ran.Outputs {
			if o.Name == name && o.Buffer >= 0 {
				return s.find(s.ran, o.Buffer), int(o.Type.Shape.Elems(s.bounds)), nil
			}
		}
	}
	return nil, 0, fmt.Errorf("ref: no value %q", name)
}

// span checks a range of bytes of a value and returns its first element.
func (s *session[T]) span(name string, at int64, n int) (*store[T], int, error) {
	st, elems, err := s.named(name)
	if err != nil {
		return nil, 0, err
	}
	if st.dt.Block() {
		return nil, 0, fmt.Errorf("ref: %q of %v is filled by Restore alone", name, st.dt)
	}
	w := int64(st.width())
	if at < 0 || at%w != 0 || int64(n)%w != 0 || at+int64(n) > int64(elems)*w {
		return nil, 0, fmt.Errorf("ref: %q: bytes %d to %d are not elements of %d × %d bytes", name, at, at+int64(n), elems, w)
	}
	return st, int(at / w), nil
}

// Write fills bytes of an Input or State.
func (s *session[T]) Write(name string, at int64, src []byte) error {
	if s.slots[name] == nil {
		return fmt.Errorf("ref: no input or state %q", name)
	}
	st, from, err := s.span(name, at, len(src))
	if err == nil {
		st.decode(src, from)
	}
	return err
}

// Read copies bytes of an Input, a State, or an Output of the program run last.
func (s *session[T]) Read(name string, at int64, dst []byte) error {
	st, from, err := s.span(name, at, len(dst))
	if err == nil {
		st.encode(dst, from)
	}
	return err
}

// WriteF64 fills elements of a float Input or State without rounding to its storage type.
func (s *session[T]) WriteF64(name string, at int, src []float64) error {
	st := s.slots[name]
	if st == nil || s.closed || at < 0 || at+len(src) > len(st.f) {
		return fmt.Errorf("ref: no floats %d to %d of an input or state %q", at, at+len(src), name)
	}
	for k, x := range src {
		st.f[at+k] = T(x)
	}
	return nil
}

// ReadF64 copies elements of a float value without rounding to its storage type.
func (s *session[T]) ReadF64(name string, at int, dst []float64) error {
	st, elems, err := s.named(name)
	if err != nil {
		return err
	}
	if at < 0 || at+len(dst) > min(elems, len(st.f)) {
		return fmt.Errorf("ref: no floats %d to %d of %q", at, at+len(dst), name)
	}
	for k := range dst {
		dst[k] = float64(st.f[at+k])
	}
	return nil
}

// Close releases everything.
func (s *session[T]) Close() error {
	if s.closed {
		return errors.New("ref: the session is closed already")
	}
	s.closed = true
	s.release()
	s.slots, s.pool, s.ran = nil, nil, nil
	return nil
}

func (s *session[T]) release() {
	for _, r := range s.held {
		r.Release()
	}
	s.held = nil
}
