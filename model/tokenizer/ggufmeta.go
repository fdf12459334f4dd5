package tokenizer

import "fmt"

// NewGGUF collects a vocabulary from the metadata of a GGUF file, of which get returns the value of a key, or false: a number, text or
// flag of Go, or a slice of one. A value of another type than the key's is an error.
func NewGGUF(get func(key string) (any, bool)) (*GGUF, error) {
	g := &GGUF{}
	for key, into := range map[string]any{
		"tokenizer.ggml.model": &g.Model, "tokenizer.ggml.pre": &g.Pre, "tokenizer.ggml.tokens": &g.Tokens, "tokenizer.ggml.scores": &g.Scores,
		"tokenizer.ggml.token_type": &g.Types, "tokenizer.ggml.merges": &g.Merges, "tokenizer.ggml.bos_token_id": &g.BOS,
		"tokenizer.ggml.eos_token_id": &g.EOS, "tokenizer.ggml.unknown_token_id": &g.Unknown, "tokenizer.ggml.seperator_token_id": &g.Separator,
		"tokenizer.ggml.add_bos_token": &g.AddBOS, "tokenizer.ggml.add_eos_token": &g.AddEOS,
		"tokenizer.ggml.add_space_prefix": &g.AddSpacePrefix, "tokenizer.ggml.remove_extra_whitespaces": &g.RemoveExtraWhitespaces,
		"tokenizer.ggml.normalizer.lowercase": &g.Lowercase, "tokenizer.ggml.normalizer.strip_accents": &g.StripAccents,
		"tokenizer.ggml.precompiled_charsmap": &g.Charsmap, "general.name": &g.Name, "general.architecture": &g.Architecture,
	} {
		v, ok := get(key)
		if !ok {
			continue
		}
		switch into := into.(type) {
		case *string:
			*into, ok = v.(string)
		case *[]string:
			*into, ok = v.([]string)
		case *[]float32:
			*into, ok = floats(v)
		case *[]int32:
			*into, ok = smallInts(v)
		case *[]byte:
			*into, ok = rawBytes(v)
		case **bool:
			var b bool
			b, ok = v.(bool)
			*into = &b
		case **int64:
			var n int64
			n, ok = anyInt(v)
			*into = &n
		}
		if !ok {
			return nil, fmt.Errorf("tokenizer: %s has type %T", key, v)
		}
	}
	return g, nil
}

func anyInt(v any) (int64, bool) {
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
		return int64(min(v, 1<<62)), true
	case int64:
		return v, true
	}
	return 0, false
}

func floats(v any) ([]float32, bool) {
	switch v := v.(type) {
	case []float32:
		return v, true
	case []int32:
		f := make([]float32, len(v)) //mem:ok bounded by the file
		for i, n := range v {
			f[i] = float32(n)
		}
		return f, true
	}
	return nil, false
}

func smallInts(v any) ([]int32, bool) {
	switch v := v.(type) {
	case []int32:
		return v, true
	case []uint32:
		n := make([]int32, len(v)) //mem:ok bounded by the file
		for i, x := range v {
			n[i] = int32(x)
		}
		return n, true
	}
	return nil, false
}

func rawBytes(v any) ([]byte, bool) {
	switch v := v.(type) {
	case []uint8:
		return v, true
	case []int8:
		b := make([]byte, len(v)) //mem:ok bounded by the file
		for i, x := range v {
			b[i] = byte(x)
		}
		return b, true
	}
	return nil, false
}
