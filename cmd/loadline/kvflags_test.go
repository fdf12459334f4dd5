package main

import (
	"strings"
	"testing"

	"loadline/tensor/dtype"
)

func TestKVTypes(t *testing.T) {
	for s, want := range map[string][2]dtype.Type{
		"f32": {}, "f32,f32": {}, "f16": {dtype.F16, dtype.F16}, "q8_0,q4_0": {dtype.Q8_0, dtype.Q4_0}, "FP8, bf16": {dtype.F8E4M3, dtype.BF16},
	} {
		if got, err := kvTypes(s); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "f32,f32,f32", "q4_k", "f64", ",", "f16,"} {
		if got, err := kvTypes(s); err == nil || !strings.Contains(err.Error(), "f32 f16 bf16 q8_0 fp8 q4_0") {
			t.Errorf("%q: got %v, %v, want an error that names what there is", s, got, err)
		}
	}
}
