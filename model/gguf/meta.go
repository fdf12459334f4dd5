package gguf

import (
	"fmt"
	"math"
	"slices"
)

// KV is a key and its value, which has one of the types uint8, int8, uint16, int16, uint32, int32, uint64, int64, float32, float64, bool
// and string, or is a slice of one of them.
type KV struct {
	Key   string
	Value any
}

// Metadata is the keys of a file, in its order.
type Metadata []KV

// Kinds of values, by their numbers in a file.
const (
	kindU8 = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindF32
	kindBool
	kindString
	kindArray
	kindU64
	kindI64
	kindF64
	numKinds
)

// kindBytes is the least that a value of a kind takes in a file.
var kindBytes = [numKinds]int64{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8}

var kindNames = [numKinds]string{"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64"}

// kindOf returns the kind of a value, or of the elements of a slice and their number.
func kindOf(v any) (kind int, array bool, n int, ok bool) {
	switch v := v.(type) {
	case uint8:
		return kindU8, false, 1, true
	case int8:
		return kindI8, false, 1, true
	case uint16:
		return kindU16, false, 1, true
	case int16:
		return kindI16, false, 1, true
	case uint32:
		return kindU32, false, 1, true
	case int32:
		return kindI32, false, 1, true
	case float32:
		return kindF32, false, 1, true
	case bool:
		return kindBool, false, 1, true
	case string:
		return kindString, false, 1, true
	case uint64:
		return kindU64, false, 1, true
	case int64:
		return kindI64, false, 1, true
	case float64:
		return kindF64, false, 1, true
	case []uint8:
		return kindU8, true, len(v), true
	case []int8:
		return kindI8, true, len(v), true
	case []uint16:
		return kindU16, true, len(v), true
	case []int16:
		return kindI16, true, len(v), true
	case []uint32:
		return kindU32, true, len(v), true
	case []int32:
		return kindI32, true, len(v), true
	case []float32:
		return kindF32, true, len(v), true
	case []bool:
		return kindBool, true, len(v), true
	case []string:
		return kindString, true, len(v), true
	case []uint64:
		return kindU64, true, len(v), true
	case []int64:
		return kindI64, true, len(v), true
	case []float64:
		return kindF64, true, len(v), true
	}
	return 0, false, 0, false
}

// TypeName is how tools print the type of a value: u32, str, arr[f32,49152].
func TypeName(v any) string {
	kind, array, n, ok := kindOf(v)
	switch {
	case !ok:
		return fmt.Sprintf("%T", v)
	case array:
		return fmt.Sprintf("arr[%s,%d]", kindNames[kind], n)
	}
	return kindNames[kind]
}

// Get returns the value of a key.
func (m Metadata) Get(key string) (any, bool) {
	for i := range m {
		if m[i].Key == key {
			return m[i].Value, true
		}
	}
	return nil, false
}

// Text returns the value of a key that is a string.
func (m Metadata) Text(key string) (string, bool) {
	v, _ := m.Get(key)
	s, ok := v.(string)
	return s, ok
}

// Texts returns the value of a key that is a list of strings. It is shared: do not change it.
func (m Metadata) Texts(key string) ([]string, bool) {
	v, _ := m.Get(key)
	s, ok := v.([]string)
	return s, ok
}

// Flag returns the value of a key that is a truth value.
func (m Metadata) Flag(key string) (value, ok bool) {
	v, _ := m.Get(key)
	value, ok = v.(bool)
	return value, ok
}

// Int returns the value of a key that is an integer of any kind, as long as an int64 holds it.
func (m Metadata) Int(key string) (int64, bool) {
	v, _ := m.Get(key)
	return integer(v)
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case uint8:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint64:
		return int64(v), v <= math.MaxInt64
	case int64:
		return v, true
	}
	return 0, false
}

// Float returns the value of a key that is a number of any kind.
func (m Metadata) Float(key string) (float64, bool) {
	v, _ := m.Get(key)
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	case uint64:
		return float64(v), true
	}
	n, ok := integer(v)
	return float64(n), ok
}

// Ints returns the value of a key that is a list of integers of any kind, each of which an int64 holds; of a single one, that alone.
func (m Metadata) Ints(key string) ([]int64, bool) {
	v, _ := m.Get(key)
	switch v := v.(type) {
	case []uint8:
		return widen(v), true
	case []int8:
		return widen(v), true
	case []uint16:
		return widen(v), true
	case []int16:
		return widen(v), true
	case []uint32:
		return widen(v), true
	case []int32:
		return widen(v), true
	case []uint64:
		for _, x := range v {
			if x > math.MaxInt64 {
				return nil, false
			}
		}
		return widen(v), true
	case []int64:
		return slices.Clone(v), true
	}
	n, ok := integer(v)
	if !ok {
		return nil, false
	}
	return []int64{n}, true
}

func widen[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64](list []T) []int64 {
	wide := make([]int64, len(list)) //mem:ok as long as a list of a header that is in memory
	for i, x := range list {
		wide[i] = int64(x)
	}
	return wide
}

// Set gives a key a value, in its place where it has one.
func (m *Metadata) Set(key string, value any) {
	for i := range *m {
		if (*m)[i].Key == key {
			(*m)[i].Value = value
			return
		}
	}
	*m = append(*m, KV{key, value})
}

// Without returns the metadata but for some keys.
func (m Metadata) Without(keys ...string) Metadata {
	var rest Metadata
	for _, kv := range m {
		if !slices.Contains(keys, kv.Key) {
			rest = append(rest, kv)
		}
	}
	return rest
}
