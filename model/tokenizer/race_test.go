//go:build race

package tokenizer

// raceFactor loosens limits on time under the race detector, which slows code about tenfold.
const raceFactor = 10
