package convert

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/tensor/quant"
)

// Every tensor has the type that llama-quantize gives it.
func TestMixtures(t *testing.T) {
	body, err := os.ReadFile("testdata/mixtures.json")
	if err != nil {
		t.Fatal(err)
	}
	var models map[string]struct {
		Arch   string
		Meta   map[string]uint32
		Shapes map[string][]int64                     // by name, with a * for the layer
		Types  map[string]map[string]map[string][]int // mixture, name, type: layers, −1 outside of them
	}
	if err := json.Unmarshal(body, &models); err != nil {
		t.Fatal(err)
	}
	for name, m := range models {
		meta := gguf.Metadata{{Key: "general.architecture", Value: m.Arch}}
		for k, v := range m.Meta {
			meta.Set(m.Arch+"."+k, v)
		}
		for mix, names := range m.Types {
			var tensors []*tensor
			want := map[string]string{}
			for pattern, kinds := range names {
				for kind, layers := range kinds {
					for _, l := range layers {
						n := strings.Replace(pattern, "*", strconv.Itoa(l), 1)
						want[n] = kind
						tensors = append(tensors, &tensor{name: n, shape: m.Shapes[pattern], from: quant.F32})
					}
				}
			}
			o := Options{Out: "out.gguf", To: GGUF, Type: strings.ToUpper(mix), Buffer: make([]byte, MinBuffer)}
			if err := o.Validate(); err != nil {
				t.Fatal(err)
			}
			if err := o.choose(tensors, meta); err != nil {
				t.Fatal(err)
			}
			for _, x := range tensors {
				if got := x.to.String(); got != want[x.name] {
					t.Errorf("%s, %s: %s is %s, want %s", name, mix, x.name, got, want[x.name])
				}
			}
		}
	}
	if len(models) != 10 || len(models["llama"].Types) != len(Mixtures()) {
		t.Errorf("got %d models and %d mixtures of the first", len(models), len(models["llama"].Types))
	}
	o := Options{Out: "out", To: Safetensors, Type: "q4_k_m", Buffer: make([]byte, MinBuffer)}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "safetensors files have f32, f16 or bf16") {
		t.Errorf("to safetensors: got %v", err)
	}
}

// A mixture is written and read, and says which it is; biases of experts are no matrices.
func TestMixtureFiles(t *testing.T) {
	for _, dir := range []string{"qwen3", "gpt_oss"} {
		in := t.TempDir()
		for _, name := range []string{configName, safetensors.ModelName} {
			body, err := os.ReadFile("../testdata/arch/" + dir + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, in+"/"+name, bytes.Replace(body, []byte(`"swiglu_limit": 0.5`), []byte(`"swiglu_limit": 7.0`), 1)) // as GGUF has it
		}
		out := t.TempDir() + "/" + dir + ".gguf"
		r := convert(t, in, out, GGUF, "q4_k_m")
		for _, x := range r.Tensors {
			if strings.HasSuffix(x.Name, "bias") && x.To != "f32" {
				t.Errorf("%s: %s is %s, want f32", dir, x.Name, x.To)
			}
		}
		f, err := gguf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := f.Meta().Int(fileTypeKey); n != 15 {
			t.Errorf("%s: got file type %d, want 15", dir, n)
		}
		f.Close()
		open(t, out)
	}
}
