package device

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"loadline/compile"
	"loadline/graph"
	"loadline/mem"
	"loadline/mem/tier"
)

// jobOn is a job of one program with a State of 4 KiB on the device and a temporary one on a tier, copied out and back.
func jobOn(t *testing.T, on mem.Tier) *compile.Job {
	t.Helper()
	ty := graph.F(graph.D(1024))
	p := &compile.Program{Name: "copy", Buffers: []compile.Buffer{
		{Name: "x", Kind: graph.State, Purpose: mem.Weights, Type: ty, Bytes: 4096, Last: 3},
		{Name: "low", Kind: graph.Temp, Tier: on, Purpose: mem.Activations, Type: ty, Bytes: 4096, Last: 3},
		{Name: "y", Kind: graph.Temp, Purpose: mem.Activations, Type: ty, Bytes: 4096, First: 2, Last: 3},
	}}
	op := func(b int32) compile.Operand { return compile.Operand{Buffer: b, Type: ty} }
	p.Instrs = []compile.Instr{
		{Op: graph.Offload{To: on}, In: []compile.Operand{op(0)}, Out: []compile.Operand{op(1)}, Scratch: -1},
		{Op: graph.Wait{}, In: []compile.Operand{op(0), op(1)}, Scratch: -1},
		{Op: graph.Fetch{}, In: []compile.Operand{op(1)}, Out: []compile.Operand{op(2)}, Scratch: -1, Ticket: 1},
		{Op: graph.Wait{}, In: []compile.Operand{op(1), op(2)}, Scratch: -1, Ticket: 1},
	}
	p.Arena[mem.Device], p.Arena[on] = 4096, 4096
	p.Outputs = []compile.Output{{Name: "y", Operand: op(2)}}
	j, err := compile.NewJob(mem.Usage{}, p)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestCopiesGoDownAndBack(t *testing.T) {
	for _, at := range []mem.Tier{mem.Host, mem.Disk} {
		l, dir := mem.NewLedger(mem.Limits{}), t.TempDir()
		j := jobOn(t, at)
		m, err := NewMemory(j, Env{Ledger: l, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Plan().Check(l.Peak()); err != nil {
			t.Error(err)
		}
		if got := l.InUse().Total(at); got < 4096 {
			t.Errorf("%v booked on %v", got, at)
		}
		want := bytes.Repeat([]byte{1, 2, 3, 4}, 1024)
		if err := m.Write("x", 0, want); err != nil {
			t.Fatal(err)
		}
		p := j.Programs[0]
		for _, i := range []int{0, 2} {
			c, err := m.Copy(p, &p.Instrs[i])
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Wait(m.Start(c)); err != nil {
				t.Fatal(err)
			}
		}
		m.Ran(p, p.Bounds)
		got := make([]byte, 4096)
		if err := m.Read("y", 0, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("what came back from %v differs", at)
		}
		if err := errors.Join(m.Drain(), m.Close()); err != nil {
			t.Error(err)
		}
		if n := l.InUse().All(); n != 0 {
			t.Errorf("%v booked after Close", n)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

func TestNamesAndRangesAreChecked(t *testing.T) {
	j := jobOn(t, mem.Host)
	m, err := NewMemory(j, Env{Ledger: mem.NewLedger(mem.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	buf := make([]byte, 8)
	for _, c := range []struct {
		name string
		at   int64
		ok   bool
	}{{"x", 0, true}, {"x", 4088, true}, {"x", 4089, false}, {"x", -1, false}, {"x", 1 << 62, false}, {"low", 0, false}, {"y", 0, false}} {
		if err := m.Write(c.name, c.at, buf); (err == nil) != c.ok {
			t.Errorf("Write %q at %d: %v", c.name, c.at, err)
		}
		if err := m.Read(c.name, c.at, buf); (err == nil) != c.ok {
			t.Errorf("Read %q at %d: %v", c.name, c.at, err)
		}
	}
	m.Ran(j.Programs[0], graph.Bounds{})
	if err := m.Read("y", 4088, buf); err != nil {
		t.Error(err)
	}
	if err := m.Read("y", 4089, buf); err == nil {
		t.Error("Read past an output")
	}
	if err := m.Write("y", 0, buf); err == nil {
		t.Error("Write to an output")
	}
}

func TestFailedOpeningHoldsNothing(t *testing.T) {
	dir := t.TempDir()
	for name, env := range map[string]Env{
		"budget":       {Ledger: mem.NewLedger(mem.Limits{Memory: 6 * mem.KiB}), Dir: dir},
		"disk budget":  {Ledger: mem.NewLedger(mem.Limits{Tier: [mem.NumTiers]mem.Bytes{mem.Disk: 100}}), Dir: dir},
		"no directory": {Ledger: mem.NewLedger(mem.Limits{})},
		"wrong place":  {Ledger: mem.NewLedger(mem.Limits{}), Dir: dir + "/missing"},
	} {
		_, err := NewMemory(jobOn(t, mem.Disk), env)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want an error of one line", name, err)
		}
		if n := env.Ledger.InUse().All(); n != 0 {
			t.Errorf("%s: %v booked", name, n)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// A weight that lies in a file of its owner's is fetched from there, is only read, and takes nothing of the ledger.
func TestFetchFromHome(t *testing.T) {
	ty := graph.F(graph.D(1024))
	p := &compile.Program{Name: "fetch", Buffers: []compile.Buffer{
		{Name: "other", Kind: graph.State, Tier: mem.Disk, Purpose: mem.Weights, Type: ty, Bytes: 4096, Last: 1},
		{Name: "w", Kind: graph.State, Tier: mem.Disk, Purpose: mem.Weights, Type: ty, Bytes: 4096, Last: 1},
		{Name: "w.here", Kind: graph.Temp, Purpose: mem.Weights, Type: ty, Bytes: 4096, Last: 1},
	}}
	op := func(b int32) compile.Operand { return compile.Operand{Buffer: b, Type: ty} }
	p.Instrs = []compile.Instr{
		{Op: graph.Fetch{}, In: []compile.Operand{op(1)}, Out: []compile.Operand{op(2)}, Scratch: -1},
		{Op: graph.Wait{}, In: []compile.Operand{op(1), op(2)}, Scratch: -1},
	}
	p.Arena[mem.Device] = 4096
	p.Outputs = []compile.Output{{Name: "w.here", Operand: op(2)}}
	j, err := compile.NewJob(mem.Usage{}, p)
	if err != nil {
		t.Fatal(err)
	}
	file := make([]byte, 8192)
	for i := range file {
		file[i] = byte(i * 7)
	}
	l := mem.NewLedger(mem.Limits{})
	m, err := NewMemory(j, Env{Ledger: l, Home: tier.NewMemStore(file)})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Plan().Check(l.Peak()); err != nil || l.InUse().Total(mem.Disk) != 0 {
		t.Errorf("booked %v, %v", l.InUse(), err)
	}
	c, err := m.Copy(p, &p.Instrs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Wait(m.Start(c)); err != nil {
		t.Fatal(err)
	}
	m.Ran(p, graph.Bounds{})
	for _, name := range []string{"w.here", "w"} {
		got := make([]byte, 4096)
		if err := m.Read(name, 0, got); err != nil || !bytes.Equal(got, file[4096:]) {
			t.Errorf("%s: got %v and other bytes than the file has at the slot's offset", name, err)
		}
	}
	if err := m.Write("w", 0, file[:8]); err == nil || !strings.Contains(err.Error(), "only read") {
		t.Errorf("write: got %v, want a refusal", err)
	}
	back := compile.Instr{Op: graph.Offload{To: mem.Disk}, In: []compile.Operand{op(2)}, Out: []compile.Operand{op(1)}, Scratch: -1}
	if _, err := m.Copy(p, &back); err == nil || !strings.Contains(err.Error(), "only read") {
		t.Errorf("copy out: got %v, want a refusal", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if u := l.InUse(); u != (mem.Usage{}) {
		t.Errorf("after Close: %v is still booked", u)
	}
}
