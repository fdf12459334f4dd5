package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/data"
)

// What is written is plain JSON, and is read as it was, in any order.
func TestStateRoundTrip(t *testing.T) {
	for _, losses := range [][]float32{nil, {1}, {0, math.SmallestNonzeroFloat32, math.MaxFloat32, -1.5e-7, 6.931472, 1e21}} {
		s := &State{
			Format: format, Step: int64(len(losses)), Agree: map[string]string{"seq": "8"}, Ranks: 3, Sharded: true,
			Position: data.Position{Epoch: 2}, Kernels: "avx2", Losses: losses, ValLosses: []ValLoss{{1, 2.5}}, Files: map[string]FileInfo{"a": {5, 6}},
		}
		var b bytes.Buffer
		if err := s.write(&b); err != nil {
			t.Fatal(err)
		}
		var plain State
		if err := json.Unmarshal(b.Bytes(), &plain); err != nil {
			t.Fatalf("%v: %s", err, b.String())
		}
		got, err := readState(&b)
		if err != nil {
			t.Fatal(err)
		}
		if len(losses) == 0 {
			plain.Losses = nil
		}
		if d := cmp.Diff(s, got); d != "" || cmp.Diff(s, &plain) != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
	got, err := readState(strings.NewReader(`{"losses":[1,2],"step":2,"unknown":[{}],"ranks":1}`))
	if err != nil || got.Step != 2 || got.Ranks != 1 || len(got.Losses) != 2 {
		t.Errorf("another order: got %+v and %v", got, err)
	}
	for _, text := range []string{
		"", "null", "[]", "7", `{`, `{"losses"`, `{"losses":[`, `{"losses":[1`, `{"losses":{}}`, `{"losses":["1"]}`, `{"losses":[1e99]}`, `{"step":"1"}`,
		`{"step":1`, `{"losses":[1,]}`, `{1:2}`, strings.Repeat(`{"a":`, 100_000), strings.Repeat("[", 100_000),
	} {
		if _, err := readState(strings.NewReader(text)); err == nil {
			t.Errorf("%.20q: got no error", text)
		}
	}
}

// Writing a million losses takes little heap besides them.
func TestStateHeap(t *testing.T) {
	const n = 1 << 20
	s := &State{Losses: make([]float32, n)}
	for i := range s.Losses {
		s.Losses[i] = 7 / float32(i+1)
	}
	var text bytes.Buffer
	text.Grow(16 * n)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would count too
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	if err := s.write(&text); err != nil {
		t.Fatal(err)
	}
	if got := allocated() - before; got > 1<<20 {
		t.Errorf("writing allocates %d bytes, want at most a megabyte", got)
	}
}

func FuzzReadState(f *testing.F) {
	f.Add([]byte(`{"format":1,"step":2,"agree":{},"ranks":1,"files":{},"losses":[1,2.5]}`))
	f.Add([]byte(`{"losses":null,"val_losses":[{"step":1,"loss":2}]}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := readState(bytes.NewReader(p))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := s.write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := readState(&b)
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Losses) != len(s.Losses) || again.Step != s.Step {
			t.Errorf("got %d losses of step %d, want %d of %d", len(again.Losses), again.Step, len(s.Losses), s.Step)
		}
	})
}

// TestCheck: of settings that differ, one that the checkpoint does not know of follows from another, which is told.
func TestCheck(t *testing.T) {
	s := &State{Agree: map[string]string{"precision": "fp32", "seq": "8"}}
	for _, x := range []struct{ precision, scale, seq, want string }{
		{"fp32", "", "8", ""}, {"fp16", "65536", "8", "precision"}, {"fp16", "65536", "16", "precision"}, {"fp32", "65536", "8", "loss scale"}, {"fp32", "65536", "16", "seq"},
	} {
		agree := map[string]string{"precision": x.precision, "seq": x.seq}
		if x.scale != "" {
			agree["loss scale"] = x.scale
		}
		got := ""
		var d *Disagreement
		if errors.As(s.Check(agree), &d) {
			got = d.Name
		}
		if got != x.want {
			t.Errorf("%v: got %q, want %q", agree, got, x.want)
		}
	}
}
