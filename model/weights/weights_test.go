package weights

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"loadline/model"
	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

const goldenDir = "../testdata/golden"

// goldens are models with all layouts that GGUF has of its own: turned rows, a head of its own, experts, and flipped matrices.
func goldens() []string { return []string{"dense", "dense_untied", "moe", "gpt2"} }

// directory makes a Hugging Face directory of a golden model.
func directory(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	for to, from := range map[string]string{configName: configName, safetensors.ModelName: "weights.safetensors"} {
		p, err := os.ReadFile(filepath.Join(goldenDir, name, from))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, to), p)
	}
	return dir
}

func write(t testing.TB, path string, p []byte) {
	t.Helper()
	if err := os.WriteFile(path, p, 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string) *Model {
	t.Helper()
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// matrix is a published tensor in float32.
type matrix struct {
	shape []int64
	x     []float32
}

// read reads all tensors of a directory.
func read(t testing.TB, dir string) map[string]matrix {
	t.Helper()
	set, err := safetensors.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	all := map[string]matrix{}
	for _, i := range set.Tensors() {
		p := make([]byte, i.Bytes)
		if err := set.ReadInto(i.Name, p); err != nil {
			t.Fatal(err)
		}
		x := make([]float32, i.Bytes/i.DType.Bytes())
		quant.Decode(x, elemType(i.DType), p)
		all[i.Name] = matrix{i.Shape, x}
	}
	return all
}

// swapped is llama.cpp's permute: (heads, 2, half, columns) with the second and third dimension swapped.
func (m matrix) swapped(heads int) matrix {
	rows, cols := int(m.shape[0]), len(m.x)/int(m.shape[0])
	half := rows / heads / 2
	out := make([]float32, 0, len(m.x))
	for h := range heads {
		for i := range half {
			for j := range 2 {
				at := ((h*2+j)*half + i) * cols
				out = append(out, m.x[at:at+cols]...)
			}
		}
	}
	return matrix{m.shape, out}
}

func (m matrix) transposed() matrix {
	rows, cols := int(m.shape[0]), int(m.shape[1])
	out := make([]float32, len(m.x))
	for r := range rows {
		for c := range cols {
			out[c*rows+r] = m.x[r*cols+c]
		}
	}
	return matrix{[]int64{m.shape[1], m.shape[0]}, out}
}

// converted is what convert_hf_to_gguf.py makes of a model, written down anew tensor by tensor.
func converted(c model.Config, all map[string]matrix) (names []string, out map[string]matrix) {
	out = map[string]matrix{}
	add := func(name string, m matrix) {
		names = append(names, name)
		out[name] = m
	}
	get := func(name string) matrix {
		m, ok := all[name]
		if !ok {
			m, ok = all[strings.TrimPrefix(name, "transformer.")]
		}
		if !ok {
			panic("no tensor " + name)
		}
		return m
	}
	if c.ModelType == model.GPT2 {
		add("token_embd.weight", get("transformer.wte.weight"))
		add("position_embd.weight", get("transformer.wpe.weight"))
		for i := range c.NumLayers {
			for to, from := range map[string]string{"attn_norm": "ln_1", "ffn_norm": "ln_2", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"} {
				w := get(fmt.Sprintf("transformer.h.%d.%s.weight", i, from))
				if len(w.shape) == 2 {
					w = w.transposed()
				}
				add(fmt.Sprintf("blk.%d.%s.weight", i, to), w)
				add(fmt.Sprintf("blk.%d.%s.bias", i, to), get(fmt.Sprintf("transformer.h.%d.%s.bias", i, from)))
			}
		}
		add("output_norm.weight", get("transformer.ln_f.weight"))
		add("output_norm.bias", get("transformer.ln_f.bias"))
		return names, out
	}
	add("token_embd.weight", get("model.embed_tokens.weight"))
	for i := range c.NumLayers {
		from, to := fmt.Sprintf("model.layers.%d.", i), fmt.Sprintf("blk.%d.", i)
		add(to+"attn_norm.weight", get(from+"input_layernorm.weight"))
		add(to+"attn_q.weight", get(from+"self_attn.q_proj.weight").swapped(c.NumHeads))
		add(to+"attn_k.weight", get(from+"self_attn.k_proj.weight").swapped(c.NumKVHeads))
		add(to+"attn_v.weight", get(from+"self_attn.v_proj.weight"))
		add(to+"attn_output.weight", get(from+"self_attn.o_proj.weight"))
		add(to+"ffn_norm.weight", get(from+"post_attention_layernorm.weight"))
		if c.NumLocalExperts == 0 {
			add(to+"ffn_gate.weight", get(from+"mlp.gate_proj.weight"))
			add(to+"ffn_up.weight", get(from+"mlp.up_proj.weight"))
			add(to+"ffn_down.weight", get(from+"mlp.down_proj.weight"))
			continue
		}
		add(to+"ffn_gate_inp.weight", get(from+"block_sparse_moe.gate.weight"))
		for w, name := range map[string]string{"w1": "gate", "w3": "up", "w2": "down"} {
			var m matrix
			for e := range c.NumLocalExperts {
				one := get(fmt.Sprintf("%sblock_sparse_moe.experts.%d.%s.weight", from, e, w))
				m.shape = []int64{int64(c.NumLocalExperts), one.shape[0], one.shape[1]}
				m.x = append(m.x, one.x...)
			}
			add(to+"ffn_"+name+"_exps.weight", m)
		}
	}
	add("output_norm.weight", get("model.norm.weight"))
	if !c.TieWordEmbeddings {
		add("output.weight", get("lm_head.weight"))
	}
	return names, out
}

// meta is the metadata that the converter writes.
func meta(c model.Config) gguf.Metadata {
	arch := map[string]string{model.GPT2: "gpt2", model.Llama: "llama", model.Mixtral: "llama"}[c.ModelType]
	m := gguf.Metadata{
		{Key: "general.architecture", Value: arch},
		{Key: arch + ".block_count", Value: uint32(c.NumLayers)},
		{Key: arch + ".context_length", Value: uint32(c.MaxPositionEmbeddings)},
		{Key: arch + ".embedding_length", Value: uint32(c.HiddenSize)},
		{Key: arch + ".feed_forward_length", Value: uint32(c.IntermediateSize)},
		{Key: arch + ".attention.head_count", Value: uint32(c.NumHeads)},
	}
	set := func(key string, v any) { m.Set(arch+"."+key, v) }
	if c.ModelType == model.GPT2 {
		set("attention.layer_norm_epsilon", float32(c.LayerNormEps))
	} else {
		set("attention.head_count_kv", uint32(c.NumKVHeads))
		set("attention.layer_norm_rms_epsilon", float32(c.RMSNormEps))
		set("attention.key_length", uint32(c.HeadDim))
		set("attention.value_length", uint32(c.HeadDim))
		set("rope.dimension_count", uint32(c.HeadDim))
		set("rope.freq_base", float32(c.RopeTheta))
	}
	if c.NumLocalExperts > 0 {
		set("expert_count", uint32(c.NumLocalExperts))
		set("expert_used_count", uint32(c.NumExpertsPerTok))
	}
	if c.BOSTokenID >= 0 {
		m.Set("tokenizer.ggml.bos_token_id", uint32(c.BOSTokenID))
	}
	if len(c.EOSTokenIDs) > 0 {
		m.Set("tokenizer.ggml.eos_token_id", uint32(c.EOSTokenIDs[0]))
	}
	return m
}

// encoded is x as blocks of a type where its rows are whole blocks of it, and it is no vector; else as float32.
func encoded(t testing.TB, typ quant.Type, m matrix) (quant.Type, []byte) {
	t.Helper()
	if len(m.shape) < 2 || m.shape[len(m.shape)-1]%int64(typ.BlockElems()) != 0 {
		typ = quant.F32
	}
	n, _ := typ.Bytes(int64(len(m.x)))
	p := make([]byte, n)
	if err := quant.Encode(p, typ, m.x); err != nil {
		t.Fatal(err)
	}
	return typ, p
}

// writeGGUF writes tensors, those that are matrices in a type.
func writeGGUF(t testing.TB, path string, m gguf.Metadata, typ quant.Type, names []string, tensors map[string]matrix, shard int64) {
	t.Helper()
	var infos []gguf.Info
	data := map[string][]byte{}
	for _, name := range names {
		i := gguf.Info{Name: name, Shape: tensors[name].shape}
		i.Type, data[name] = encoded(t, typ, tensors[name])
		infos = append(infos, i)
	}
	w, err := gguf.Create(path, infos, m, shard)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := w.Write(name, data[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// f32 reads a whole weight in pieces of uneven lengths.
func f32(t testing.TB, m *Model, p model.Param) []byte {
	t.Helper()
	out := make([]byte, 4*p.Elems())
	r := rand.New(rand.NewPCG(1, uint64(len(out))))
	for at := 0; at < p.Elems(); {
		n := min(1+r.IntN(3000), p.Elems()-at)
		if err := m.ReadAt(p.Name, at, out[4*at:4*(at+n)]); err != nil {
			t.Fatal(err)
		}
		at += n
	}
	return out
}

// rounded is what a weight is in a type: rows of blocks, and those widened.
func rounded(t testing.TB, typ quant.Type, p model.Param, x []byte) (quant.Type, []byte, []byte) {
	t.Helper()
	wide := make([]float32, len(x)/4)
	quant.Decode(wide, quant.F32, x)
	var shape []int64
	for _, d := range p.Type.Shape.Dims[:p.Type.Shape.N] {
		shape = append(shape, int64(d.N))
	}
	typ, blocks := encoded(t, typ, matrix{shape, wide})
	quant.Decode(wide, typ, blocks)
	out := make([]byte, len(x))
	if err := quant.Encode(out, quant.F32, wide); err != nil {
		t.Fatal(err)
	}
	return typ, blocks, out
}

// A GGUF file gives the weights and the configuration of the directory that it was made from, to the bit, and quantised ones those of
// each row quantised by itself: in one file and in several.
func TestGGUFIsTheDirectory(t *testing.T) {
	for _, name := range goldens() {
		dir := directory(t, name)
		want := open(t, dir)
		names, tensors := converted(want.Config, read(t, dir))
		for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q8_0, quant.Q4_1, quant.IQ4_NL} {
			path := filepath.Join(t.TempDir(), "model.gguf")
			shard := int64(0)
			if typ == quant.Q8_0 {
				shard = 20 << 10
			}
			writeGGUF(t, path, meta(want.Config), typ, names, tensors, shard)
			if shard > 0 {
				path = filepath.Dir(path)
			}
			got := open(t, path)
			if !reflect.DeepEqual(got.Config, want.Config) {
				t.Errorf("%s: got %+v, want %+v", name, got.Config, want.Config)
			}
			if n := len(got.Files()); (n > 1) != (shard > 0) {
				t.Errorf("%s %v: got %d files", name, typ, n)
			}
			for _, p := range want.Config.Parameters() {
				stored, blocks, wide := rounded(t, typ, p, f32(t, want, p))
				if !bytes.Equal(f32(t, got, p), wide) {
					t.Fatalf("%s %v: %q differs", name, typ, p.Name)
				}
				x := got.named[p.Name]
				if s := got.Stored(p.Name); s != stored.String() || !x.whole || x.stored != stored {
					t.Fatalf("%s: %q: got %s, whole %v, want %v", name, p.Name, s, x.whole, stored)
				}
				same := make([]byte, len(blocks))
				w := stored.BlockBytes()
				cut := len(blocks) / w / 3 * w
				if err := errors.Join(x.same(got, 0, same[:cut], w), x.same(got, cut/w, same[cut:], w)); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(same, blocks) {
					t.Fatalf("%s: %q: its blocks as %v differ", name, p.Name, stored)
				}
			}
		}
	}
}

// Source hands weights out piece by piece in the types asked for, and then again.
func TestSource(t *testing.T) {
	dir := directory(t, "gpt2")
	plain := open(t, dir)
	names, tensors := converted(plain.Config, read(t, dir))
	path := filepath.Join(t.TempDir(), "model.gguf")
	writeGGUF(t, path, meta(plain.Config), quant.F16, names, tensors, 0)
	m := open(t, path)
	for _, p := range m.Config.Parameters() {
		want := dtype.F32
		if p.Type.Shape.N >= 2 {
			want = dtype.F16
		}
		if m.Types[p.Name] != want {
			t.Fatalf("%q: got type %v, want %v", p.Name, m.Types[p.Name], want)
		}
		_, half, wide := rounded(t, quant.F16, p, f32(t, plain, p))
		_, brain, _ := rounded(t, quant.BF16, p, wide)
		for _, x := range []struct {
			typ  dtype.Type
			want []byte
		}{{dtype.F16, half}, {dtype.BF16, brain}, {dtype.F32, wide}} {
			if p.Type.Shape.N < 2 && x.typ != dtype.F32 {
				continue
			}
			m.Types[p.Name] = x.typ
			m.Rewind()
			w := int(x.typ.Bytes(1))
			for range 2 {
				got := make([]byte, len(x.want))
				for at := 0; at < len(got); {
					n := min(w*777, len(got)-at)
					if err := m.Source(p.Name, got[at:at+n]); err != nil {
						t.Fatal(err)
					}
					at += n
				}
				if !bytes.Equal(got, x.want) {
					t.Fatalf("%q as %v differs", p.Name, x.typ)
				}
			}
		}
	}
	name := m.Config.Parameters()[0].Name
	m.Widen()
	for what, err := range map[string]error{
		"an unknown weight": m.Source("nothing", make([]byte, 4)),
		"half an element":   m.ReadBytes(name, 2, make([]byte, 4)),
		"more than all":     m.ReadBytes(name, 0, make([]byte, 4*m.named[name].Elems()+4)),
		"before all":        m.ReadAt(name, -1, make([]byte, 4)),
	} {
		if err == nil {
			t.Errorf("%s: got no error", what)
		}
	}
	m.Types[name] = dtype.Q4_0
	if err := m.Source(name, make([]byte, 18)); err == nil || !strings.Contains(err.Error(), "stored as F16") {
		t.Errorf("as q4_0: got %v", err)
	}
}

// A directory of several files is that of one.
func TestSharded(t *testing.T) {
	dir := directory(t, "moe")
	want := open(t, dir)
	tensors := read(t, dir)
	out := t.TempDir()
	config, err := os.ReadFile(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(out, configName), config)
	seeing := func(name string) string { // as in a model that also sees
		if short, ok := strings.CutPrefix(name, "model."); ok {
			return "model.language_model." + short
		}
		return name
	}
	names := map[string]string{}
	var infos []safetensors.Info
	for name, m := range tensors {
		names[seeing(name)] = name
		infos = append(infos, safetensors.Info{Name: seeing(name), DType: safetensors.F32, Shape: m.shape})
	}
	safetensors.Sort(infos)
	w, err := safetensors.CreateSharded(out, infos, nil, 100<<10)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range w.Tensors() {
		_, p := encoded(t, quant.F32, tensors[names[i.Name]])
		if err := w.Write(i.Name, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := open(t, out)
	if len(got.Files()) < 3 {
		t.Errorf("got files %v, want several", got.Files())
	}
	for _, p := range want.Config.Parameters() {
		if !bytes.Equal(f32(t, got, p), f32(t, want, p)) {
			t.Errorf("%q differs", p.Name)
		}
	}
	if got.HeapBytes() != 0 {
		t.Errorf("got %v of heap, want none", got.HeapBytes())
	}
}

// A run's directory is its newest checkpoint; what holds no model is said to hold none.
func TestFind(t *testing.T) {
	run := t.TempDir()
	for _, step := range []string{"step-9", "step-10", "step-007", "step-x", ".tmp-step-11"} {
		if err := os.Rename(directory(t, "dense"), filepath.Join(run, step)); err != nil {
			t.Fatal(err)
		}
	}
	if m := open(t, run); filepath.Base(m.Path) != "step-10" {
		t.Errorf("got %s, want step-10", m.Path)
	}
	file := filepath.Join(t.TempDir(), "a[b].txt")
	write(t, file, []byte("text"))
	for path, want := range map[string]error{t.TempDir(): ErrNone, file: ErrNone, filepath.Join(run, "none"): os.ErrNotExist, filepath.Dir(file): ErrNone} {
		if _, err := Open(path); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
	}
}

// put32 is integers as a tensor.
func put32(x []uint32) []byte {
	p := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(p[4*i:], v)
	}
	return p
}

// entry is a tensor of a directory in the making.
type entry struct {
	safetensors.Info
	data []byte
}

func tensorOf(name string, typ safetensors.DType, data []byte, shape ...int64) entry {
	return entry{safetensors.Info{Name: name, DType: typ, Shape: shape}, data}
}

// quantised makes a golden model's directory with some weights in place of others, and how they are quantised.
func quantised(t testing.TB, dir string, config map[string]any, replace map[string][]entry) {
	t.Helper()
	path := filepath.Join(dir, configName)
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(p, &c); err != nil {
		t.Fatal(err)
	}
	c["quantization_config"] = config
	if p, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	all := read(t, dir)
	var list []entry
	for name, m := range all {
		if more, ok := replace[name]; ok {
			list = append(list, more...)
			continue
		}
		_, data := encoded(t, quant.F32, m)
		list = append(list, tensorOf(name, safetensors.F32, data, m.shape...))
	}
	var infos []safetensors.Info
	data := map[string][]byte{}
	for _, e := range list {
		infos = append(infos, e.Info)
		data[e.Name] = e.data
	}
	safetensors.Sort(infos)
	w, err := safetensors.Create(filepath.Join(dir, safetensors.ModelName), infos, nil)
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
	write(t, path, p)
}

// words are random bits, and halves random scales.
func words(r *rand.Rand, n int) []byte {
	x := make([]uint32, n)
	for i := range x {
		x[i] = r.Uint32()
	}
	return put32(x)
}

func halves(r *rand.Rand, n int) []byte {
	p := make([]byte, 2*n)
	for i := range n {
		binary.LittleEndian.PutUint16(p[2*i:], dtype.ToF16(r.Float32()-0.5))
	}
	return p
}

// blocksOf is the elements of the groups of codes that Source hands out of a weight, in pieces.
func blocksOf(t testing.TB, m *Model, name string, elems int) []byte {
	t.Helper()
	g, ok := quant.GroupOf(m.Types[name])
	if !ok {
		t.Fatalf("%q: got type %v, want groups", name, m.Types[name])
	}
	x := make([]float32, 0, elems)
	codes, blocks := make([]uint8, g.Elems), make([]byte, 7*g.Bytes())
	for len(x) < elems {
		p := blocks[:min(7, (elems-len(x))/g.Elems)*g.Bytes()]
		if err := m.Source(name, p); err != nil {
			t.Fatal(err)
		}
		for ; len(p) > 0; p = p[g.Bytes():] {
			scale, zero := g.Get(codes, p[:g.Bytes()])
			for _, c := range codes {
				x = append(x, g.Value(c, scale, zero))
			}
		}
	}
	if m.Types[name+model.OrderSuffix] == dtype.I32 {
		x = inPlaceOf(t, m, name, x)
	}
	p := make([]byte, 4*elems)
	if err := quant.Encode(p, quant.F32, x); err != nil {
		t.Fatal(err)
	}
	return p
}

// inPlaceOf puts the elements of rows, which are in the order that Source says, where they are in the weight.
func inPlaceOf(t testing.TB, m *Model, name string, x []float32) []float32 {
	t.Helper()
	k := m.named[name].Type.Shape.Last()
	order := make([]byte, 4*k)
	for range 2 {
		if err := errors.Join(m.Source(name+model.OrderSuffix, order[:8]), m.Source(name+model.OrderSuffix, order[8:])); err != nil {
			t.Fatal(err)
		}
	}
	if m.Source(name+model.OrderSuffix, make([]byte, 4*k+4)) == nil {
		t.Error("more of an order than there is: got no error")
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i/k*k+int(binary.LittleEndian.Uint32(order[i%k*4:]))] = v
	}
	return out
}

// Layers of quantised checkpoints are, row for row, what tensor/quant makes of their tensors, though only a few rows are ever there.
func TestQuantisedDirectories(t *testing.T) {
	const name = "model.layers.1.mlp.down_proj." // (64, 128): two tiles
	const n, k = 64, 128
	f16 := func(p []byte) quant.Elems { return quant.Elems{Type: quant.F16, Data: p} }
	r := rand.New(rand.NewPCG(3, 4))
	order := make([]uint32, k)
	for i := range order {
		order[i] = uint32(i * 7 % 4)
	}
	rows := func(decode func(dst []float32, n int)) []byte {
		x := make([]float32, n*k)
		for i := range n {
			decode(x[i*k:(i+1)*k], i)
		}
		p := make([]byte, 4*n*k)
		if err := quant.Encode(p, quant.F32, x); err != nil {
			t.Fatal(err)
		}
		return p
	}
	type test struct {
		name   string
		config map[string]any
		list   []entry
		want   []byte
		typ    dtype.Type
	}
	var tests []test
	inOrder, uneven := make([]uint32, k), make([]uint32, k)
	for i := range inOrder {
		inOrder[i], uneven[i] = uint32(i/32), uint32(i%3+i%2)
	}
	for _, bits := range []int{2, 3, 4, 8} {
		for _, index := range [][]uint32{order, inOrder, uneven} {
			g := &quant.GPTQ{Bits: bits, N: n, K: k, GroupSize: 32, QWeight: words(r, k*bits/32*n), QZeros: words(r, 4*n*bits/32), Scales: f16(halves(r, 4*n)), GIdx: put32(index), V1: true}
			typ := dtype.G4_32
			if bits == 8 {
				typ = dtype.G8_32
			}
			if index[1] == uneven[1] {
				typ = dtype.F32
			}
			tests = append(tests, test{fmt.Sprintf("gptq of %d bits, %v", bits, index[:2]), map[string]any{"quant_method": "gptq", "bits": bits, "group_size": 32, "desc_act": true}, []entry{
				tensorOf(name+"qweight", safetensors.I32, g.QWeight, int64(k*bits/32), n), tensorOf(name+"qzeros", safetensors.I32, g.QZeros, 4, int64(n*bits/32)),
				tensorOf(name+"scales", safetensors.F16, g.Scales.Data, 4, n), tensorOf(name+"g_idx", safetensors.I32, g.GIdx, k),
			}, rows(g.DecodeRow), typ})
		}
	}
	a := &quant.AWQ{N: n, K: k, GroupSize: 64, QWeight: words(r, k*n/8), QZeros: words(r, 2*n/8), Scales: f16(halves(r, 2*n))}
	tests = append(tests, test{"awq", map[string]any{"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm"}, []entry{
		tensorOf(name+"qweight", safetensors.I32, a.QWeight, k, n/8), tensorOf(name+"qzeros", safetensors.I32, a.QZeros, 2, n/8), tensorOf(name+"scales", safetensors.F16, a.Scales.Data, 2, n),
	}, rows(a.DecodeRow), dtype.G4_64})
	compressed := func(format string, weights map[string]any) map[string]any {
		return map[string]any{"quant_method": "compressed-tensors", "format": format, "config_groups": map[string]any{
			"group_0": map[string]any{"targets": []string{"re:.*q_proj"}, "weights": map[string]any{"num_bits": 8, "type": "int", "symmetric": true, "strategy": "tensor"}, "format": "int-quantized"},
			"group_1": map[string]any{"targets": []string{"Linear"}, "weights": weights},
		}}
	}
	p := &quant.PackedInt{Bits: 4, N: n, K: k, GroupSize: 32, Packed: words(r, n*k/8), Scale: f16(halves(r, 4*n)), Zero: words(r, n/8*4)}
	tests = append(tests, test{"pack-quantized", compressed("pack-quantized", map[string]any{"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}), []entry{
		tensorOf(name+"weight_packed", safetensors.I32, p.Packed, n, k/8), tensorOf(name+"weight_scale", safetensors.F16, p.Scale.Data, n, 4),
		tensorOf(name+"weight_zero_point", safetensors.I32, p.Zero, n/8, 4), tensorOf(name+"weight_shape", safetensors.I64, make([]byte, 16), 2),
	}, rows(p.DecodeRow), dtype.G4_32})
	bytesOf := func(n int) []byte { // no NaN of e4m3
		x := words(r, n/4)
		for i := range x {
			x[i] &= 0xf7
		}
		return x
	}
	i8 := &quant.Scaled{Byte: quant.ByteInt8, N: n, K: k, RowBlock: 1, ColBlock: k, Weight: bytesOf(n * k), Scale: f16(halves(r, n))}
	tests = append(tests, test{"int-quantized", compressed("int-quantized", map[string]any{"num_bits": 8, "type": "int", "symmetric": true, "strategy": "channel"}), []entry{
		tensorOf(name+"weight", safetensors.I8, i8.Weight, n, k), tensorOf(name+"weight_scale", safetensors.F16, i8.Scale.Data, n, 1),
	}, rows(i8.DecodeRow), dtype.G8_128})
	for _, block := range []int{16, 24, 64} {
		f8 := &quant.Scaled{Byte: quant.ByteF8E4M3, N: n, K: k, RowBlock: block, ColBlock: 32, Weight: bytesOf(n * k), Scale: f16(halves(r, (n+block-1)/block*4))}
		tests = append(tests, test{fmt.Sprintf("fp8 by %d rows", block), map[string]any{"quant_method": "fp8", "weight_block_size": []int{block, 32}}, []entry{
			tensorOf(name+"weight", safetensors.F8E4M3, f8.Weight, n, k), tensorOf(name+"weight_scale_inv", safetensors.F16, f8.Scale.Data, int64((n+block-1)/block), 4),
		}, rows(f8.DecodeRow), dtype.F8_32})
	}
	one := &quant.Scaled{Byte: quant.ByteF8E4M3, N: n, K: k, RowBlock: n, ColBlock: k, Weight: bytesOf(n * k), Scale: f16(halves(r, 1))}
	tests = append(tests, test{"fp8 of one scale", map[string]any{"quant_method": "fp8"}, []entry{
		tensorOf(name+"weight", safetensors.F8E4M3, one.Weight, n, k), tensorOf(name+"weight_scale", safetensors.F16, one.Scale.Data),
	}, rows(one.DecodeRow), dtype.F8_128})
	var normal []byte
	for _, v := range quant.TableNF4.Values() {
		normal = binary.LittleEndian.AppendUint32(normal, math.Float32bits(v))
	}
	for _, x := range []struct {
		nested bool
		values quant.Elems
		typ    dtype.Type
	}{{false, quant.Elems{Type: quant.F32, Data: normal}, dtype.NF4_64}, {true, quant.Elems{Type: quant.F32, Data: normal}, dtype.NF4_64}, {true, f16(halves(r, 16)), dtype.F32}} {
		nested := x.nested
		q := &quant.NF4{Count: n * k, BlockSize: 64, Codes: words(r, n*k/8), Map: x.values, NestedBlockSize: 16, Offset: 0.25}
		state := fmt.Sprintf(`{"quant_type":"nf4","blocksize":64,"shape":[%d,%d],"dtype":"bfloat16"}`, n, k)
		list := []entry{tensorOf(name+"weight", safetensors.U8, q.Codes, n*k/2, 1), tensorOf(name+"weight.quant_map", safetensors.DType(q.Map.Type.String()), q.Map.Data, 16)}
		if nested {
			q.Nested, q.NestedMap, q.NestedAbsmax = words(r, n*k/64/4), f16(halves(r, 256)), f16(halves(r, n*k/64/16))
			state = strings.Replace(state, "{", `{"nested_blocksize":16,"nested_offset":0.25,`, 1)
			list = append(list, tensorOf(name+"weight.absmax", safetensors.U8, q.Nested, n*k/64), tensorOf(name+"weight.nested_quant_map", safetensors.F16, q.NestedMap.Data, 256),
				tensorOf(name+"weight.nested_absmax", safetensors.F16, q.NestedAbsmax.Data, n*k/64/16))
		} else {
			q.Absmax = f16(halves(r, n*k/64))
			list = append(list, tensorOf(name+"weight.absmax", safetensors.F16, q.Absmax.Data, n*k/64))
		}
		list = append(list, tensorOf(name+"weight.quant_state.bitsandbytes__nf4", safetensors.U8, []byte(state), int64(len(state))))
		tests = append(tests, test{fmt.Sprintf("nf4, nested %v, %v", nested, x.typ), map[string]any{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}, list,
			rows(func(dst []float32, i int) { q.Decode(dst, i*k) }), x.typ})
	}
	for _, x := range tests {
		dir := directory(t, "dense")
		plain := open(t, dir)
		params := plain.Config.Parameters()
		wants := map[string][]byte{}
		for _, p := range params {
			wants[p.Name] = f32(t, plain, p)
		}
		wants[name+"weight"] = x.want
		quantised(t, dir, x.config, map[string][]entry{name + "weight": x.list})
		m, err := Open(dir)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		for _, p := range params {
			if got := f32(t, m, p); !bytes.Equal(got, wants[p.Name]) {
				t.Errorf("%s: %q differs", x.name, p.Name)
			}
		}
		if m.HeapBytes() == 0 || m.HeapBytes() > 64<<10 || m.Stored(name+"weight") == "F32" || m.Types[name+"weight"] != x.typ || len(m.Types) > 2 {
			t.Errorf("%s: holds %v, stored as %s, handed out as %v", x.name, m.HeapBytes(), m.Stored(name+"weight"), m.Types)
		}
		if lines := m.Widened(); (len(lines) == 0) != (x.typ != dtype.F32) || len(lines) > 1 {
			t.Errorf("%s: widened: %q", x.name, lines)
		}
		if x.typ != dtype.F32 && !bytes.Equal(blocksOf(t, m, name+"weight", n*k), x.want) {
			t.Errorf("%s: blocks of %v have other values", x.name, x.typ)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for i, e := range x.list { // without one of its tensors, or one too short
			if strings.HasSuffix(e.Name, "g_idx") || strings.HasSuffix(e.Name, "zero_point") || strings.HasSuffix(e.Name, "weight_shape") {
				continue
			}
			short := append([]entry{}, x.list...)
			short = append(short[:i], short[i+1:]...)
			dir := directory(t, "dense")
			quantised(t, dir, x.config, map[string][]entry{name + "weight": short})
			if _, err := Open(dir); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s without %s: got %v, want one line", x.name, e.Name, err)
			}
		}
	}
}

// Gemma's files have norms with one added.
func TestPlus(t *testing.T) {
	x := []float32{-0.5, 0, 0.25, 3}
	p := make([]byte, 16)
	c := &placed{tensor: &tensor{typ: quant.F32, plus: 1, read: func(b []byte, at int64) error {
		for i := range len(b) / 4 {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x[int(at)/4+i]+1))
		}
		return nil
	}}}
	if err := (&Model{}).elems(c, 0, 4, p, 0, 1); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 4)
	if quant.Decode(got, quant.F32, p); !reflect.DeepEqual(got, x) {
		t.Errorf("got %v, want %v", got, x)
	}
}
