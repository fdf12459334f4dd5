package tokenizer

// queue is a binary heap: pop takes the element that comes before all others.
type queue[T interface{ before(T) bool }] []T

func (q *queue[T]) push(x T) {
	s := append(*q, x)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = x
	*q = s
}

func (q *queue[T]) pop() T {
	s := *q
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	i := 0
	for {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if down+1 < len(s) && s[down+1].before(s[down]) {
			down++
		}
		if !s[down].before(last) {
			break
		}
		s[i] = s[down]
		i = down
	}
	if len(s) > 0 {
		s[i] = last
	}
	*q = s
	return top
}

// keys is a heap of numbers, of which pop takes the smallest: queue for the words that are encoded, where the calls of before would
// take most of the time.
type keys []uint64

func (q *keys) push(x uint64) {
	s := append(*q, x)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if x >= s[up] {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = x
	*q = s
}

func (q *keys) pop() uint64 {
	s := *q
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	for i := 0; len(s) > 0; {
		down := 2*i + 1
		if down+1 < len(s) && s[down+1] < s[down] {
			down++
		}
		if down >= len(s) || s[down] >= last {
			s[i] = last
			break
		}
		s[i] = s[down]
		i = down
	}
	*q = s
	return top
}
