package cpu

// body is one range of a loop over independent units. worker picks a workspace.
type body interface {
	do(s *Session, lo, hi, worker int)
}

// loop is a loop over n units in chunks of grain; it is the pool's task.
type loop struct {
	s        *Session
	n, grain int
	body     body
}

// Run does chunk i.
func (l *loop) Run(i, worker int) {
	l.body.do(l.s, i*l.grain, min(i*l.grain+l.grain, l.n), worker)
}

// Grains: the elements that are worth a chunk of their own, and the columns of a sum over rows (two cache lines).
const (
	grainElems = 16 << 10
	grainCols  = 32
)

// each runs b over n units, grain at a time.
func (s *Session) each(n, grain int, b body) {
	grain = max(grain, 1)
	s.loop = loop{s, n, grain, b}
	s.pool.DoTask((n+grain-1)/grain, &s.loop)
}

// elems runs b over n elements.
func (s *Session) elems(n int, b body) { s.each(n, grainElems, b) }

// rows runs b over n rows of width elements.
func (s *Session) rows(n, width int, b body) { s.each(n, grainElems/max(width, 1), b) }

// cols runs b over the columns of a sum over rows.
func (s *Session) cols(n int, b body) {
	grain := (n/(2*s.pool.Threads()) + grainCols - 1) / grainCols * grainCols
	s.each(n, max(grain, grainCols), b)
}

// copyTask copies elements: what an operation does first whose result does not lie in its operand's place.
type copyTask struct{ dst, src floats }

func (c *copyTask) do(s *Session, lo, hi, _ int) {
	if c.src.absent() {
		c.dst.clear(lo, hi)
		return
	}
	c.dst.copy(s, lo, c.src, lo, hi-lo, nil) // of one type
}

// carry makes dst begin as src, or as zeros where src is nil. It does nothing where they are the same memory.
func (s *Session) carry(c *copyTask, dst, src []float32) {
	s.carryF(c, floats{f: dst}, floats{f: src})
}

// carryF is carry of floats of one type.
func (s *Session) carryF(c *copyTask, dst, src floats) {
	if dst.len() == 0 || dst.same(src) {
		return
	}
	c.dst, c.src = dst, src
	s.elems(dst.len(), c)
}

// same tells whether a and b begin at one address.
func same(a, b []float32) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
