package tier

import "loadline/mem"

// The moves between tiers. All run with p.mu held, decide at once, and leave the copying to the stream, whose order makes each see
// what those before it wrote.

// makeRoom gives item id a slot in the device tier, evicting another item if need be. Only if force may that be an item whose next
// use is no farther than id's. It reports whether it could.
func (p *Pool) makeRoom(id int, force bool) bool {
	it := &p.items[id]
	it.device = p.device.pop(it.class, id)
	if it.device >= 0 {
		return true
	}
	victim, farthest := -1, int64(0)
	for _, s := range p.device.occupants(it.class) {
		if p.items[s.item].pins > 0 {
			continue
		}
		if d := p.policy.Distance(int(s.item)); victim < 0 || d > farthest {
			victim, farthest = int(s.item), d
		}
	}
	if victim < 0 || !force && farthest <= p.policy.Distance(id) {
		return false
	}
	p.evict(victim, id)
	it.device = p.device.pop(it.class, id)
	return true
}

// evict takes item id out of the device tier, keeping its latest content below. The host copy of item coming, which is about to be
// fetched, stays.
func (p *Pool) evict(id, coming int) {
	it := &p.items[id]
	p.stats.Evictions++
	switch {
	case it.host >= 0: // equal: drop
	case p.makeHostRoom(id, coming):
		p.copyOut(it, Job{Store: &p.host.store, Write: true, Off: p.host.offset(it.class, it.host)})
	case it.stale:
		p.writeHome(it)
	}
	p.device.push(it.class, it.device)
	it.device = -1
}

// makeHostRoom gives item id a slot in the host tier, if an item there is worth less than it: one that is in the device tier as
// well, else one whose next use is farther.
func (p *Pool) makeHostRoom(id, coming int) bool {
	if p.host == nil {
		return false
	}
	it := &p.items[id]
	it.host = p.host.pop(it.class, id)
	if it.host >= 0 {
		return true
	}
	victim, farthest := -1, p.policy.Distance(id)
	for _, s := range p.host.occupants(it.class) {
		if int(s.item) == coming {
			continue
		}
		if p.items[s.item].device >= 0 {
			victim = int(s.item)
			break
		}
		if d := p.policy.Distance(int(s.item)); d > farthest {
			victim, farthest = int(s.item), d
		}
	}
	if victim < 0 {
		return false
	}
	v := &p.items[victim]
	if v.stale && v.device < 0 {
		p.writeHome(v)
	}
	p.dropHost(v)
	it.host = p.host.pop(it.class, id)
	return true
}

// fetch starts to fill item id's slot in the device tier from the nearest tier that has its content.
func (p *Pool) fetch(id int) {
	it := &p.items[id]
	j := Job{Store: p.home, Buf: p.deviceBytes(it), Off: it.home}
	if it.host >= 0 {
		j.Store, j.Off = &p.host.store, p.host.offset(it.class, it.host)
		p.stats.HostHits++
	} else {
		p.stats.HomeRead += mem.Bytes(it.bytes)
	}
	p.stats.BytesIn += mem.Bytes(it.bytes)
	p.device.slots[it.device].ticket = p.stream.Start(j)
}

// writeHome starts to write it to the home from the highest tier that holds it.
func (p *Pool) writeHome(it *item) {
	j := Job{Store: p.home, Write: true, Off: it.home}
	if it.device >= 0 {
		p.copyOut(it, j)
	} else {
		off := p.host.offset(it.class, it.host)
		j.Buf = p.host.buf[off : off+int64(it.bytes)]
		p.stream.Start(j)
	}
	p.stats.HomeWritten += mem.Bytes(it.bytes)
	it.stale = false
}

// copyOut starts j, a write of it from the device tier.
func (p *Pool) copyOut(it *item, j Job) {
	j.Buf = p.deviceBytes(it)
	p.device.slots[it.device].ticket = p.stream.Start(j)
	p.stats.BytesOut += mem.Bytes(it.bytes)
}

// dirty notes that the device tier's copy of it is the only latest one.
func (p *Pool) dirty(it *item) {
	p.dropHost(it)
	it.stale = true
}

// dropHost frees it's slot in the host tier, if it has one.
func (p *Pool) dropHost(it *item) {
	if it.host >= 0 {
		p.host.push(it.class, it.host)
		it.host = -1
	}
}

// deviceBytes returns the bytes of it in the device tier.
func (p *Pool) deviceBytes(it *item) []byte {
	off := p.device.offset(it.class, it.device)
	return p.device.buf[off : off+int64(it.bytes) : off+int64(it.bytes)]
}
