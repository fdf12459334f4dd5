package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"loadline/model"
	"loadline/model/safetensors"
	"loadline/model/weights"
	"loadline/tensor/dtype"
)

const goldenDir = "../../model/testdata/golden"

// goldenModel copies a golden model into a directory with the names of a published checkpoint.
func goldenModel(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	for to, from := range map[string]string{ConfigName: ConfigName, ModelName: "weights.safetensors"} {
		p, err := os.ReadFile(filepath.Join(goldenDir, name, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), p, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// write makes a checkpoint of a step from the States that m holds, in pieces of some number of elements, with moments of one State.
func write(d *Dir, step int64, m *weights.Model, piece int, s State) (string, error) {
	w, err := d.Begin(step)
	if err != nil {
		return "", err
	}
	config, err := model.EncodeConfig(m.Config)
	if err != nil {
		return "", err
	}
	if err := w.File(ConfigName, func(f io.Writer) error { _, err := f.Write(config); return err }); err != nil {
		return "", err
	}
	params := m.Config.Parameters()
	f, err := w.Model(params, wideTypes)
	if err != nil {
		return "", err
	}
	var elems int64
	for _, p := range params {
		n := p.Elems()
		elems += int64(n)
		for at := 0; at < n; at += piece {
			b := make([]byte, 4*min(piece, n-at))
			if err := m.ReadAt(p.Name, at, b); err != nil {
				return "", err
			}
			if err := f.Write(p.Name, b); err != nil {
				f.Abort()
				return "", errors.Join(err, w.Abort())
			}
		}
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	w.Expect(ModelName, elems)
	infos := MomentInfos(moments, 1, 0)
	sf, err := w.Tensors(StateName(0), infos)
	if err != nil {
		return "", err
	}
	for _, x := range moments {
		if err := sf.Write(x.Name, ramp(x)); err != nil {
			return "", err
		}
	}
	if err := sf.Close(); err != nil {
		return "", err
	}
	s.Ranks, s.Losses = 1, make([]float32, step)
	return w.Commit(s)
}

// wideTypes stores everything in f32.
func wideTypes(string) dtype.Type { return dtype.F32 }

// moments are two States, one of which is cut by four ranks.
var moments = []Moment{{"adam.m.a", 10000}, {"adam.v.b", 7}}

// ramp is a State's bytes: element i is i.
func ramp(m Moment) []byte {
	p := make([]byte, 4*m.Elems)
	for i := range m.Elems {
		binary.LittleEndian.PutUint32(p[4*i:], math.Float32bits(float32(i)))
	}
	return p
}

func openModel(t testing.TB, path string) *weights.Model {
	t.Helper()
	m, err := OpenModel(path)
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

// What is written has every tensor of the published file, bit for bit, whatever the pieces: split experts, fused and transposed
// projections.
func TestModelRoundTrip(t *testing.T) {
	for _, name := range []string{"dense", "dense_untied", "moe", "gpt2"} {
		for _, piece := range []int{65536, 4096, 1000, 37} {
			from := goldenModel(t, name)
			m := openModel(t, from)
			path, err := write(&Dir{Path: t.TempDir()}, 0, m, piece, State{})
			if err != nil {
				t.Fatal(err)
			}
			a, err := safetensors.Open(filepath.Join(from, ModelName))
			if err != nil {
				t.Fatal(err)
			}
			b, err := safetensors.Open(filepath.Join(path, ModelName))
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Tensors()) != len(b.Tensors()) {
				t.Errorf("%s: got %d tensors, want %d", name, len(b.Tensors()), len(a.Tensors()))
			}
			for _, i := range a.Tensors() {
				p, q := make([]byte, i.Bytes), make([]byte, i.Bytes)
				if err := errors.Join(a.ReadInto(i.Name, p), b.ReadInto(i.Name, q)); err != nil {
					t.Errorf("%s: %v", name, err)
				} else if !bytes.Equal(p, q) {
					t.Errorf("%s in pieces of %d: tensor %q differs", name, piece, i.Name)
				}
			}
			if err := errors.Join(a.Close(), b.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Half-precision files are widened, and GPT-2's names are found without their prefix.
func TestOtherPublishedFiles(t *testing.T) {
	want := openModel(t, goldenModel(t, "gpt2"))
	dir := goldenModel(t, "gpt2")
	f, err := safetensors.Open(filepath.Join(goldenDir, "gpt2", "weights.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var infos []safetensors.Info
	for _, i := range f.Tensors() {
		infos = append(infos, safetensors.Info{Name: strings.TrimPrefix(i.Name, "transformer."), DType: safetensors.BF16, Shape: i.Shape})
	}
	w, err := safetensors.Create(filepath.Join(dir, ModelName), infos, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range f.Tensors() {
		p := make([]byte, i.Bytes)
		if err := f.ReadInto(i.Name, p); err != nil {
			t.Fatal(err)
		}
		half := make([]byte, 0, len(p)/2)
		for k := 0; k < len(p); k += 4 {
			half = append(half, p[k+2], p[k+3]) // bfloat16 by truncation
		}
		if err := w.Write(strings.TrimPrefix(i.Name, "transformer."), half); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	got := openModel(t, dir)
	for _, x := range got.Config.Parameters() {
		a, b := make([]byte, 4*x.Elems()), make([]byte, 4*x.Elems())
		if err := errors.Join(want.ReadAt(x.Name, 0, a), got.Source(x.Name, b[:4]), got.Source(x.Name, b[4:])); err != nil {
			t.Fatal(err)
		}
		for k := 0; k < len(a); k += 4 {
			a[k], a[k+1] = 0, 0
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s: widened wrongly", x.Name)
		}
	}
}

// Moments written by any number of ranks are read as one flat tensor, from any place.
func TestMomentsOfRanks(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4, 7} {
		d := &Dir{Path: t.TempDir()}
		w, err := d.Begin(0)
		if err != nil {
			t.Fatal(err)
		}
		for rank := range ranks {
			infos := MomentInfos(moments, ranks, rank)
			f, err := d.Join(0).Tensors(StateName(rank), infos)
			if err != nil {
				t.Fatal(err)
			}
			for k, i := range infos {
				lo := 0
				for r := range rank {
					lo += int(MomentInfos(moments, ranks, r)[k].Shape[0])
				}
				if err := f.Write(i.Name, ramp(moments[k])[4*lo:4*(lo+int(i.Shape[0]))]); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		path, err := w.Commit(State{Ranks: ranks, Sharded: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := ReadState(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := OpenMoments(path, s, moments)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range moments {
			want := ramp(x)
			for _, r := range [][2]int{{0, x.Elems}, {1, x.Elems - 1}, {min(4000, x.Elems-2), min(8300, x.Elems)}} {
				got := make([]byte, 4*(r[1]-r[0]))
				if err := m.ReadAt(x, r[0], got); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want[4*r[0]:4*r[1]]) {
					t.Errorf("%d ranks: %s from %d to %d differs", ranks, x.Name, r[0], r[1])
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenMoments(path, s, []Moment{{"adam.m.a", 9999}}); err == nil {
			t.Errorf("%d ranks: moments of another length: got no error", ranks)
		}
	}
}

// The newest Keep checkpoints stay; the newest is found by number, not by name; what is no checkpoint is passed over.
func TestKeepAndLatest(t *testing.T) {
	m := openModel(t, goldenModel(t, "dense"))
	d := &Dir{Path: t.TempDir(), Keep: 2}
	for _, name := range []string{"step-x", "step-007", ".tmp-step-99"} {
		if err := os.Mkdir(filepath.Join(d.Path, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []int64{2, 9, 10, 100} {
		if _, err := write(d, step, m, 1<<20, State{}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := d.List()
	if err != nil || len(all) != 2 || all[0].Step != 10 || all[1].Step != 100 {
		t.Errorf("got %v, %v, want steps 10 and 100", all, err)
	}
	if e, err := Latest(d.Path); err != nil || e.Step != 100 {
		t.Errorf("got newest %v, %v, want step 100", e, err)
	}
	if _, err := write(d, 100, m, 1<<20, State{}); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a step that is there: got %v, want it refused", err)
	}
	got := openModel(t, d.Path)
	if _, err := got.Tokenizer(0); filepath.Base(got.Path) != "step-100" || !errors.Is(err, weights.ErrNoTokenizer) {
		t.Errorf("got %s, tokenizer %v, want the newest without a tokenizer", got.Path, err)
	}
	if _, err := Latest(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("an empty directory: got %v, want ErrNone", err)
	}
}

// What cannot be opened is one line that says why.
func TestOpenModelErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"nothing":   {func(dir string) error { return os.RemoveAll(dir) }, "no such file"},
		"empty":     {func(dir string) error { return os.Remove(filepath.Join(dir, ConfigName)) }, "neither config.json nor a checkpoint"},
		"no model":  {func(dir string) error { return os.Remove(filepath.Join(dir, ModelName)) }, "model.safetensors is missing"},
		"truncated": {func(dir string) error { return os.Truncate(filepath.Join(dir, ModelName), 5000) }, "is damaged"},
		"another model": {func(dir string) error {
			p, err := os.ReadFile(filepath.Join(dir, ConfigName))
			if err != nil {
				return err
			}
			p = bytes.Replace(p, []byte(`"intermediate_size": 128`), []byte(`"intermediate_size": 96`), 1)
			return os.WriteFile(filepath.Join(dir, ConfigName), p, 0o644)
		}, "want [96 64], file has [128 64]"},
		"lacks a tensor": {func(dir string) error {
			p, err := os.ReadFile(filepath.Join(dir, ConfigName))
			if err != nil {
				return err
			}
			p = bytes.Replace(p, []byte(`"num_hidden_layers": 2`), []byte(`"num_hidden_layers": 3`), 1)
			return os.WriteFile(filepath.Join(dir, ConfigName), p, 0o644)
		}, "is missing"},
	} {
		dir := goldenModel(t, "dense")
		if name == "empty" || name == "nothing" {
			dir = filepath.Join(dir, ".")
		}
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		_, err := OpenModel(dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", name, err, c.want)
		}
	}
}

// A file that lacks elements is not committed, and nothing of it stays.
func TestCommitCountsElements(t *testing.T) {
	m := openModel(t, goldenModel(t, "dense"))
	d := &Dir{Path: t.TempDir()}
	w, err := d.Begin(3)
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.Model(m.Config.Parameters(), wideTypes)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err == nil || !strings.Contains(err.Error(), "elements, got 0") {
		t.Errorf("closing an empty model: got %v, want the count", err)
	}
	sf, err := w.Tensors(StateName(0), MomentInfos(moments[1:], 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sf.Write(moments[1].Name, ramp(moments[1])), sf.Close()); err != nil {
		t.Fatal(err)
	}
	w.Expect(StateName(0), 10007)
	if _, err := w.Commit(State{Ranks: 1}); err == nil || !strings.Contains(err.Error(), "holds 7 elements, want 10007") {
		t.Errorf("committing too few elements: got %v, want the counts", err)
	}
	if names, err := os.ReadDir(d.Path); err != nil || len(names) != 0 {
		t.Errorf("left %v (%v)", names, err)
	}
}

// Two writers of one directory are told apart, and a lock dies with its process.
func TestLock(t *testing.T) {
	if dir := os.Getenv("CHECKPOINT_LOCK_DIR"); dir != "" { // the child
		if _, err := (&Dir{Path: dir}).Open(); err != nil {
			t.Fatal(err)
		}
		fmt.Println("locked")
		select {}
	}
	d := &Dir{Path: filepath.Join(t.TempDir(), "new", "out")}
	l, err := d.Open()
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := d.Open(); !errors.As(err, &locked) || locked.Path != d.Path {
		t.Errorf("a second writer: got %v, want a *LockedError", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestLock$")
	child.Env = append(os.Environ(), "CHECKPOINT_LOCK_DIR="+d.Path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("locked\n"))
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "locked\n" {
		t.Fatalf("the child said %q, %v", said, err)
	}
	if _, err := d.Open(); !errors.As(err, &locked) {
		t.Errorf("while the child lives: got %v, want a *LockedError", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if l, err = d.Open(); err != nil {
		t.Fatalf("after the child was killed: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
