// Package loadline holds no code: its tests keep the rules of the house over the whole tree, as STYLE.md marks
// them. This file says which package may import which; repo_code_test.go what code may do (purity, memory, state);
// repo_text_test.go how it is written (comments, size, names, words, ARCHITECTURE.md); repo_tree_test.go reads the
// tree, parsing files itself, since a test that shells out to the go command passes from a stale cache.
//
// Every rule is a function from a tree to its faults. TestRepo runs them over this repository, and TestRules over
// small trees that break them, so that none goes blind.
package loadline

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// ranks orders every package of the module, lowest first. Code that is not a test imports only from rows above its
// own here, never from its own row. A package that is not listed fails: adding one is a decision, made here.
var ranks = [][]string{
	{"internal/bounded", "internal/bytesize", "internal/edits", "internal/golden", "internal/par", "internal/regular", "internal/script", "internal/whole"},
	{"mem"},
	{"mem/arena"},
	{"mem/tier"},
	{"tensor/dtype"},
	{"tensor/quant"},
	{"tensor", "tensor/kernel"},
	{"graph"},
	{"cost"},
	{"compile", "model/gguf", "model/hub", "model/safetensors", "model/tokenizer"},
	{"collective", "model"},
	{"model/weights"},
	{"model/convert"},
	{"collective/local", "device"},
	{"device/cpu", "device/ref"},
	{"device/far"},
	{"device/devicetest"},
	{"data/corpus", "data/jsonl", "data/parquet"},
	{"data"},
	{"serve/chat", "serve/kvcache", "serve/sample", "train/checkpoint"},
	{"serve/sched"},
	{"eval", "serve", "train"},
	{"planner/hardware", "planner/probe", "planner/shape"},
	{"planner/frameworks"},
	{"planner/score"},
	{"planner"},
	{"planner/pricing", "planner/search"},
	{"planner/writers"},
	{"planner/logcheck", "web"},
	{"cmd/loadline"},
	{".", "e2e", "examples/customblock"},
}

// apart lists families of packages that do not import each other whatever their ranks, in either direction. A
// family is a folder, or several joined by spaces.
var apart = [][]string{
	{"model", "compile collective device"},
	{"train", "quantize", "eval", "serve"},
}

// testSupport lists the packages that only tests import. The memory rule leaves them alone.
var testSupport = []string{"device/devicetest", "internal/bounded", "internal/golden", "internal/script"}

// rules are all the rules, by name.
var rules = map[string]func(*tree) []string{
	"imports":      imports,
	"pure":         pure,
	"memory":       memory,
	"state":        state,
	"comments":     comments,
	"docs":         docs,
	"size":         size,
	"gofmt":        gofmt,
	"words":        words,
	"architecture": architecture,
	"safety":       safety,
}

func TestRepo(t *testing.T) {
	tr, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.pkgs) < 10 {
		t.Fatalf("got %d packages, want the whole tree", len(tr.pkgs))
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		t.Run(name, func(t *testing.T) {
			for _, fault := range rules[name](tr) {
				t.Error(fault)
			}
		})
	}
}

// imports holds ranks, apart and testSupport.
func imports(t *tree) (faults []string) {
	rank := map[string]int{}
	for i, row := range ranks {
		for _, dir := range row {
			if _, twice := rank[dir]; twice {
				faults = append(faults, fmt.Sprintf("repo_test.go: package %s is ranked twice", dir))
			}
			rank[dir] = i
		}
	}
	for _, p := range t.sorted() {
		if p.nested {
			continue
		}
		mine, ok := rank[p.dir]
		if !ok {
			faults = append(faults, fmt.Sprintf("%s: package is not in ranks, in repo_test.go", p.dir))
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, path := range f.paths() {
				dir, ours := t.dirOf(path)
				if !ours {
					continue
				}
				theirs, ok := rank[dir]
				switch {
				case !ok:
					faults = append(faults, fmt.Sprintf("%s: imports %s, which is not in ranks", f.path, dir))
				case theirs >= mine:
					faults = append(faults, fmt.Sprintf("%s: %s (rank %d) imports %s (rank %d), want a lower one", f.path, p.dir, mine, dir, theirs))
				case parted(p.dir, dir):
					faults = append(faults, fmt.Sprintf("%s: %s imports %s, which stands apart from it", f.path, p.dir, dir))
				case slices.Contains(testSupport, dir) && !slices.Contains(testSupport, p.dir):
					faults = append(faults, fmt.Sprintf("%s: imports %s, which is for tests", f.path, dir))
				}
			}
		}
	}
	return faults
}

// parted tells whether two packages belong to families that apart keeps apart.
func parted(a, b string) bool {
	a, _, _ = strings.Cut(a, "/")
	b, _, _ = strings.Cut(b, "/")
	for _, families := range apart {
		family := func(top string) int {
			return slices.IndexFunc(families, func(f string) bool { return slices.Contains(strings.Fields(f), top) })
		}
		if i, j := family(a), family(b); i >= 0 && j >= 0 && i != j {
			return true
		}
	}
	return false
}

// TestRules shows each rule a tree that breaks it, and one close to that which does not.
func TestRules(t *testing.T) {
	const head = "// Package p is for this test.\npackage p\n\n"
	pkg := func(name, body string) string {
		return "// Package " + name + " is for this test.\npackage " + name + "\n\n" + body
	}
	type files = map[string]string
	for _, c := range []struct {
		rule  string
		files files
		want  string // in the one fault; empty for none
	}{
		{"imports", files{"mem/a.go": pkg("mem", `import _ "loadline/graph"`)}, "want a lower one"},
		{"imports", files{"graph/a.go": pkg("graph", `import _ "loadline/mem"`)}, ""},
		{"imports", files{"mem/a_test.go": pkg("mem", `import _ "loadline/graph"`)}, ""},
		{"imports", files{"serve/a.go": pkg("serve", `import _ "loadline/train/checkpoint"`)}, "stands apart"},
		{"imports", files{"device/a.go": pkg("device", `import _ "loadline/compile"`)}, ""},
		{"imports", files{"device/a.go": pkg("device", `import _ "loadline/model/tokenizer"`)}, "stands apart"},
		{"imports", files{"train/a.go": pkg("train", `import _ "loadline/serve"`)}, "want a lower one"},
		{"imports", files{"train/a.go": pkg("train", `import _ "loadline/internal/script"`)}, "is for tests"},
		{"imports", files{"util/a.go": pkg("util", ``)}, "not in ranks"},
		{"imports", files{"util/a.go": pkg("util", ``), "util/go.mod": "module x"}, ""},

		{"pure", files{"graph/a.go": pkg("graph", `import "time"; var _ = time.Now`)}, "time.Now"},
		{"pure", files{"graph/a.go": pkg("graph", `import clock "time"; var _ = clock.Now`)}, "time.Now"},
		{"pure", files{"graph/a.go": pkg("graph", `import "time"; var _ time.Duration`)}, ""},
		{"pure", files{"compile/a.go": pkg("compile", `import "math/rand/v2"`)}, "math/rand/v2"},
		{"pure", files{"cost/a.go": pkg("cost", `import "os/exec"`)}, "os/exec"},
		{"pure", files{"serve/sched/a.go": pkg("sched", "func f() { go f() }")}, "go statement"},
		{"pure", files{"serve/kvcache/a.go": pkg("kvcache", "var c = make(chan int)")}, "channel"},
		{"pure", files{"compile/a.go": pkg("compile", `import "loadline/mem/arena"; var _ = arena.New`)}, "arena.New"},
		{"pure", files{"compile/a.go": pkg("compile", `import "loadline/mem/arena"; var _ = arena.Round`)}, ""},
		{"pure", files{"graph/a.go": pkg("graph", `import "loadline/mem/tier"`)}, "imports mem/tier, which is not pure"},
		{"pure", files{"mem/tier/a.go": pkg("tier", `import "os"`)}, ""},

		{"safety", files{"a.md": "`p.TestA`", "p/a_test.go": "package p\nfunc TestA() {}"}, ""},
		{"safety", files{"a.md": "`p.TestB`", "p/a_test.go": "package p\nfunc TestA() {}"}, "names the test p.TestB"},
		{"safety", files{"serve/a_test.go": "package serve\nfunc FuzzA() {}"}, "80-fuzz.sh: lacks serve.FuzzA"},
		{"safety", files{"serve/a_test.go": "package serve\nfunc FuzzA() {}", "80-fuzz.sh": "\t\"x ./serve FuzzA\"\n"}, ""},
		{"safety", files{"80-fuzz.sh": "\t\"x ./serve FuzzA\"\n"}, "names the test serve.FuzzA"},
		{"safety", files{"docs/safety.md": "CVE-2024-1"}, "which no test names"},
		{"safety", files{"p/a_test.go": "package p\n// CVE-2024-1\n"}, "lacks CVE-2024-1"},

		{"memory", files{"p/a.go": head + "func f(n int) []float32 { return make([]float32, n) }"}, "make([]float32, n)"},
		{"memory", files{"p/a.go": head + "func f(n int) []float32 { return make([]float32, n) } //mem:ok small"}, ""},
		{"memory", files{"p/a.go": head + "func f(n int) []float32 { return make([]float32, n) } //mem:ok"}, "make([]float32, n)"},
		{"memory", files{"p/a.go": head + "func f[T any](n int) []T { return make([]T, n) }"}, "make([]T, n)"},
		{"memory", files{"p/a.go": head + "func f(n int) []byte { return make([]byte, 0, n) }"}, "make([]byte, 0, n)"},
		{"memory", files{"p/a.go": head + "const n = 1 << 14\nvar x = make([]int32, n)"}, ""},
		{"memory", files{"p/a.go": head + "const n = 1 << 14\nvar x = make([]int32, n+1)"}, "make([]int32, n + 1)"},
		{"memory", files{"p/a.go": head + "const n = 8\nfunc f(n int) []byte { return make([]byte, n) }"}, "make([]byte, n)"},
		{"memory", files{"p/a.go": head + `import "loadline/q"; var x = make([]float32, q.N)`, "q/q.go": pkg("q", "const N = 64 << 10 / 4")}, ""},
		{"memory", files{"p/a.go": head + `import "unicode/utf8"; var x = make([]byte, utf8.UTFMax)`}, ""},
		{"memory", files{"p/a.go": head + "var x [1 << 15]float32"}, "[1 << 15]float32"},
		{"memory", files{"p/a.go": head + "var x [1 << 14]float32"}, ""},
		{"memory", files{"p/a_test.go": head + "func f(n int) []float32 { return make([]float32, n) }"}, ""},
		{"memory", files{"p/a.go": head + "func f(n int) []string { return make([]string, n) }"}, ""},

		{"state", files{"p/a.go": head + "func init() {}"}, "func init"},
		{"state", files{"p/a.go": head + "var Table = 1"}, "exported variable Table"},
		{"state", files{"p/a.go": head + `import "errors"; var ErrX = errors.New("x")`}, ""},
		{"state", files{"p/a.go": head + "var n int\nfunc f() { n = 1 }"}, "assigns to n"},
		{"state", files{"p/a.go": head + "var n int", "p/b.go": "package p\nfunc f() { n++ }"}, "assigns to n"},
		{"state", files{"p/a.go": head + "var n [2]int\nfunc f() { n[0] = 1 }"}, "assigns to n"},
		{"state", files{"p/a.go": head + "var n []int\nfunc f() { clear(n) }"}, "assigns to n"},
		{"state", files{"p/a.go": head + "var n int\nfunc f() { n := 1; n = 2; _ = n }"}, ""},
		{"state", files{"p/a.go": head + `import "sync"; var mu sync.Mutex`}, "sync.Mutex"},
		{"state", files{"p/a.go": head + "var n map[string]int", "q/q.go": pkg("q", "import \"loadline/p\"\nfunc f() { p.n[\"\"] = 1 }")}, "assigns to p.n"},

		{"comments", files{"p/a.go": "package p"}, "got no package comment"},
		{"comments", files{"p/a.go": "// Package p is.\n\npackage p"}, "got no package comment"},
		{"comments", files{"p/a.go": head, "p/b.go": head}, "got 2 package comments"},
		{"comments", files{"p/a.go": "// Some words.\npackage p"}, `want it to begin "Package p "`},
		{"comments", files{"cmd/p/a.go": "// Command p is.\npackage main"}, ""},

		{"docs", files{"p/a.go": head + "func F() {}"}, "F has no doc comment"},
		{"docs", files{"p/a.go": head + "// Does things.\nfunc F() {}"}, `doc comment of F begins "Does"`},
		{"docs", files{"p/a.go": head + "// F does things.\nfunc F() {}"}, ""},
		{"docs", files{"p/a.go": head + "type T int"}, "T has no doc comment"},
		{"docs", files{"p/a.go": head + "const (\n\tA = 1\n)"}, "A has no doc comment"},
		{"docs", files{"p/a.go": head + "// Letters.\nconst (\n\tA = 1\n)"}, ""},
		{"docs", files{"p/a.go": head + "type t int\nfunc (t) M() {}"}, ""},
		{"docs", files{"p/a.go": head + "// T is.\ntype T int\nfunc (T) M() {}"}, "M has no doc comment"},
		{"docs", files{"p/a.go": head + "// T is.\ntype T int\nfunc (T) M() {}\ntype i interface { M() }"}, ""},

		{"size", files{"p/a.go": head + strings.Repeat("\n", 800)}, "803 lines"},
		{"size", files{"p/a.go": "// Code generated by x. DO NOT EDIT.\n\n" + head + strings.Repeat("\n", 800)}, ""},
		{"gofmt", files{"p/a.go": head + "var  x int\n"}, "not gofmt-ed"},

		{"words", files{"p/a.go": head + "// TO" + "DO: more"}, "unfinished"},
		{"words", files{"README.md": "See /ro" + "ot/x"}, "path of a machine"},
		{"words", files{"p/a.go": head + "// in /tm" + "p/x"}, "path of a machine"},
		{"words", files{"p/a_test.go": head + "// in /tm" + "p/x"}, ""},

		{"architecture", files{"p/a.go": head + "func F() {}", "ARCHITECTURE.md": "`p.F`, `p.F(1)`"}, ""},
		{"architecture", files{"p/a.go": head, "ARCHITECTURE.md": "`p.G`"}, "p.G"},
		{"architecture", files{"p/a.go": head, "ARCHITECTURE.md": "`q.G`"}, "q.G"},
		{"architecture", files{"p/a.go": head, "ARCHITECTURE.md": "```\n  p.G  words\n```"}, "p.G"},
		{"architecture", files{"p/a.go": head + "type T struct{ F int }\nfunc (*T) M() {}", "ARCHITECTURE.md": "`p.T.M` `p.T.F` `(*p.T).M`"}, ""},
		{"architecture", files{"p/a.go": head + "type T struct{}", "ARCHITECTURE.md": "`p.T.M`"}, "p.T.M"},
		{"architecture", files{"p/a.go": head + "import \"os\"\nvar _ os.File", "ARCHITECTURE.md": "`os.File` `a.go` `go test ./...`"}, ""},
	} {
		fsys := fstest.MapFS{}
		for name, src := range c.files {
			fsys[name] = &fstest.MapFile{Data: []byte(src)}
		}
		tr, err := readTree(fsys)
		if err != nil {
			t.Fatalf("%s %q: %v", c.rule, c.files, err)
		}
		got := rules[c.rule](tr)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s %q:\n got %q\nwant %q", c.rule, c.files, got, c.want)
		}
	}
}
