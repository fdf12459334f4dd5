package convert

import (
	"path/filepath"
	"reflect"
	"testing"

	"loadline/model/weights"
	"loadline/tensor/quant"
)

// What a model's makers say of sampling is in the GGUF file that is made of it, and in the directory that is made of that.
func TestSampling(t *testing.T) {
	for body, want := range map[string]weights.Sampling{
		`{"do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.1}`: {
			Temperature: ptr(0.6), TopP: ptr(0.95), TopK: ptr(20), Repetition: ptr(1.1), Sample: ptr(true),
		},
		`{"do_sample": false, "temperature": 0.6}`: {Sample: ptr(false)},
		`{"eos_token_id": 0}`:                      {},
	} {
		dir := directory(t, "dense", quant.F32)
		write(t, filepath.Join(dir, generationName), []byte(body))
		file, back := filepath.Join(t.TempDir(), "a.gguf"), filepath.Join(t.TempDir(), "b")
		convert(t, dir, file, GGUF, "")
		convert(t, file, back, Safetensors, "")
		got, err := open(t, back).Sampling()
		if got.From = ""; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", body, got, err, want)
		}
	}
}

func ptr[T any](x T) *T { return &x }
