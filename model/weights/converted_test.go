package weights

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loadline/graph"
	"loadline/model"
	"loadline/model/safetensors"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// architecture makes the directory of one of the models that transformers made.
func architecture(t testing.TB, name string) string {
	t.Helper()
	from, file := filepath.Join("../testdata/arch", name), safetensors.ModelName
	if name == "gpt2" {
		return directory(t, name)
	}
	dir := t.TempDir()
	for _, n := range []string{configName, file} {
		p, err := os.ReadFile(filepath.Join(from, n))
		if err != nil {
			t.Fatal(err)
		}
		if name == "qwen3_moe" && n == configName { // see testdata/generate.py
			p = regexp.MustCompile(`"num_hidden_layers": \d+`).ReplaceAll(p, []byte(`"num_hidden_layers": 1`))
			p = regexp.MustCompile(`(?s)"mlp_only_layers": \[[^]]*\]`).ReplaceAll(p, []byte(`"mlp_only_layers": []`))
			p = regexp.MustCompile(`(?s)"layer_types": \[[^]]*\],`).ReplaceAll(p, nil)
		}
		write(t, filepath.Join(dir, n), p)
	}
	return dir
}

// What llama.cpp's own converter makes of a model is read as the model that it was made from: every weight to the bit, and every part
// of the configuration that files keep.
func TestConvertedByLlamaCpp(t *testing.T) {
	files, err := filepath.Glob("testdata/*.gguf")
	if err != nil || len(files) < 14 {
		t.Fatalf("got %v, %v, want at least 14 files", files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".gguf")
		t.Run(name, func(t *testing.T) {
			want, got := open(t, architecture(t, name)), open(t, file)
			a, b := got.Config, want.Config
			same(&a, &b)
			if !reflect.DeepEqual(a, b) {
				t.Errorf("got %+v\nwant %+v", a, b)
			}
			for _, p := range want.Config.Parameters() {
				x, y := f32(t, got, p), f32(t, want, p)
				if strings.HasPrefix(name, "gemma") && strings.HasSuffix(p.Name, "norm.weight") {
					close(t, p.Name, x, y)
				} else if !bytes.Equal(x, y) {
					t.Errorf("%q differs", p.Name)
				}
			}
		})
	}
}

// same takes from both configurations what a GGUF file does not have: the tokens are in its vocabulary, of which these have none; the
// scale of queries, patterns of windows and of layers without positions, and gpt-oss' limit, are those of the models that llama.cpp
// knows; windows of Llama and Qwen are not kept, nor are the bounds of Llama 3's scaling but for what it makes of the frequencies.
func same(got, want *model.Config) {
	if want.RopeScaling.Type == model.Llama3Rope && got.RopeScaling.Type == model.LongRope {
		a, _ := got.Rope(0, 32)
		b, _ := want.Rope(0, 32)
		if alike(a, b) {
			got.RopeScaling = want.RopeScaling
		}
	}
	for _, c := range []*model.Config{got, want} {
		c.EOSTokenIDs, c.BOSTokenID = nil, -1
		c.RopeScaling.AttentionFactor = 0
		c.SwiGLULimit = 0
		c.NoRopeLayers = nil
		if c.ModelType == "gemma3_text" {
			c.LayerTypes = nil
		}
	}
	if strings.HasPrefix(want.ModelType, "gemma") {
		want.QueryPreAttnScalar = float64(want.HeadDim)
	}
	if got.SlidingWindow == 0 {
		want.SlidingWindow, want.LayerTypes, got.LayerTypes = 0, nil, nil
	}
}

// close checks norms of Gemma, from which 1 was taken after it had been added in float32.
func close(t *testing.T, name string, got, want []byte) {
	t.Helper()
	x, y := make([]float32, len(got)/4), make([]float32, len(got)/4)
	quant.Decode(x, quant.F32, got)
	quant.Decode(y, quant.F32, want)
	for i := range x {
		if d := x[i] - y[i]; d > 1e-7 || d < -1e-7 {
			t.Fatalf("%q at %d: got %v, want %v", name, i, x[i], y[i])
		}
	}
}

// gpt-oss' experts in blocks are what tensor/quant makes of the two tensors, and are handed out as blocks.
func TestMXFP4(t *testing.T) {
	dir := architecture(t, "gpt_oss")
	plain := open(t, dir)
	c := plain.Config
	all := read(t, dir)
	r := rand.New(rand.NewPCG(5, 6))
	replace := map[string][]entry{}
	values := map[string][]float32{} // (E, outputs, inputs)
	for name, m := range all {
		if !strings.HasSuffix(name, "experts.gate_up_proj") {
			continue
		}
		e, k, n := m.shape[0], m.shape[1], m.shape[2]
		if k%32 != 0 {
			t.Fatalf("%s of %v: want blocks of 32", name, m.shape)
		}
		codes, scales := words(r, int(e*n*k/8)), words(r, int(e*n*k/128))
		for i := range scales {
			scales[i] = 120 + scales[i]%8
		}
		x := make([]float32, e*n*k)
		quant.DecodeMX4(x, codes, scales)
		values[name] = x
		replace[name] = []entry{
			tensorOf(name+"_blocks", safetensors.U8, codes, e, n, k/32, 16), tensorOf(name+"_scales", safetensors.U8, scales, e, n, k/32),
		}
	}
	quantised(t, dir, map[string]any{"quant_method": "mxfp4"}, replace)
	m := open(t, dir)
	for _, p := range c.Parameters() {
		name := p.Pieces[0].Name
		x, ok := values[name]
		if !ok {
			if !bytes.Equal(f32(t, m, p), f32(t, plain, p)) {
				t.Errorf("%q differs", p.Name)
			}
			continue
		}
		e, n, k := all[name].shape[0], all[name].shape[2], all[name].shape[1]
		first := int64(0)
		if strings.HasSuffix(p.Name, ".up_proj") {
			first = 1
		}
		var want []float32
		for i := range e {
			for row := first; row < n; row += 2 {
				want = append(want, x[(i*n+row)*k:(i*n+row+1)*k]...)
			}
		}
		wide := make([]byte, 4*len(want))
		if err := quant.Encode(wide, quant.F32, want); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(f32(t, m, p), wide) {
			t.Errorf("%q differs", p.Name)
		}
		if m.Types[p.Name] != dtype.MXFP4 {
			t.Fatalf("%q: got type %v", p.Name, m.Types[p.Name])
		}
		blocks := make([]byte, len(want)/32*17)
		for at := 0; at < len(blocks); {
			n := min(17*7, len(blocks)-at)
			if err := m.Source(p.Name, blocks[at:at+n]); err != nil {
				t.Fatal(err)
			}
			at += n
		}
		back := make([]float32, len(want))
		if quant.Decode(back, quant.MXFP4, blocks); !slices.Equal(back, want) {
			t.Errorf("%q: blocks differ", p.Name)
		}
	}
	for _, x := range []string{"_blocks", "_scales"} {
		short := map[string][]entry{}
		for name, list := range replace {
			short[name] = slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return strings.HasSuffix(e.Name, x) })
		}
		dir := architecture(t, "gpt_oss")
		quantised(t, dir, map[string]any{"quant_method": "mxfp4"}, short)
		if m, err := Open(dir); err == nil {
			t.Error(fmt.Errorf("without %s: opened", x), m.Close())
		}
	}
}

// alike tells whether two rotations have the same frequencies, to what a float32 of them keeps.
func alike(a, b graph.Rope) bool {
	x, y := a.Divisors.Values(), b.Divisors.Values()
	a.Divisors, b.Divisors = "", ""
	for _, r := range []*graph.Rope{&a, &b} {
		r.Magnitude = max(r.Magnitude, 1) // 0 is 1
	}
	return a == b && slices.EqualFunc(x, y, func(v, w float64) bool { return math.Abs(v-w) <= 1e-6*w })
}
