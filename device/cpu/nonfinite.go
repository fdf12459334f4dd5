package cpu

import (
	"errors"
	"time"

	"loadline/device"
	"loadline/graph"
	"loadline/mem/arena"
	"loadline/tensor/dtype"
)

// FirstNonFinite runs a program on what its Inputs and States hold and returns the place of the first instruction that makes something that
// is not finite, or the number of instructions. Scores, whose places that nobody reads are left alone, are not looked at, and neither are copies
// from tier to tier, which are on their way and make nothing. States change as in any run.
func (s *Session) FirstNonFinite(name string) (int, error) {
	var p *program
	for _, x := range s.programs {
		if x.Name == name {
			p = x
		}
	}
	first := -1
	var failed error
	err := s.Run(name, device.Args{Timed: func(t int, _ time.Duration) {
		in := &p.Instrs[t]
		switch in.Op.(type) {
		case graph.Scores, graph.Softmax, graph.Offload, graph.Fetch, graph.Wait:
			return
		}
		for _, o := range in.Out {
			if first >= 0 || failed != nil || o.Buffer < 0 || !o.Type.DType.Float() {
				continue
			}
			var b []byte
			if b, failed = s.mem.Operand(p.Program, o); failed == nil && nonFinite(o.Type.DType, b) {
				first = t
			}
		}
	}})
	if err := errors.Join(err, failed); err != nil {
		return 0, err
	}
	if first < 0 {
		first = len(p.Instrs)
	}
	return first, nil
}

// nonFinite tells whether NaN or an infinity is among elements of type t.
func nonFinite(t dtype.Type, b []byte) bool {
	if t == dtype.F32 {
		for _, x := range arena.F32(b) {
			if x-x != 0 {
				return true
			}
		}
		return false
	}
	exponent := uint16(0x7f80) // all ones in a number that is not finite
	if t == dtype.F16 {
		exponent = 0x7c00
	}
	for _, x := range arena.U16(b) {
		if x&exponent == exponent {
			return true
		}
	}
	return false
}
