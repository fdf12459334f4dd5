package loadline

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"
)

// purePackages decide and do nothing: no clock, files, network, goroutines or randomness. Their impure children
// stand on their own.
var purePackages = []string{
	"compile", "cost", "graph", "mem", "planner", "planner/frameworks", "planner/hardware", "planner/pricing", "planner/score", "planner/search", "planner/shape", "planner/writers",
	"serve/kvcache", "serve/sched",
}

// neutral are the other packages of this module that a pure one may import, with the names it may use, or all of
// them.
var neutral = map[string][]string{
	"internal/bytesize": nil,
	"internal/edits":    nil,
	"mem/arena":         {"Round"},              // how many bytes an arena takes is the arena's to say
	"model/gguf":        {"Info", "ReadHeader"}, // from a reader, without a file
	"tensor":            nil,
	"tensor/dtype":      nil,
}

// impureImports are packages, with all below them, and impureNames the names of others, that a pure package does
// not use.
var (
	impureImports = []string{"os", "net", "math/rand", "crypto/rand", "syscall", "log", "runtime", "unsafe", "golang.org/x/sys"}
	impureNames   = map[string][]string{
		"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Timer", "Ticker"},
		"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
		"sync": {"WaitGroup", "Cond"},
	}
)

// pure holds purePackages.
func pure(t *tree) (faults []string) {
	for _, p := range t.sorted() {
		if !slices.Contains(purePackages, p.dir) {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			for _, imp := range f.paths() {
				for _, bad := range impureImports {
					if imp == bad || strings.HasPrefix(imp, bad+"/") {
						faults = append(faults, fmt.Sprintf("%s: %s is pure and imports %s", f.path, p.dir, imp))
					}
				}
				if dir, ours := t.dirOf(imp); ours && !slices.Contains(purePackages, dir) {
					if _, ok := neutral[dir]; !ok {
						faults = append(faults, fmt.Sprintf("%s: %s is pure and imports %s, which is not pure", f.path, p.dir, dir))
					}
				}
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				what := ""
				switch n := n.(type) {
				case *ast.GoStmt:
					what = "has a go statement"
				case *ast.ChanType:
					what = "has a channel"
				case *ast.SelectorExpr:
					imp := f.imported(n.X)
					if slices.Contains(impureNames[imp], n.Sel.Name) {
						what = "uses " + imp + "." + n.Sel.Name
					}
					dir, ours := t.dirOf(imp)
					if only := neutral[dir]; ours && only != nil && !slices.Contains(only, n.Sel.Name) {
						what = "uses " + path.Base(dir) + "." + n.Sel.Name
					}
				}
				if what != "" {
					faults = append(faults, fmt.Sprintf("%s: %s is pure and %s", t.at(n), p.dir, what))
				}
				return true
			})
		}
	}
	return faults
}

// heapBytes is the largest buffer that need not come from a reservation.
const heapBytes = 64 << 10

// elemBytes are the element types of buffers of numbers, and their sizes. A type parameter counts as the largest.
var elemBytes = map[string]int64{"byte": 1, "uint8": 1, "int8": 1, "uint16": 2, "int32": 4, "float32": 4, "float64": 8}

// allowed is a line's leave to allocate, with its reason.
var allowed = regexp.MustCompile(`//mem:ok \S`)

// memory finds buffers on the Go heap that may pass heapBytes: a make of numbers whose length or capacity is not a
// constant known to be small, or an array type that large, on a line without a reason.
func memory(t *tree) (faults []string) {
	for _, p := range t.sorted() {
		if p.nested || slices.Contains(testSupport, p.dir) {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			small := func(elem ast.Expr, n ast.Expr) bool {
				count, known := t.value(p, f, n)
				return known && count <= heapBytes/elemSize(elem)
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				big := false
				switch n := n.(type) {
				case *ast.CallExpr:
					if id, ok := n.Fun.(*ast.Ident); !ok || id.Name != "make" || len(n.Args) < 2 {
						return true
					}
					array, ok := n.Args[0].(*ast.ArrayType)
					if !ok || elemSize(array.Elt) == 0 {
						return true
					}
					big = !small(array.Elt, n.Args[len(n.Args)-1])
				case *ast.ArrayType:
					if n.Len == nil || elemSize(n.Elt) == 0 {
						return true
					}
					_, known := t.value(p, f, n.Len)
					big = known && !small(n.Elt, n.Len)
				}
				if big && !allowed.MatchString(f.lines[t.fset.Position(n.Pos()).Line-1]) {
					faults = append(faults, fmt.Sprintf("%s: %s may pass 64 KiB: take it from a reservation, or say why not with //mem:ok", t.at(n), types.ExprString(n.(ast.Expr))))
				}
				return true
			})
		}
	}
	return faults
}

// elemSize is the size of a buffer's element of this type, 0 for what is no number. A single capital is a type
// parameter.
func elemSize(x ast.Expr) int64 {
	id, ok := x.(*ast.Ident)
	if !ok {
		return 0
	}
	if len(id.Name) == 1 && ast.IsExported(id.Name) {
		return 8
	}
	return elemBytes[id.Name]
}

// state forbids init functions and package-level variables that can change: an exported one that is not an error,
// one that is assigned to, and one of a type that exists to change.
func state(t *tree) (faults []string) {
	for _, p := range t.sorted() {
		if p.nested {
			continue
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			fault := func(n ast.Node, format string, args ...any) {
				faults = append(faults, t.at(n)+": "+fmt.Sprintf(format, args...))
			}
			for _, d := range f.ast.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil && d.Name.Name == "init" {
						fault(d, "func init: cmd builds the parts and passes them in")
					}
				case *ast.GenDecl:
					if d.Tok != token.VAR {
						continue
					}
					for _, s := range d.Specs {
						v := s.(*ast.ValueSpec)
						for i, id := range v.Names {
							if id.IsExported() && !(i < len(v.Values) && makesError(f, v.Values[i])) {
								fault(id, "exported variable %s, which any package could change", id.Name)
							}
						}
						parts := []ast.Node{v.Type}
						for _, x := range v.Values {
							parts = append(parts, x)
						}
						for _, part := range parts {
							if name := changeable(f, part); name != "" {
								fault(v, "package-level variable %s holds a %s", v.Names[0].Name, name)
							}
						}
					}
				}
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				for _, x := range writes(n) {
					if name := t.variable(p, f, x); name != "" {
						fault(n, "assigns to %s, a package-level variable", name)
					}
				}
				return true
			})
		}
	}
	return faults
}

// makesError tells whether x makes a sentinel error.
func makesError(f *file, x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name := f.imported(sel.X) + "." + sel.Sel.Name
	return name == "errors.New" || name == "fmt.Errorf"
}

// changeable names what a declaration mentions, outside function bodies, whose purpose is to change.
func changeable(f *file, n ast.Node) (name string) {
	if n == nil || n == ast.Node(ast.Expr(nil)) {
		return ""
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ChanType:
			name = "channel"
		case *ast.SelectorExpr:
			if imp := f.imported(n.X); imp == "sync" || imp == "sync/atomic" {
				name = path.Base(imp) + "." + n.Sel.Name
			}
		}
		return name == ""
	})
	return name
}

// writes lists the expressions that a node writes to.
func writes(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && id.Obj == nil && len(n.Args) > 0 && slices.Contains([]string{"clear", "copy", "delete"}, id.Name) {
			return n.Args[:1]
		}
	}
	return nil
}

// variable names the package-level variable that x is, or is a part of.
func (t *tree) variable(p *pkg, f *file, x ast.Expr) string {
	for {
		switch y := x.(type) {
		case *ast.ParenExpr:
			x = y.X
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.SliceExpr:
			x = y.X
		case *ast.SelectorExpr:
			if dir, ours := t.dirOf(f.imported(y.X)); ours {
				if q := t.pkgs[dir]; q != nil && q.vars[y.Sel.Name] {
					return path.Base(dir) + "." + y.Sel.Name
				}
				return ""
			}
			x = y.X
		case *ast.Ident:
			if y.Name != "_" && p.vars[y.Name] && f.global(y) {
				return y.Name
			}
			return ""
		default:
			return ""
		}
	}
}
