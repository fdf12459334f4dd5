package sched

// Schedule fills the next pass, which is to be run and then given to Commit, or to be given up with Abort. An empty
// pass means that there is nothing to do until the next Add; it needs neither.
func (s *Scheduler) Schedule() Pass {
	if s.inFlight {
		panic("sched: Schedule before the last pass was committed")
	}
	s.pass.reset()
	preemptions := s.stats.Preemptions

	// Decodes. grow may cut sequences off the end of running: those that arrived later and were not placed yet.
	for i := 0; i < len(s.running); i++ {
		if q := s.running[i]; q.pending() == 1 && s.grow(q) {
			s.place(q, 1)
		}
	}
	// Prefills and those catching up; their blocks were taken on admission.
	for _, q := range s.running {
		if n := s.rowsFor(q); q.rows == 0 && n > 0 {
			s.place(q, n)
		}
	}
	// Admissions, not in a pass that had to preempt: what it freed is needed.
	for preemptions == s.stats.Preemptions && len(s.waiting) > 0 && s.rowsFor(s.waiting[0]) > 0 && s.admit(s.waiting[0]) {
		q := s.waiting[0]
		s.waiting = remove(s.waiting, q)
		q.state = stateRunning
		s.running = insert(s.running, q)
		s.slots += q.samples()
		s.place(q, s.rowsFor(q))
	}
	s.inFlight = !s.pass.Empty()
	return s.pass
}

// rowsFor returns how many rows of the pass the sequence would get.
func (s *Scheduler) rowsFor(q *Sequence) int {
	return min(q.pending(), s.o.PrefillChunk, s.o.MaxRows-len(s.pass.Tokens))
}

// grow gets the block that the next token of q goes to, and makes it safe to write. When the pool is dry it
// preempts whoever arrived last, and reports false if that was q itself.
func (s *Scheduler) grow(q *Sequence) bool {
	for {
		// At most one of the two needs a block: either the token opens a new block, or it goes into the last one.
		table, copies, ok := s.pool.Writable(q.table, q.Computed)
		if ok {
			q.table, ok = s.pool.Extend(table, q.Computed, 1)
		}
		if ok {
			s.pass.Copies = append(s.pass.Copies, copies...)
			return true
		}
		last := s.running[len(s.running)-1]
		if last.rows > 0 {
			panic("sched: no block for a sequence, and all that arrived later are in the pass")
		}
		s.preempt(last)
		if last == q {
			return false
		}
	}
}

// admit takes blocks for all tokens of a waiting sequence, those that are cached by reference.
func (s *Scheduler) admit(q *Sequence) bool {
	if s.slots+q.samples() > s.limit {
		return false
	}
	table, have := s.pool.Match(q.Tokens)
	need := s.pool.BlocksFor(len(q.Tokens)) - len(table)
	if len(s.running) > 0 { // the next block of everyone, so that this one is not preempted at once
		need += len(s.running) + q.samples() - 1
	}
	if need > s.pool.Available() {
		s.pool.Free(table)
		return false
	}
	if cap(q.table) == 0 {
		q.Cached = have
	}
	s.start(q)
	q.table, _ = s.pool.Extend(append(q.table, table...), have, len(q.Tokens)-have)
	q.Computed = have
	s.stats.PrefixQueries += int64(len(q.Tokens))
	s.stats.PrefixHits += int64(have)
	return true
}

// place appends the next n tokens of q to the pass.
func (s *Scheduler) place(q *Sequence, n int) {
	p, size, i := &s.pass, s.pool.BlockSize(), len(s.pass.Seqs)
	for pos := q.Computed; pos < q.Computed+n; pos++ {
		p.Tokens = append(p.Tokens, q.Tokens[pos])
		p.Positions = append(p.Positions, int32(pos))
		p.RowSeq = append(p.RowSeq, int32(i))
		p.Slots = append(p.Slots, int32(q.table[pos/size])*int32(size)+int32(pos%size))
	}
	p.Seqs = append(p.Seqs, q)
	p.Starts = append(p.Starts, int32(len(p.Tokens)))
	p.Lens = append(p.Lens, int32(q.Computed+n))

	p.Tables = p.Tables[:(i+1)*p.Width]
	row := p.Tables[i*p.Width:]
	for j, b := range q.table {
		row[j] = int32(b)
	}
	for j := len(q.table); j < s.widths[i]; j++ {
		row[j] = noBlock
	}
	s.widths[i] = len(q.table)

	if q.Computed+n == len(q.Tokens) {
		for k := range q.samples() {
			out := q
			if !q.req.forked {
				out = q.req.seqs[k]
			}
			p.Outs = append(p.Outs, int32(len(p.Tokens)-1))
			p.OutSeqs = append(p.OutSeqs, out)
		}
	}
	q.rows = n
}
