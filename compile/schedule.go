package compile

import (
	"slices"
	"sort"

	"loadline/graph"
	"loadline/mem"
)

// instKind tells an operation from the copies that offloading inserts.
type instKind uint8

const (
	instOp instKind = iota
	instOut
	instOutWait
	instIn
	instInWait
)

// inst is a scheduled instruction: operation op of the flow, or a copy of value v. Its operands' lives are
// refs[ref:ref+n], inputs before outputs; -1 where an operand is absent or persistent.
type inst struct {
	op     int32
	v      graph.Value
	kind   instKind
	again  bool
	ref, n int32
	ticket int32
}

// life is one interval of one value's bytes. Root is the life whose place it took over, or itself; a root's last covers
// all that followed in its place.
type life struct {
	v           graph.Value
	first, last int32
	root        int32
	bytes       int64
	lower       bool // on the lower tier
}

// schedule turns decisions into an instruction list with exact lifetimes. It is reused between runs: every slice is
// scratch of the last run.
type schedule struct {
	f     *flow
	away  away
	nest  []bool // by layer: forget its clones before its own backward half, so that runs of layers replay twice
	insts []inst
	refs  []int32
	lives []life
	cur   []int32 // by value: the life of the original, and from n on of the clone; -1 if none
	host  []int32 // by value: the life on the lower tier
	dec   []decision
	turn  int32 // first instruction of the backward half
	delta []int64
	taken []bool
	enter int  // number of lives that are alive at the start
	quick bool // programs are laid out without the long searches

	cost  float64 // seconds of recomputation
	stall float64 // seconds of waiting for the link
	tick  int32
}

func newSchedule(f *flow) *schedule {
	n := len(f.bytes)
	return &schedule{f: f, cur: make([]int32, 2*n), host: make([]int32, n)} //mem:ok planning runs before arenas are touched
}

// run schedules under dec; nest may be nil.
func (s *schedule) run(dec []decision, nest []bool) {
	f := s.f
	s.dec, s.nest = dec, nest
	s.insts, s.refs, s.lives = s.insts[:0], s.refs[:0], s.lives[:0]
	s.cost, s.stall, s.tick, s.turn = 0, 0, 0, -1
	for i := range s.cur {
		s.cur[i] = -1
	}
	for i := range s.host {
		s.host[i] = -1
	}
	for _, v := range f.enter {
		s.cur[v] = s.birth(v, false)
	}
	s.enter = len(s.lives)
	offloads := false
	prev := int32(-2)
	for i := range f.ops {
		o := &f.ops[i]
		if o.phase != graph.Forward {
			if s.turn < 0 {
				s.startBackward()
			}
			if o.layer != prev && o.layer >= 0 && nest != nil && nest[o.layer] && o.phase == graph.Backward {
				for _, v := range f.byLayer[int(o.layer)] {
					if l := f.lead[v]; l != graph.None && dec[l] == again {
						s.cur[len(f.bytes)+int(v)] = -1
					}
				}
			}
			prev = o.layer
			for _, v := range o.in {
				s.need(v)
			}
		}
		s.emit(int32(i), false)
		if o.phase == graph.Forward && len(o.out) > 0 && !f.fixed[o.out[0]] && dec[o.out[0]] == offload {
			for _, v := range o.out {
				if f.lead[v] != graph.None {
					s.copyOut(v)
					offloads = true
				}
			}
		}
	}
	if s.turn < 0 {
		s.startBackward()
	}
	if offloads {
		s.overlap()
	}
	s.finish()
}

func (s *schedule) startBackward() {
	s.turn = int32(len(s.insts))
	for _, v := range s.f.enterB {
		s.cur[v] = s.birth(v, false)
	}
}

func (s *schedule) birth(v graph.Value, lower bool) int32 {
	id := int32(len(s.lives))
	s.lives = append(s.lives, life{v: v, first: -1, last: -1, root: id, bytes: s.f.bytes[v], lower: lower})
	return id
}

// dropped tells whether a late reader of v must read a clone.
func (s *schedule) dropped(v graph.Value) bool {
	l := s.f.lead[v]
	return s.f.forward[v] && l != graph.None && s.dec[l] != keep
}

// need makes sure that the clone of v exists, if late readers read one.
func (s *schedule) need(v graph.Value) {
	if v == graph.None || s.f.fixed[v] || !s.dropped(v) || s.cur[len(s.f.bytes)+int(v)] >= 0 {
		return
	}
	if s.dec[s.f.lead[v]] == offload {
		s.copyIn(v)
		return
	}
	i := s.f.def[v]
	for _, x := range s.f.ops[i].in {
		s.need(x)
	}
	s.emit(i, true)
	s.cost += s.f.ops[i].seconds
}

// emit appends operation i, or its clone.
func (s *schedule) emit(i int32, clone bool) {
	o := &s.f.ops[i]
	n := len(s.f.bytes)
	ref := int32(len(s.refs))
	late := clone || o.phase != graph.Forward
	for _, v := range o.in {
		switch {
		case v == graph.None || s.f.fixed[v]:
			s.refs = append(s.refs, -1)
		case late && s.dropped(v):
			s.refs = append(s.refs, s.cur[n+int(v)])
		default:
			s.refs = append(s.refs, s.cur[v])
		}
	}
	for _, v := range o.out {
		if s.f.fixed[v] {
			s.refs = append(s.refs, -1)
			continue
		}
		id := s.birth(v, false)
		s.refs = append(s.refs, id)
		if clone {
			s.cur[n+int(v)] = id
		} else {
			s.cur[v] = id
		}
	}
	s.insts = append(s.insts, inst{op: i, v: graph.None, again: clone, ref: ref, n: int32(len(s.refs)) - ref, ticket: -1})
}

func (s *schedule) copyOut(v graph.Value) {
	h := s.birth(v, true)
	s.host[v] = h
	s.copyPair(instOut, v, s.cur[v], h)
}

func (s *schedule) copyIn(v graph.Value) {
	c := s.birth(v, false)
	s.cur[len(s.f.bytes)+int(v)] = c
	s.copyPair(instIn, v, s.host[v], c)
}

// copyPair appends a copy from life a to life b and the wait for it.
func (s *schedule) copyPair(kind instKind, v graph.Value, a, b int32) {
	ref := int32(len(s.refs))
	s.refs = append(s.refs, a, b)
	s.insts = append(s.insts, inst{op: -1, v: v, kind: kind, ref: ref, n: 2, ticket: s.tick},
		inst{op: -1, v: v, kind: kind + 1, ref: ref, n: 2, ticket: s.tick})
	s.tick++
}

// overlap moves the waits of copies out later and the starts of copies in earlier, to where the model says that the link
// has carried them. Positions are instructions, so bytes stay exact even where time is mispredicted.
func (s *schedule) overlap() {
	start := make([]float64, len(s.insts)+1) // modelled start of every instruction //mem:ok planning runs before arenas are touched
	for t := range s.insts {
		start[t+1] = start[t]
		if s.insts[t].kind == instOp {
			start[t+1] += s.f.ops[s.insts[t].op].seconds
		}
	}
	end := start[len(s.insts)]
	key := make([]float64, len(s.insts)) // sort keys: instruction positions //mem:ok planning runs before arenas are touched
	done := map[graph.Value]float64{}
	wait := map[graph.Value]int{}
	var free float64
	at := func(x float64) float64 { return float64(sort.SearchFloat64s(start, x)) }
	for t := range s.insts {
		key[t] = float64(t)
		v := s.insts[t].v
		switch s.insts[t].kind {
		case instOut:
			free = max(free, start[t]) + float64(s.f.bytes[v])/s.away.rate
			done[v] = free
		case instOutWait:
			key[t] = max(float64(t), at(done[v])-0.5)
			wait[v] = t
		}
	}
	next := end
	for t := len(s.insts) - 1; t >= 0; t-- {
		if s.insts[t].kind != instIn {
			continue
		}
		v := s.insts[t].v
		next = min(next, start[t]) - float64(s.f.bytes[v])/s.away.rate
		from := next
		if late := done[v] - from; late > 0 {
			s.stall = max(s.stall, late)
			from = done[v]
		}
		// never before the copy out was waited for, never before the backward half
		key[wait[v]] = min(key[wait[v]], float64(t)-0.75)
		key[t] = min(float64(t), max(at(from)-1.5, key[wait[v]]+0.1, float64(s.turn)-0.4))
	}
	order := make([]int, len(s.insts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case key[a] < key[b]:
			return -1
		case key[a] > key[b]:
			return 1
		}
		return 0
	})
	moved := make([]inst, len(s.insts))
	turn := s.turn
	for i, j := range order {
		moved[i] = s.insts[j]
		if int32(j) == turn {
			s.turn = int32(i)
		}
	}
	s.insts = append(s.insts[:0], moved...)
}

// finish fills first, last and root of every life.
func (s *schedule) finish() {
	end := int32(len(s.insts)) - 1
	for t := range s.insts {
		for _, l := range s.refs[s.insts[t].ref : s.insts[t].ref+s.insts[t].n] {
			if l >= 0 {
				if s.lives[l].first < 0 {
					s.lives[l].first = int32(t)
				}
				s.lives[l].last = int32(t)
			}
		}
	}
	for i := range s.enter {
		s.lives[i].first = 0
	}
	for _, v := range s.f.enterB {
		if l := s.cur[v]; l >= 0 {
			s.lives[l].first = min(s.turn, end)
		}
	}
	for _, v := range s.f.leaveF {
		l := &s.lives[s.cur[v]]
		l.last = max(l.last, s.turn-1)
	}
	for _, v := range s.f.leaveB {
		s.lives[s.cur[v]].last = end
	}
	if cap(s.taken) < len(s.lives) {
		s.taken = make([]bool, 2*len(s.lives))
	}
	taken := s.taken[:len(s.lives)]
	clear(taken)
	for t := range s.insts {
		in := &s.insts[t]
		if in.kind != instOp {
			continue
		}
		o := &s.f.ops[in.op]
		refs := s.refs[in.ref : in.ref+in.n]
		for _, a := range o.alias {
			if a.In >= len(o.in) || a.Out >= len(o.out) {
				continue
			}
			li, lo := refs[a.In], refs[len(o.in)+a.Out]
			if li < 0 || lo < 0 || taken[li] || s.lives[lo].root != lo || s.lives[li].last != int32(t) ||
				s.lives[li].bytes != s.lives[lo].bytes || s.lives[li].lower || twice(refs[:len(o.in)], a.In) {
				continue
			}
			taken[li] = true
			r := s.lives[li].root
			s.lives[lo].root = r
			s.lives[r].last = max(s.lives[r].last, s.lives[lo].last)
		}
	}
	// A root's last must cover its whole chain; chains are built front to back, so one more sweep settles them.
	for i := range s.lives {
		if r := s.lives[i].root; r != int32(i) {
			s.lives[r].last = max(s.lives[r].last, s.lives[i].last)
		}
	}
}

// twice tells whether operand i's life is also another operand's.
func twice(refs []int32, i int) bool {
	for j, l := range refs {
		if j != i && l == refs[i] {
			return true
		}
	}
	return false
}

// timeline is the device bytes in use at every instruction. The slice is reused.
func (s *schedule) timeline() []int64 {
	n := len(s.insts)
	if cap(s.delta) < n+1 {
		s.delta = make([]int64, 2*n+2)
	}
	d := s.delta[:n+1]
	clear(d)
	for i := range s.lives {
		if l := &s.lives[i]; l.root == int32(i) && !l.lower && l.first >= 0 {
			d[l.first] += l.bytes
			d[l.last+1] -= l.bytes
		}
	}
	var sum int64
	for t := range n {
		sum += d[t]
		d[t] = sum
		if in := &s.insts[t]; in.kind == instOp {
			d[t] += s.f.ops[in.op].scratch
		}
	}
	return d[:n]
}

// peak is the most device bytes in use at any instruction.
func (s *schedule) peak() int64 {
	return slices.Max(s.timeline())
}

// saved is the bytes of forward values alive when the backward half begins.
func (s *schedule) saved() int64 {
	var n int64
	for i := range s.lives {
		if l := &s.lives[i]; l.root == int32(i) && !l.lower && l.first >= 0 && l.first < s.turn && l.last >= s.turn {
			n += l.bytes
		}
	}
	return n
}

// tier is where a life lies.
func (s *schedule) tier(l *life) mem.Tier {
	if l.lower {
		return s.away.tier
	}
	return mem.Device
}
