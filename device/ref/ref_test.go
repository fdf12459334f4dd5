package ref

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// kinds returns the types of package graph that are operations, with the file that each is in.
func kinds(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../graph/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of package graph: %v", err)
	}
	out := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, d := range parse(t, name).Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "Kind" && f.Recv != nil {
				out[f.Recv.List[0].Type.(*ast.Ident).Name] = filepath.Base(name)
			}
		}
	}
	return out
}

func parse(t *testing.T, name string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEveryOperation checks that each operation of package graph has a kernel here, in a file of the same name.
func TestEveryOperation(t *testing.T) {
	have := map[string]bool{}
	ast.Inspect(parse(t, "ops.go"), func(n ast.Node) bool {
		if c, ok := n.(*ast.CaseClause); ok {
			for _, e := range c.List {
				if s, ok := e.(*ast.SelectorExpr); ok {
					have[s.Sel.Name] = true
				}
			}
		}
		return true
	})
	all := kinds(t)
	if len(all) < 45 {
		t.Fatalf("found only %d operations in package graph", len(all))
	}
	for op, file := range all {
		if !have[op] {
			t.Errorf("no kernel for graph.%s", op)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("graph.%s is in %s; there is no such file here: %v", op, file, err)
		}
	}
}

// oneOp compiles a program that applies op to Inputs of the given types.
func oneOp(t *testing.T, op graph.Op, in ...graph.Type) *compile.Job {
	t.Helper()
	b := graph.NewBuilder("one", graph.Bounds{Rows: 4, Outs: 4})
	var vs []graph.Value
	for i, ty := range in {
		vs = append(vs, b.Input(string(rune('a'+i)), ty))
	}
	for i, v := range b.Apply(op, vs...) {
		b.Output("out"+string(rune('0'+i)), v)
	}
	p, err := compile.Step(b.G, compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	j, err := compile.NewJob(mem.Usage{}, p)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// unknown is an operation that no device has.
type unknown struct{ graph.AddOp }

func TestOpenRefuses(t *testing.T) {
	x := graph.F(graph.D(3))
	for _, c := range []struct {
		name string
		d    *Device
		job  *compile.Job
		want string
	}{
		{"an unknown operation", New(F32), oneOp(t, unknown{}, x, x), "no such operation"},
		{"a type too wide", New(F32), oneOp(t, graph.Cast{To: dtype.F64}, x), "f64 is not supported"},
		{"a type without rounding", New(F64), oneOp(t, graph.Cast{To: dtype.F8E5M2}, x), "f8e5m2 is not supported"},
		{"an integer cast", New(F32), oneOp(t, graph.Cast{To: dtype.I32}, x), "want a float type"},
		{"a missing rank", New(F32), oneOp(t, graph.AllReduce{Ranks: 2}, x), "built for 2 ranks, the group has 1"},
	} {
		l := mem.NewLedger(mem.Limits{})
		_, err := c.d.Open(c.job, device.Env{Ledger: l})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want …%s…", c.name, err, c.want)
		}
		if l.InUse() != (mem.Usage{}) {
			t.Errorf("%s: holds %v", c.name, l.InUse())
		}
	}
	if _, err := New(F32).Open(oneOp(t, graph.AddOp{}, x, x), device.Env{}); err == nil {
		t.Error("no ledger: want an error")
	}
}

// TestPoison checks that a buffer that is read before it is written, or after it is free, holds NaN.
func TestPoison(t *testing.T) {
	x := graph.F(graph.D(4))
	p := &compile.Program{Name: "poison", Bounds: graph.Bounds{Rows: 1, Outs: 1}}
	for _, name := range []string{"early", "late", "out"} {
		p.Buffers = append(p.Buffers, compile.Buffer{Name: name, Kind: graph.Temp, Type: x, Bytes: 64})
	}
	o := func(b int32) compile.Operand { return compile.Operand{Buffer: b, Type: x} }
	p.Instrs = []compile.Instr{
		{Op: graph.AddOp{}, In: []compile.Operand{o(0), o(0)}, Out: []compile.Operand{o(2)}, Scratch: -1},
	}
	p.Outputs = []compile.Output{{Name: "out", Operand: o(2)}}
	p.Arena[mem.Device] = 192
	j, err := compile.NewJob(mem.Usage{}, p)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(F64).Open(j, device.Env{Ledger: mem.NewLedger(mem.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Run("poison", device.Args{}); err != nil {
		t.Fatal(err)
	}
	var got [4]float64
	if err := s.(Exact).ReadF64("out", 0, got[:]); err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if !math.IsNaN(x) {
			t.Errorf("element %d of what was never written is %g", i, x)
		}
	}
	a := newPool[float32]()
	a.alloc(p, 1)
	st := a.live[1]
	st.f[0] = 1
	a.release(p, 1)
	if st.f[0] == st.f[0] {
		t.Errorf("a freed buffer still holds %g", st.f[0])
	}
	if a.used != (mem.Usage{}) {
		t.Errorf("after the last release %v is in use", a.used)
	}
}

// TestCopiesAreWaitedFor checks the tickets of copies between tiers.
func TestCopiesAreWaitedFor(t *testing.T) {
	x := graph.F(graph.D(4))
	program := func(name string, instrs ...compile.Instr) *compile.Program {
		p := &compile.Program{Name: name, Bounds: graph.Bounds{Rows: 1, Outs: 1}, Instrs: instrs}
		p.Buffers = []compile.Buffer{{Name: "x", Kind: graph.State, Type: x, Bytes: 64}, {Name: "x@host", Kind: graph.Temp, Tier: mem.Host, Type: x, Bytes: 64}}
		p.Arena[mem.Host] = 64
		return p
	}
	a, b := compile.Operand{Buffer: 0, Type: x}, compile.Operand{Buffer: 1, Type: x}
	out := compile.Instr{Op: graph.Offload{To: mem.Host}, In: []compile.Operand{a}, Out: []compile.Operand{b}, Scratch: -1, Ticket: 3}
	wait := compile.Instr{Op: graph.Wait{}, In: []compile.Operand{a, b}, Scratch: -1, Ticket: 3}
	j, err := compile.NewJob(mem.Usage{}, program("good", out, wait), program("early", wait), program("never", out), program("twice", out, out))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(F32).Open(j, device.Env{Ledger: mem.NewLedger(mem.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"early", "never", "twice"} {
		if s.Run(name, device.Args{}) == nil {
			t.Errorf("program %q: want an error", name)
		}
	}
	if err := s.Run("good", device.Args{}); err != nil {
		t.Error(err)
	}
}

func TestExactBounds(t *testing.T) {
	s, err := New(F64).Open(oneOp(t, graph.AddOp{}, graph.F(graph.R(1)), graph.F(graph.R(1))), device.Env{Ledger: mem.NewLedger(mem.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	x := s.(Exact)
	third := []float64{1.0 / 3, 2, 3, 4}
	for _, name := range []string{"a", "b"} {
		if err := x.WriteF64(name, 0, third); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Run("one", device.Args{Rows: 2}); err != nil {
		t.Fatal(err)
	}
	var got [2]float64
	if err := x.ReadF64("out0", 0, got[:]); err != nil || got[0] != 2.0/3 {
		t.Errorf("got %v, %v, want 2/3 in float64", got, err)
	}
	if x.ReadF64("out0", 1, got[:]) == nil {
		t.Error("reading beyond the rows of the run: want an error")
	}
	if x.ReadF64("a", -1, got[:]) == nil || x.WriteF64("a", 15, third) == nil || x.WriteF64("c", 0, third) == nil {
		t.Error("out of bounds: want errors")
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if x.Run("one", device.Args{}) == nil || x.ReadF64("a", 0, got[:]) == nil || x.WriteF64("a", 0, third) == nil || x.Close() == nil {
		t.Error("a closed session: want errors")
	}
}
