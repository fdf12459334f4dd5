package local

// tileElems is the length of the running sum that sumInto keeps on the stack: 4 KiB, well inside the first-level cache.
const tileElems = 1024

// sumInto stores in dst the sum of the sources, ((s0+s1)+s2)+…, each element on its own, in float32. There are at least two sources,
// each at least as long as dst. dst may be one of the sources, but not overlap one otherwise.
func sumInto(dst []float32, srcs [][]float32) {
	if len(srcs) == 2 {
		add(dst, srcs[0], srcs[1])
		return
	}
	var tile [tileElems]float32
	last := len(srcs) - 1
	for at := 0; at < len(dst); at += tileElems {
		end := min(at+tileElems, len(dst))
		acc := tile[:end-at]
		add(acc, srcs[0][at:end], srcs[1][at:end])
		for _, s := range srcs[2:last] {
			add(acc, acc, s[at:end])
		}
		add(dst[at:end], acc, srcs[last][at:end])
	}
}

// add is: for i := range dst { dst[i] = a[i] + b[i] }
//
// The loop takes eight elements at a time to keep the loop's own work off the critical path.
func add(dst, a, b []float32) {
	for len(dst) >= 8 && len(a) >= 8 && len(b) >= 8 {
		d, x, y := (*[8]float32)(dst), (*[8]float32)(a), (*[8]float32)(b)
		d[0] = x[0] + y[0]
		d[1] = x[1] + y[1]
		d[2] = x[2] + y[2]
		d[3] = x[3] + y[3]
		d[4] = x[4] + y[4]
		d[5] = x[5] + y[5]
		d[6] = x[6] + y[6]
		d[7] = x[7] + y[7]
		dst, a, b = dst[8:], a[8:], b[8:]
	}
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}
