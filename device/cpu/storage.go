package cpu

import (
	"errors"
	"fmt"
)

func bindZero(b *binder) step {
	p := b.bytes(b.in.Out[0])
	f := fn(func(_ *Session, lo, hi, _ int) { clear(p[lo:hi]) })
	return stepFunc(func(s *Session) error {
		s.each(len(p), 4*grainElems, f)
		return nil
	})
}

func bindSave(b *binder) step {
	b.plain(b.in.In[0])
	p, stage := b.bytes(b.in.In[0]), b.scratchBytes()
	name := b.x.Buffers[b.in.In[0].Buffer].Name
	return stepFunc(func(s *Session) error {
		if s.args.Sink == nil {
			return errors.New("want a sink for what it saves")
		}
		for rest := p; len(rest) > 0; {
			n := copy(stage, rest)
			if err := s.args.Sink(name, stage[:n]); err != nil {
				return fmt.Errorf("save %q: %w", name, err)
			}
			rest = rest[n:]
		}
		return nil
	})
}

func bindRestore(b *binder) step {
	if b.isPacked(b.in.Out[0]) {
		return bindRestorePacked(b)
	}
	p, stage := b.bytes(b.in.Out[0]), b.scratchBytes()
	name := b.x.Buffers[b.in.Out[0].Buffer].Name
	return stepFunc(func(s *Session) error {
		if s.args.Source == nil {
			return errors.New("want a source to restore from")
		}
		for rest := p; len(rest) > 0; {
			n := min(len(stage), len(rest))
			if err := s.args.Source(name, stage[:n]); err != nil {
				return fmt.Errorf("restore %q: %w", name, err)
			}
			copy(rest, stage[:n])
			rest = rest[n:]
		}
		return nil
	})
}
