package quant

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLayout(t *testing.T) {
	for _, c := range []struct {
		config string
		want   Layout
	}{
		{`{"quant_method":"gptq","bits":4,"group_size":128,"desc_act":true,"sym":false,"checkpoint_format":"gptq_v2","damp_percent":0.01}`,
			Layout{Schemes: []Scheme{{Storage: "gptq", Bits: 4, GroupSize: 128, ActOrder: true, Format: "gptq_v2"}}}},
		{`{"quant_method":"gptq","bits":3,"group_size":-1,"dynamic":null}`, Layout{Schemes: []Scheme{{Storage: "gptq", Bits: 3, Symmetric: true}}}},
		{`{"quant_method":"awq","bits":4,"group_size":64,"zero_point":true,"version":"GEMM","modules_to_not_convert":["lm_head"]}`,
			Layout{Schemes: []Scheme{{Storage: "awq", Bits: 4, GroupSize: 64}}, Skip: []string{"lm_head"}}},
		{`{"quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic","weight_block_size":[128,64]}`,
			Layout{Schemes: []Scheme{{Storage: "float-quantized", Bits: 8, RowBlock: 128, GroupSize: 64, Symmetric: true, ScaleName: "weight_scale_inv"}}}},
		{`{"quant_method":"fp8","activation_scheme":"static","ignored_layers":["lm_head"]}`,
			Layout{Schemes: []Scheme{{Storage: "float-quantized", Bits: 8, PerTensor: true, Symmetric: true, ScaleName: "weight_scale"}}, Skip: []string{"lm_head"}}},
		{`{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4","bnb_4bit_use_double_quant":true,"llm_int8_skip_modules":["lm_head"]}`,
			Layout{Schemes: []Scheme{{Storage: "nf4", Bits: 4, Symmetric: true}}, Skip: []string{"lm_head"}}},
		{`{"quant_method":"mxfp4","modules_to_not_convert":["model.embed_tokens"]}`,
			Layout{Schemes: []Scheme{{Storage: "mxfp4", Bits: 4, GroupSize: 32, Symmetric: true}}, Skip: []string{"model.embed_tokens"}}},
		{`{"quant_method":"compressed-tensors","format":"pack-quantized","ignore":["lm_head"],"config_groups":{"group_0":{"targets":["Linear"],
			"weights":{"num_bits":4,"type":"int","symmetric":true,"strategy":"group","group_size":128,"actorder":"group"}}}}`,
			Layout{Schemes: []Scheme{{Storage: "pack-quantized", Targets: []string{"Linear"}, Bits: 4, GroupSize: 128, Symmetric: true, ActOrder: true, ScaleName: "weight_scale"}}, Skip: []string{"lm_head"}}},
		{`{"quant_method":"compressed-tensors","format":"mixed-precision","config_groups":{
			"b":{"targets":["re:.*down_proj"],"format":"naive-quantized","weights":{"num_bits":8,"type":"float","symmetric":true,"strategy":"channel"}},
			"a":{"targets":["Linear"],"format":"int-quantized","weights":{"num_bits":8,"type":"int","strategy":"tensor"}}}}`,
			Layout{Schemes: []Scheme{{Storage: "int-quantized", Targets: []string{"Linear"}, Bits: 8, PerTensor: true, ScaleName: "weight_scale"},
				{Storage: "float-quantized", Targets: []string{"re:.*down_proj"}, Bits: 8, Symmetric: true, ScaleName: "weight_scale"}}}},
		{`{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"g":{"weights":{"num_bits":8,"type":"float","symmetric":true,"strategy":"block","block_structure":[128,128]}}}}`,
			Layout{Schemes: []Scheme{{Storage: "float-quantized", Bits: 8, RowBlock: 128, GroupSize: 128, Symmetric: true, ScaleName: "weight_scale"}}}},
	} {
		got, err := ParseLayout([]byte(c.config))
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		if d := cmp.Diff(&c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.config, d)
		}
		for _, s := range got.Schemes {
			if len(s.Tensors()) < 2 {
				t.Errorf("%+v: tensors %q", s, s.Tensors())
			}
		}
	}
	s := Scheme{Storage: "pack-quantized", ActOrder: true}
	if d := cmp.Diff([]string{"weight_packed", "weight_scale", "weight_shape", "weight_g_idx", "weight_zero_point"}, s.Tensors()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestParseLayoutRefuses(t *testing.T) {
	for config, want := range map[string]string{
		`[]`:                       "cannot unmarshal",
		`{"quant_method":"quark"}`: `quant_method "quark" is not known`,
		`{}`:                       `quant_method "" is not known`,
		`{"quant_method":"gptq","bits":5,"group_size":128}`:                                                                                               "gptq of 5 bits",
		`{"quant_method":"gptq","bits":4,"group_size":0}`:                                                                                                 "group_size is 0",
		`{"quant_method":"gptq","bits":4,"group_size":128,"checkpoint_format":"marlin"}`:                                                                  `checkpoint_format "marlin" is not known`,
		`{"quant_method":"gptq","bits":4,"group_size":128,"dynamic":{"-:.*":{}}}`:                                                                         "dynamic overrides",
		`{"quant_method":"awq","bits":4,"group_size":128,"version":"gemv"}`:                                                                               `awq version "gemv"`,
		`{"quant_method":"fp8","fmt":"e5m2"}`:                                                                                                             `fp8 "e5m2"`,
		`{"quant_method":"fp8","weight_block_size":[128]}`:                                                                                                "weight_block_size is [128]",
		`{"quant_method":"bitsandbytes","load_in_8bit":true}`:                                                                                             "nf4 or fp4 only",
		`{"quant_method":"compressed-tensors"}`:                                                                                                           "no config_groups",
		`{"quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"}}`:                                                          `format "sparse-24-bitmask" are not read`,
		`{"quant_method":"compressed-tensors","format":"marlin-24","config_groups":{"g":{"weights":{"num_bits":4}}}}`:                                     `format "marlin-24" is not known (in g)`,
		`{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"weights":{"num_bits":9}}}}`:                                "of 9 bits",
		`{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":{"weights":{"num_bits":4}}}}`:                                 "of 4 bits",
		`{"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":{"weights":{"num_bits":8,"type":"int","strategy":"token"}}}}`: `strategy "token"`,
	} {
		if _, err := ParseLayout([]byte(config)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", config, err, want)
		}
	}
}

// FuzzParseLayout checks that any configuration is refused or gives schemes that layers can be read by.
func FuzzParseLayout(f *testing.F) {
	f.Add([]byte(`{"quant_method":"gptq","bits":4,"group_size":128,"desc_act":true}`))
	f.Add([]byte(`{"quant_method":"awq","bits":4,"group_size":-1,"version":"gemm"}`))
	f.Add([]byte(`{"quant_method":"fp8","weight_block_size":[128,128]}`))
	f.Add([]byte(`{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32}}}}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		l, err := ParseLayout(config)
		if err != nil {
			return
		}
		if len(l.Schemes) == 0 {
			t.Fatal("no scheme")
		}
		for _, s := range l.Schemes {
			if s.Bits < 1 || s.Bits > 8 || s.GroupSize < 0 || s.RowBlock < 0 || len(s.Tensors()) < 2 {
				t.Fatalf("got %+v", s)
			}
		}
	})
}
