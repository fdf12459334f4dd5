package probe

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loadline/compile"
	"loadline/cost"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
	"loadline/train"
)

// compiled is a setting, compiled and not opened.
func compiled(t *testing.T, s setting) *Rig {
	t.Helper()
	r, err := Compile(here(), s.options())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func here() *cpu.Device { return cpu.New(cpu.Options{Threads: 1, Set: kernel.Best()}) }

// Two settings that share their states take turns, and every instruction of a step is told of once, in order.
func TestRig(t *testing.T) {
	o := setting{model.Llama, 64, 2, 2, 2, 128, 256, 2, 64, "fp32", "standard", compile.AdamW}.options()
	again, micro := o, o
	again.Recompute = compile.Recompute{Policy: compile.Full}
	again.Dropout, micro.Accumulate = 0.1, 2
	r, err := Open(here(), t.TempDir(), o, again, micro)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for i, programs := range []int{1, 1, 3} {
			d, err := r.Step(i)
			if err != nil || d <= 0 {
				t.Fatalf("setting %d: took %v, %v", i, d, err)
			}
			var seen []*compile.Instr
			if err := r.Watch(i, func(_ *compile.Program, in *compile.Instr, _ time.Duration) { seen = append(seen, in) }); err != nil {
				t.Fatal(err)
			}
			var want []*compile.Instr
			for _, p := range r.programs(i) {
				for k := range p.Instrs {
					want = append(want, &p.Instrs[k])
				}
			}
			if len(r.programs(i)) != programs || !reflect.DeepEqual(seen, want) {
				t.Errorf("setting %d: %d programs, %d of %d instructions seen", i, len(r.programs(i)), len(seen), len(want))
			}
		}
	}
	if s := r.Job(1).SavedActivationBytes(); s <= 0 || s >= r.Job(0).SavedActivationBytes() {
		t.Errorf("recompute full saves %v, none %v", s, r.Job(0).SavedActivationBytes())
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// What a sample says of an instruction is what the graph says of its operation.
func TestSamplesAreOfWhatTheGraphSays(t *testing.T) {
	o := setting{model.Llama, 64, 1, 2, 2, 128, 256, 1, 64, "bf16", "flash", compile.AdamW}.options()
	m := &Meter{dev: here(), o: Options{Dir: t.TempDir()}, models: make([]metered, 1)}
	r, err := Compile(here(), o)
	if err != nil {
		t.Fatal(err)
	}
	m.models[0] = metered{rig: r, samples: r.Samples(0)}
	for range 2 {
		if err := m.Visit(0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.models[0].times.Steps); n != 2*leastSteps {
		t.Errorf("two visits: %d steps, want %d", n, 2*leastSteps)
	}
	samples := m.Samples()
	var flops float64
	kinds := map[string]bool{}
	for _, s := range samples {
		if !(s.Seconds > 0) {
			t.Errorf("%v took %v", s.Key, s.Seconds)
		}
		kinds[s.Key.String()] = true
		if s.Key.Kind == (graph.MatMul{}).Kind() {
			flops += s.FLOPs
		}
	}
	if want := 2. * 64 * (4*64*64 + 3*64*128); flops != want {
		t.Errorf("products: got %v FLOPs, want %v", flops, want)
	}
	for _, k := range []cost.Key{{Kind: "matmul", Type: dtype.BF16}, {Kind: "attention_grad", Type: dtype.BF16}, {Kind: "sumsquares", Type: dtype.F32}} {
		if !kinds[k.String()] {
			t.Errorf("no sample of %v", k)
		}
	}
	c := describe("here", samples)
	c.FLOPs, c.Bandwidth = 1, 1 // this model has no product and no sum of f32
	if err := check(&c); err != nil || len(c.Rates.List) != len(kinds) {
		t.Errorf("described: %v; %d rates of %d kinds", err, len(c.Rates.List), len(kinds))
	}
	m.o.Memory = 1
	if err := m.Visit(0, 0); err != nil || len(m.models[0].times.Steps) != 2*leastSteps {
		t.Errorf("where it does not fit: %d steps, %v", len(m.models[0].times.Steps), err)
	}
}

// Every kind of operation that a preset's step has is measured, in each precision: settings cover them.
func TestSettingsCoverThePresets(t *testing.T) {
	have := map[cost.Key]bool{}
	kinds := func(o *Rig, f func(k cost.Key)) {
		for _, p := range o.programs(0) {
			for i := range p.Instrs {
				f(describeInstr(p, &p.Instrs[i]).Key)
			}
		}
	}
	for _, s := range settings() {
		kinds(compiled(t, s), func(k cost.Key) { have[k] = true })
	}
	for _, name := range model.Presets() {
		c, d, err := model.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, precision := range []string{"fp32", "bf16", "fp16"} {
			for _, attention := range []string{"flash", "standard"} {
				o := train.Defaults(c)
				o.Batch, o.Seq, o.Precision, o.Attention = 1, d.Seq, precision, attention
				j, err := Compile(here(), o)
				if err != nil {
					t.Fatal(err)
				}
				kinds(j, func(k cost.Key) {
					if !have[k] {
						t.Errorf("%s %s %s: nothing measures %v", name, precision, attention, k)
						have[k] = true
					}
				})
			}
		}
	}
}

// Low is the least of ten and fewer, and a tenth of more are below it.
func TestLow(t *testing.T) {
	var x []float64
	for i := range 100 {
		x = append([]float64{float64(i)}, x...)
		want := 0.
		if i >= 10 {
			want = float64(i / 10)
		}
		if got := Low(x); got != want {
			t.Errorf("of 0 to %d: got %v, want %v", i, got, want)
		}
	}
	if got := Low(nil); got != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}

func TestCopiesHaveRates(t *testing.T) {
	dir := t.TempDir()
	for name, f := range map[string]func() (float64, error){"memory": copyRate, "file": func() (float64, error) { return fileRate(dir) }} {
		if rate, err := f(); err != nil || !(rate > 1e5 && rate < 1e13) {
			t.Errorf("%s: got %v bytes/s, %v", name, rate, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What a umask keeps from others stays so, and so does the mode of a file that is there.
func TestStoreKeepsModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	store := func(want os.FileMode) {
		t.Helper()
		if err := Store(path, &File{Key: "k", Machine: cost.Laptop2()}); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("got %v, %v, want mode %v", st.Mode(), err, want)
		}
	}
	was := unix.Umask(0o077)
	store(0o600)
	unix.Umask(was)
	store(0o600)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	store(0o640)
}

// A machine comes back from its file with the same bits, so that every process plans alike; what no machine can be is refused.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "m.json")
	want := &File{Key: "k", Machine: cost.Laptop2()}
	want.Machine.Rates = &cost.Rates{List: []cost.Rate{{Key: "a/f32", Fixed: 1.0 / 3, FLOP: 1e-11 / 7, Byte: 2e-10}, {Key: "b/f32", Byte: 1e-10}}}
	for range 2 { // the second replaces the first
		if err := Store(path, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside it: %v, %v", left, err)
	}
	for name, f := range map[string]func(m *cost.Machine){
		"flops":    func(m *cost.Machine) { m.FLOPs = 0 },
		"overhead": func(m *cost.Machine) { m.Overhead = -1 },
		"link":     func(m *cost.Machine) { m.Link[mem.Disk] = -1 },
		"rate":     func(m *cost.Machine) { m.Rates.List[0].FLOP = -1 },
		"nothing":  func(m *cost.Machine) { m.Rates.List[1].Byte = 0 },
		"order":    func(m *cost.Machine) { m.Rates.List[0].Key = "c/f32" },
		"huge":     func(m *cost.Machine) { m.Rates.List[0].Byte = math.MaxFloat64 },
	} {
		m := want.Machine
		m.Rates = &cost.Rates{List: append([]cost.Rate{}, want.Machine.Rates.List...)}
		f(&m)
		if err := Store(path, &File{Machine: m}); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, text := range map[string]string{"no JSON": "{", "long": strings.Repeat(" ", maxFileBytes+1)} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
