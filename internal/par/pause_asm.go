//go:build (amd64 || arm64) && !purego

package par

// pause tells the processor n times, n >= 1, that this is a spin loop: it saves power and leaves the
// cache line to the thread that will write it.
//
//go:noescape
func pause(n int)
