//go:build !invariants

package e2e

// poisoned tells whether dead memory is overwritten in this build.
const poisoned = false
