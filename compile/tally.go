package compile

import "slices"

// blockInstrs is how many instructions a tally answers for at once.
const blockInstrs = 64

// rising is a number by instruction that is added to over stretches of instructions, and asked for its largest. A block's numbers are more larger than n
// says; most is the largest of them.
type rising struct {
	n          []int64
	more, most []int64 // by block
}

// level is a number by instruction that is set over stretches of instructions, and asked for its sum. Where even holds, a block's numbers are all alone[block]
// and n says nothing.
type level struct {
	n          []int64
	alone, all []int64 // by block: the one number, the sum
	even       []bool
}

func newRising(n int) rising {
	b := (n + blockInstrs - 1) / blockInstrs
	return rising{make([]int64, n), make([]int64, b), make([]int64, b)} //mem:ok planning runs before arenas are touched
}

func newLevel(n int) level {
	b := (n + blockInstrs - 1) / blockInstrs
	return level{make([]int64, n), make([]int64, b), make([]int64, b), make([]bool, b)} //mem:ok planning runs before arenas are touched
}

// parts calls whole for each block that first to last cover, and part for what they cover of others.
func parts(n int, first, last int32, whole func(block int), part func(block, lo, hi int)) {
	for lo, end := int(first), int(last)+1; lo < end; {
		b := lo / blockInstrs
		hi := min((b+1)*blockInstrs, n)
		if lo == b*blockInstrs && hi <= end {
			whole(b)
		} else {
			part(b, lo, min(hi, end))
		}
		lo = hi
	}
}

// fill sets all numbers.
func (r *rising) fill(n []int64) {
	copy(r.n, n)
	clear(r.more)
	for b := range r.most {
		r.most[b] = slices.Max(r.block(b))
	}
}

func (r *rising) block(b int) []int64 { return r.n[b*blockInstrs : min((b+1)*blockInstrs, len(r.n))] }

// add adds d to the numbers of first to last.
func (r *rising) add(first, last int32, d int64) {
	parts(len(r.n), first, last, func(b int) {
		r.more[b] += d
		r.most[b] += d
	}, func(b, lo, hi int) {
		for t := lo; t < hi; t++ {
			r.n[t] += d
		}
		r.most[b] = slices.Max(r.block(b)) + r.more[b]
	})
}

// over is the largest of the numbers of first to last.
func (r *rising) over(first, last int32) int64 {
	most := r.n[first] + r.more[first/blockInstrs]
	parts(len(r.n), first, last, func(b int) {
		most = max(most, r.most[b])
	}, func(b, lo, hi int) {
		most = max(most, slices.Max(r.n[lo:hi])+r.more[b])
	})
	return most
}

// clear sets all numbers to 0.
func (l *level) clear() {
	clear(l.alone)
	clear(l.all)
	for b := range l.even {
		l.even[b] = true
	}
}

// set sets the numbers of first to last to x.
func (l *level) set(first, last int32, x int64) {
	parts(len(l.n), first, last, func(b int) {
		l.even[b], l.alone[b], l.all[b] = true, x, x*int64(min(blockInstrs, len(l.n)-b*blockInstrs))
	}, func(b, lo, hi int) {
		if l.even[b] {
			l.even[b] = false
			for t := b * blockInstrs; t < min((b+1)*blockInstrs, len(l.n)); t++ {
				l.n[t] = l.alone[b]
			}
		}
		for t := lo; t < hi; t++ {
			l.all[b] += x - l.n[t]
			l.n[t] = x
		}
	})
}

// sum is the sum of the numbers of first to last.
func (l *level) sum(first, last int32) (sum int64) {
	parts(len(l.n), first, last, func(b int) {
		sum += l.all[b]
	}, func(b, lo, hi int) {
		if l.even[b] {
			sum += l.alone[b] * int64(hi-lo)
			return
		}
		for _, x := range l.n[lo:hi] {
			sum += x
		}
	})
	return sum
}
