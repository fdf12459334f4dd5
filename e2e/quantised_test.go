package e2e

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/mem"
	"loadline/model"
	"loadline/model/safetensors"
	"loadline/model/weights"
	"loadline/serve"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
	"loadline/tensor/quant"
)

// tensorOf is a tensor of a checkpoint in the making; what it is called goes behind a layer's name.
type tensorOf struct {
	name  string
	typ   safetensors.DType
	shape []int64
	data  []byte
}

// method is a way of quantising a linear layer (n,k).
type method struct {
	name   string
	config map[string]any
	layer  func(r *rand.Rand, n, k int) []tensorOf
	typ    dtype.Type // that its layers have in memory
	bits   float64    // of an element there, at most
	exact  bool       // rows are not rounded
	order  bool       // inputs are in an order of their own, which experts are not read in
}

// randomBits are words of codes; scales are small, so that what layers make stays small.
func randomBits(r *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func scales(r *rand.Rand, typ safetensors.DType, n int, most float32) []byte {
	p := make([]byte, 0, 4*n)
	for range n {
		x := most * (0.5 + 0.5*r.Float32())
		switch typ {
		case safetensors.F16:
			p = binary.LittleEndian.AppendUint16(p, dtype.ToF16(x))
		case safetensors.BF16:
			p = binary.LittleEndian.AppendUint16(p, dtype.ToBF16(x))
		default:
			p = binary.LittleEndian.AppendUint32(p, math.Float32bits(x))
		}
	}
	return p
}

func dims(d ...int) []int64 {
	out := make([]int64, len(d))
	for i, n := range d {
		out[i] = int64(n)
	}
	return out
}

// gptqLayer is a layer of bits in groups of 32; index gives elements to groups.
func gptqLayer(bits int, index func(r *rand.Rand, k int) []byte) func(r *rand.Rand, n, k int) []tensorOf {
	return func(r *rand.Rand, n, k int) []tensorOf {
		groups := k / 32
		return []tensorOf{
			{"qweight", safetensors.I32, dims(k*bits/32, n), randomBits(r, k*bits/8*n)},
			{"qzeros", safetensors.I32, dims(groups, n*bits/32), randomBits(r, groups*n*bits/8)},
			{"scales", safetensors.F16, dims(groups, n), scales(r, safetensors.F16, groups*n, 0.2/float32(int(1)<<bits))},
			{"g_idx", safetensors.I32, dims(k), index(r, k)},
		}
	}
}

func ascending(_ *rand.Rand, k int) []byte {
	var p []byte
	for i := range k {
		p = binary.LittleEndian.AppendUint32(p, uint32(i/32))
	}
	return p
}

// shuffled gives each group elements from anywhere.
func shuffled(r *rand.Rand, k int) []byte {
	var p []byte
	for _, i := range r.Perm(k) {
		p = binary.LittleEndian.AppendUint32(p, uint32(i/32))
	}
	return p
}

func compressed(format string, w map[string]any) map[string]any {
	return map[string]any{"quant_method": "compressed-tensors", "format": format, "ignore": []string{"lm_head"},
		"config_groups": map[string]any{"group_0": map[string]any{"targets": []string{"Linear"}, "weights": w}}}
}

func methods() []method {
	return []method{
		{"gptq v1", map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq"}, gptqLayer(4, ascending), dtype.G4_32, 6, false, false},
		{"gptq v2 of 8 bits", map[string]any{"quant_method": "gptq", "bits": 8, "group_size": 32, "checkpoint_format": "gptq_v2"}, gptqLayer(8, ascending), dtype.G8_32, 10, false, false},
		{"gptq, act-order", map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true}, gptqLayer(4, shuffled), dtype.G4_32, 6, false, true},
		{"awq", map[string]any{"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm", "modules_to_not_convert": []string{"lm_head"}}, func(r *rand.Rand, n, k int) []tensorOf {
			return []tensorOf{
				{"qweight", safetensors.I32, dims(k, n/8), randomBits(r, k*n/2)}, {"qzeros", safetensors.I32, dims(k/64, n/8), randomBits(r, k/64*n/2)},
				{"scales", safetensors.F16, dims(k/64, n), scales(r, safetensors.F16, k/64*n, 0.01)},
			}
		}, dtype.G4_64, 5, false, false},
		{"pack-quantized", compressed("pack-quantized", map[string]any{"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}), func(r *rand.Rand, n, k int) []tensorOf {
			return []tensorOf{
				{"weight_packed", safetensors.I32, dims(n, k/8), randomBits(r, n*k/2)}, {"weight_scale", safetensors.BF16, dims(n, k/128), scales(r, safetensors.BF16, n*k/128, 0.01)},
				{"weight_zero_point", safetensors.I32, dims(n/8, k/128), randomBits(r, n/2*k/128)}, {"weight_shape", safetensors.I64, dims(2), make([]byte, 16)},
			}
		}, dtype.G4_128, 4.5, false, false},
		{"int-quantized", compressed("int-quantized", map[string]any{"num_bits": 8, "type": "int", "symmetric": true, "strategy": "channel"}), func(r *rand.Rand, n, k int) []tensorOf {
			return []tensorOf{{"weight", safetensors.I8, dims(n, k), randomBits(r, n*k)}, {"weight_scale", safetensors.F32, dims(n, 1), scales(r, safetensors.F32, n, 0.001)}}
		}, dtype.G8_128, 8.5, false, false},
		{"fp8 blocks", map[string]any{"quant_method": "fp8", "weight_block_size": []int{128, 128}}, func(r *rand.Rand, n, k int) []tensorOf {
			blocks := (n + 127) / 128 * (k / 128)
			return []tensorOf{{"weight", safetensors.F8E4M3, dims(n, k), floats8(r, n*k)}, {"weight_scale_inv", safetensors.F32, dims((n+127)/128, k/128), scales(r, safetensors.F32, blocks, 0.01)}}
		}, dtype.F8_128, 8.25, true, false},
		{"float-quantized", compressed("float-quantized", map[string]any{"num_bits": 8, "type": "float", "symmetric": true, "strategy": "channel"}), func(r *rand.Rand, n, k int) []tensorOf {
			return []tensorOf{{"weight", safetensors.F8E4M3, dims(n, k), floats8(r, n*k)}, {"weight_scale", safetensors.BF16, dims(n, 1), scales(r, safetensors.BF16, n, 0.01)}}
		}, dtype.F8_128, 8.25, true, false},
		{"nf4 twice quantised", map[string]any{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}, nf4Layer, dtype.NF4_64, 4.5, true, false},
	}
}

// floats8 are numbers of E4M3, none of them NaN.
func floats8(r *rand.Rand, n int) []byte {
	p := randomBits(r, n)
	for i := range p {
		p[i] &= 0xcf // below 2⁵
	}
	return p
}

// nf4Layer is a layer of blocks of 64 whose scales are quantised again, 16 together.
func nf4Layer(r *rand.Rand, n, k int) []tensorOf {
	blocks := n * k / 64
	nested := (blocks + 15) / 16
	state := fmt.Sprintf(`{"quant_type":"nf4","blocksize":64,"nested_blocksize":16,"nested_offset":0.05,"shape":[%d,%d],"dtype":"bfloat16"}`, n, k)
	var values []byte
	for _, v := range quant.TableNF4.Values() {
		values = binary.LittleEndian.AppendUint32(values, math.Float32bits(v))
	}
	return []tensorOf{
		{"weight", safetensors.U8, dims(n*k/2, 1), randomBits(r, n*k/2)}, {"weight.quant_map", safetensors.F32, dims(16), values},
		{"weight.absmax", safetensors.U8, dims(blocks), randomBits(r, blocks)}, {"weight.nested_quant_map", safetensors.F32, dims(256), scales(r, safetensors.F32, 256, 1)},
		{"weight.nested_absmax", safetensors.F32, dims(nested), scales(r, safetensors.F32, nested, 0.05)},
		{"weight.quant_state.bitsandbytes__nf4", safetensors.U8, dims(len(state)), []byte(state)},
	}
}

// quantisable are models whose layers are published one by one, fused, and by experts.
func quantisable() []model.Config {
	c := dense(2)
	c.HiddenSize, c.HeadDim, c.IntermediateSize, c.TieWordEmbeddings = 128, 32, 256, false
	fused := c
	fused.ModelType = model.Phi3
	experts := c
	experts.ModelType, experts.NumLocalExperts, experts.NumExpertsPerTok = model.Mixtral, 4, 2
	return []model.Config{c, fused, experts}
}

// quantise writes a model with random layers in files of at most 100 KiB, and returns its directory. Embeddings, head, norms and routers
// are f16, and one projection too.
func quantise(t *testing.T, c model.Config, q method) string {
	t.Helper()
	dir := t.TempDir()
	text, err := model.EncodeConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	fields["quantization_config"] = q.config
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(11, uint64(len(q.name))))
	data := map[string][]byte{}
	var infos []safetensors.Info
	for _, p := range c.Parameters() {
		for _, piece := range p.Pieces {
			prefix := strings.TrimSuffix(piece.Name, "weight")
			all := []tensorOf{{"weight", safetensors.F16, dims(piece.Shape...), nil}}
			if quantises(p) {
				all = q.layer(r, piece.Shape[0], piece.Shape[1])
			} else {
				n := 1
				for _, d := range piece.Shape {
					n *= d
				}
				if all[0].data = scales(r, safetensors.F16, n, 1); p.Matrix() {
					for i := range n {
						all[0].data[2*i], all[0].data[2*i+1] = byte(r.Uint32()), byte(r.Uint32()&0x83|0x28) // ±2⁻⁵ to 2⁻³
					}
				}
			}
			for _, x := range all {
				if _, ok := data[prefix+x.name]; !ok {
					data[prefix+x.name] = x.data
					infos = append(infos, safetensors.Info{Name: prefix + x.name, DType: x.typ, Shape: x.shape})
				}
			}
		}
	}
	safetensors.Sort(infos)
	w, err := safetensors.CreateSharded(dir, infos, nil, 100<<10)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range w.Tensors() {
		if err := w.Write(i.Name, data[i.Name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// quantises tells which weights a quantised checkpoint has in groups.
func quantises(p model.Param) bool {
	return p.Matrix() && p.Layer != graph.Outside && p.Part != "moe.router" && p.Name != "model.layers.1.self_attn.o_proj.weight"
}

// logitsOf runs a prompt, and checks the bytes that it took.
func logitsOf(t *testing.T, m *weights.Model, dev device.Device, chunk int) (rows [][]float32, held mem.Bytes) {
	t.Helper()
	j := planOf(t, m, dev, chunk, 0)
	return runOf(t, m, dev, j), j.Promise.Peak[mem.Device][mem.Weights]
}

// planOf plans a short sequence inside a limit; 0 is none.
func planOf(t *testing.T, m *weights.Model, dev device.Device, chunk int, limit mem.Bytes) *serve.Job {
	t.Helper()
	j, err := serve.Plan(serve.Options{Config: m.Config, Types: m.Types, Context: 32, PrefillChunk: chunk, Outs: 1, Memory: limit}, dev)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// runOf is the logits of a prompt's last token, and of one token more.
func runOf(t *testing.T, m *weights.Model, dev device.Device, j *serve.Job) (rows [][]float32) {
	t.Helper()
	prompt := text()[300:311]
	m.Rewind()
	l := mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()})
	r, err := serve.NewRunner(j, dev, device.Env{Ledger: l}, m.Source)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(r.Check(), r.Close()); err != nil {
			t.Error(err)
		}
		if got := l.PeakMemory(); got != j.Promise.Memory() {
			t.Errorf("%s: ledger peak: got %d, want %d", dev.Name(), got, j.Promise.Memory())
		}
	}()
	for i := range 2 {
		if i > 0 {
			prompt = prompt[:1]
		}
		if err := r.Forward(prompt, 1); err != nil {
			t.Fatal(err)
		}
		x, err := r.Logits(0)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, slices.Clone(x))
	}
	return rows
}

// off is how far got is from want, in the root mean square of want.
func off(got, want [][]float32) float64 {
	var square, diff float64
	for r := range want {
		for i, w := range want[r] {
			square += float64(w) * float64(w)
			diff += math.Pow(float64(got[r][i])-float64(w), 2)
		}
	}
	return math.Sqrt(diff / square)
}

// A quantised checkpoint of Hugging Face runs in the bytes of its codes and scales, and its logits are those of its weights widened, but
// for rounding rows to eight bits where products are of integers.
func TestQuantisedCheckpointsRunPacked(t *testing.T) {
	for _, c := range quantisable() {
		for _, q := range methods() {
			t.Run(fmt.Sprintf("%s/%s", c.ModelType, q.name), func(t *testing.T) {
				m, err := weights.Open(quantise(t, c, q))
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := m.Close(); err != nil {
						t.Error(err)
					}
				}()
				widened := q.order && c.MoE()
				if len(m.Files()) < 2 || len(m.Widened()) > 0 != widened {
					t.Errorf("%d files, widened %q", len(m.Files()), m.Widened())
				}
				var want, packed, elems int64
				for _, p := range c.Parameters() {
					ty := p.Type
					if ty.DType = m.Types[p.Name]; quantises(p) {
						typ := q.typ
						if widened && ty.Shape.N == 3 {
							typ = dtype.F32
						}
						if ty.DType != typ || m.Types[p.Name+model.OrderSuffix] == dtype.I32 != (q.order && typ == q.typ) {
							t.Fatalf("%s: got %v, want %v", p.Name, ty.DType, typ)
						}
						if q.order && typ == q.typ {
							want += graph.RoundUp(4 * int64(ty.Shape.Last()))
						}
						if typ == q.typ {
							packed, elems = packed+ty.Bytes(graph.Bounds{}), elems+ty.Shape.Elems(graph.Bounds{})
						}
					}
					want += graph.RoundUp(ty.Bytes(graph.Bounds{}))
				}
				cpu1 := func(threads int) device.Device { return cpu.New(cpu.Options{Threads: threads, Set: kernel.Best()}) }
				got, held := logitsOf(t, m, cpu1(1), 11)
				if bits := float64(8*packed) / float64(elems); bits > q.bits || held < mem.Bytes(want) || held > mem.Bytes(want)+4*mem.KiB {
					t.Errorf("weights take %v, want %v; %.2f bits an element, want at most %v", held, mem.Bytes(want), bits, q.bits)
				}
				again, _ := logitsOf(t, m, cpu1(2), 3)
				if off(again, got) != 0 {
					t.Error("two threads, and chunks of three tokens: other bits")
				}
				slow := got
				if c.ModelType == model.Llama {
					slow, _ = logitsOf(t, m, ref.New(ref.F64), 11)
				}
				m.Widen()
				wide, _ := logitsOf(t, m, cpu1(2), 11)
				bound := 0.03
				if q.exact {
					bound = 0
				}
				if x := off(got, wide); !(x <= bound) {
					t.Errorf("off the widened pass by %.3g, want at most %g", x, bound)
				}
				if x := off(slow, wide); !(x <= max(bound, 1e-5)) {
					t.Errorf("ref: off the widened pass by %.3g", x)
				}
				if x := off(got, slow); !(x <= 1e-2) {
					t.Errorf("off ref by %.3g", x)
				}
			})
		}
	}
}

// Weights of a quantised checkpoint that memory does not hold are read again for every pass, and packed again, with the same bits.
func TestQuantisedCheckpointsStream(t *testing.T) {
	c := quantisable()[0]
	c.HiddenSize, c.HeadDim, c.IntermediateSize = 512, 128, 512
	for _, q := range methods() {
		if !q.order && !strings.HasPrefix(q.name, "fp8") && !strings.HasPrefix(q.name, "nf4") {
			continue
		}
		m, err := weights.Open(quantise(t, c, q))
		if err != nil {
			t.Fatal(err)
		}
		dev := cpu.New(cpu.Options{Threads: 2, Set: kernel.Best()})
		roomy := planOf(t, m, dev, 11, 0)
		want := runOf(t, m, dev, roomy)
		tight := planOf(t, m, dev, 11, roomy.Promise.Memory()-512*mem.KiB)
		if tight.Streamed() == 0 {
			t.Fatalf("%s: all weights stay", q.name)
		}
		if x := off(runOf(t, m, dev, tight), want); x != 0 {
			t.Errorf("%s: off by %.3g", q.name, x)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
