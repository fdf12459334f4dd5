package main

import (
	"slices"
	"strings"

	"loadline/graph"
	"loadline/tensor/dtype"
)

// kvTypesHelp is the help of --kv-type.
const kvTypesHelp = "number formats `K,V` of keys and values, or one for both: f32, f16, bf16, q8_0, fp8 or q4_0"

// plainKV is its default.
const plainKV = "f32,f32"

// fp8 is what people call dtype.F8E4M3.
const fp8 = "fp8"

// kvWord is the word of --kv-type for a type.
func kvWord(t dtype.Type) string {
	if t == dtype.F8E4M3 {
		return fp8
	}
	return t.String()
}

// kvWords is --kv-type of types.
func kvWords(types [2]dtype.Type) string { return kvWord(types[0]) + "," + kvWord(types[1]) }

// kvTypes reads --kv-type.
func kvTypes(s string) (types [2]dtype.Type, err error) {
	words := strings.Split(s, ",")
	if len(words) == 1 {
		words = append(words, words[0])
	}
	var known []string
	for _, t := range graph.KVTypes() {
		known = append(known, kvWord(t))
	}
	for i, w := range words {
		k := slices.Index(known, strings.ToLower(strings.TrimSpace(w)))
		if k < 0 || len(words) > 2 {
			return types, usage("--kv-type q8_0,q8_0", "--kv-type %s: want K,V, each of them one of %s", s, strings.Join(known, " "))
		}
		types[i] = graph.KVTypes()[k]
	}
	return types, nil
}
