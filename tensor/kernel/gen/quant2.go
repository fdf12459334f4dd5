package main

// quantRows2 is the rows of activations of a micro-kernel of 256 bits.
const quantRows2 = 4

func quantize2()                        {}
func newQuant2(format string, rows int) {}
