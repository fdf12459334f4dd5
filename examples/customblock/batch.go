package main

import (
	"encoding/binary"
	"math/rand/v2"

	"loadline/graph"
)

// start gives vectors ones and matrices small normal numbers.
func start(rng *rand.Rand, s graph.Shape) []byte {
	v := make([]float32, s.Elems(graph.Bounds{})) //mem:ok a tiny model's largest tensor
	for i := range v {
		if v[i] = 1; s.N > 1 {
			v[i] = float32(rng.NormFloat64() * 0.05)
		}
	}
	return encode(v)
}

// sample makes a batch to learn: sequences that walk around the vocabulary in equal strides.
func sample(rng *rand.Rand) (tokens, targets, sequences, positions, table []int32) {
	for b := range int32(batch) {
		at, stride := rng.Int32N(vocab), 1+rng.Int32N(4)
		for i := range int32(seq) {
			tokens, targets = append(tokens, at), append(targets, (at+stride)%vocab)
			sequences, positions = append(sequences, b), append(positions, i)
			at = (at + stride) % vocab
		}
		table = append(table, b)
	}
	return
}

func encode(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic("customblock: " + err.Error())
	}
	return b
}
