//go:build !race

package tokenizer

// raceFactor loosens limits on time under the race detector.
const raceFactor = 1
