package tokenizer

// trie holds tokens by their bytes. Its nodes are numbered level by level, and the children of a node stand one after another in the
// order of their bytes: a node says only where its children begin, and they end where those of the next node do. So a node takes eight
// bytes, and most steps touch one place of memory.
type trie struct {
	nodes []trieNode // and one more
	root  [256]int32 // the children of the first node
}

// trieNode is a node: its first child; and one more than the token that ends there, times 256, and the byte that leads to it.
type trieNode struct {
	first int32
	tag   uint32
}

// trieNodeBytes is the size of a trieNode.
const trieNodeBytes = 8

// Tokens, and none, take 24 bits of a tag.
var _ [1<<24 - 1 - maxVocab]struct{}

func (n trieNode) label() byte { return byte(n.tag) }

// id is the token that ends at a node, -1 without one.
func (t *trie) id(node int32) int32 { return int32(t.nodes[node].tag>>8) - 1 }

// fewChildren is up to how many children are looked through one by one; among more, the search is binary.
const fewChildren = 6

// newTrie returns a trie of the tokens for which has holds. The last of tokens with one text stays.
func newTrie(v *vocab, has func(id int32) bool) trie {
	n := 0
	for id := range int32(v.size()) {
		if has(id) {
			n++
		}
	}
	list := make([]int32, 0, n) //mem:ok four bytes a token, freed on return
	for id := range int32(v.size()) {
		if has(id) {
			list = append(list, id)
		}
	}
	t := trie{nodes: []trieNode{{}}}
	// Level by level, each node has the tokens that begin with its bytes, which are sorted by the byte after them.
	type run struct{ from, to int32 }
	other := make([]int32, n) //mem:ok four bytes a token, freed on return
	level, next := []run{{0, int32(n)}}, []run(nil)
	for depth, node := 0, 0; len(level) > 0; depth++ {
		next = next[:0]
		for _, r := range level {
			t.nodes[node].first = int32(len(t.nodes))
			if r.to-r.from == 1 {
				id := list[r.from]
				if w := v.token(id); len(w) == depth {
					t.end(node, id)
				} else {
					t.nodes = append(t.nodes, trieNode{tag: uint32(w[depth])})
					next = append(next, r)
				}
				node++
				continue
			}
			var ends [257]int32 // of the tokens that end here, and then by byte
			for _, id := range list[r.from:r.to] {
				if w := v.token(id); len(w) == depth {
					ends[0]++
					t.end(node, id)
				} else {
					ends[int(w[depth])+1]++
				}
			}
			node++
			if ends[0] == r.to-r.from {
				continue
			}
			from := r.from + ends[0]
			at := ends // where the next token goes
			at[0] = r.from
			for c := range 256 {
				if k := ends[c+1]; k > 0 {
					t.nodes = append(t.nodes, trieNode{tag: uint32(c)})
					next = append(next, run{from, from + k})
				}
				at[c+1] = from
				from += ends[c+1]
			}
			for _, id := range list[r.from:r.to] {
				key := 0
				if w := v.token(id); len(w) > depth {
					key = int(w[depth]) + 1
				}
				other[at[key]] = id
				at[key]++
			}
			copy(list[r.from:r.to], other[r.from:r.to])
		}
		level, next = next, level
	}
	t.nodes = append(t.nodes, trieNode{first: int32(len(t.nodes))})
	for c := range t.root {
		t.root[c] = t.search(0, byte(c))
	}
	return t
}

// end makes a token end at a node.
func (t *trie) end(node int, id int32) {
	t.nodes[node].tag = uint32(id+1)<<8 | uint32(t.nodes[node].label())
}

// child returns the node after a node by a byte, or -1.
func (t *trie) child(node int32, c byte) int32 {
	if node == 0 {
		return t.root[c]
	}
	return t.search(node, c)
}

func (t *trie) search(node int32, c byte) int32 {
	lo, hi := t.nodes[node].first, t.nodes[node+1].first
	for hi-lo > fewChildren {
		if mid := int32(uint32(lo+hi) / 2); t.nodes[mid].label() <= c {
			lo = mid
		} else {
			hi = mid
		}
	}
	for ; lo < hi; lo++ {
		if t.nodes[lo].label() == c {
			return lo
		}
	}
	return -1
}

func (t *trie) heapBytes() int64 {
	return trieNodeBytes * int64(cap(t.nodes))
}

// find returns the token with that text, or -1.
func (t *trie) find(text []byte) int32 {
	node := int32(0)
	for _, c := range text {
		if node = t.child(node, c); node < 0 {
			return -1
		}
	}
	return t.id(node)
}
