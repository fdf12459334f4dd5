//go:build !amd64 || purego

package kernel

// Sets returns every set this CPU can run, slowest first; Generic is always among them.
func Sets() []Set { return []Set{Generic()} }
