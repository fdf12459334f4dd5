package collective

import (
	"encoding/binary"
	"fmt"
)

// BroadcastMessage returns root's p on every rank, where the others do not know its length: a compiled plan, a configuration. The
// others' p is ignored. A message longer than maxBytes is an error on every rank, before anything is allocated. The result is new
// memory, except on root.
func BroadcastMessage(g Group, p []byte, root, maxBytes int) ([]byte, error) {
	var head [8]byte
	if g.Rank() == root {
		binary.LittleEndian.PutUint64(head[:], uint64(len(p)))
	}
	if err := g.Broadcast(head[:], root); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(head[:])
	if n > uint64(maxBytes) {
		return nil, fmt.Errorf("collective: message of rank %d: want at most %d bytes, got %d", root, maxBytes, n)
	}
	if g.Rank() != root {
		p = make([]byte, n) //mem:ok at most maxBytes, which the caller sets
	}
	if err := g.Broadcast(p, root); err != nil {
		return nil, err
	}
	return p, nil
}

// AllGatherMessages returns every rank's p, of whatever length, in rank order, on every rank: a report, an error's text. A message
// longer than maxBytes is an error on every rank. It allocates Size()+1 times the longest message.
func AllGatherMessages(g Group, p []byte, maxBytes int) ([][]byte, error) {
	var head [8]byte
	binary.LittleEndian.PutUint64(head[:], uint64(len(p)))
	heads := make([]byte, 8*g.Size()) //mem:ok 8 bytes a rank
	if err := g.AllGatherBytes(heads, head[:]); err != nil {
		return nil, err
	}
	longest := 0
	lengths := make([]int, g.Size())
	for r := range lengths {
		n := binary.LittleEndian.Uint64(heads[8*r:])
		if n > uint64(maxBytes) {
			return nil, fmt.Errorf("collective: message of rank %d: want at most %d bytes, got %d", r, maxBytes, n)
		}
		lengths[r] = int(n)
		longest = max(longest, int(n))
	}
	padded := make([]byte, longest) //mem:ok at most maxBytes, which the caller sets
	copy(padded, p)
	all := make([]byte, longest*g.Size()) //mem:ok at most Size()·maxBytes
	if err := g.AllGatherBytes(all, padded); err != nil {
		return nil, err
	}
	out := make([][]byte, g.Size())
	for r, n := range lengths {
		out[r] = all[r*longest:][:n:n]
	}
	return out, nil
}
