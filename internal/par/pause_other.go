//go:build (!amd64 && !arm64) || purego

package par

// pause is a short delay where there is no instruction for it.
func pause(n int) {
	for range 8 * n {
		relax()
	}
}

//go:noinline
func relax() {}
