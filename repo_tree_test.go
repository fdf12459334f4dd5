package loadline

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// tree is the repository as its rules see it.
type tree struct {
	fset  *token.FileSet
	pkgs  map[string]*pkg // by folder
	texts []text          // every file that is written by hand and is not test data
}

// pkg is the Go files of one folder, whatever their build constraints.
type pkg struct {
	dir    string // relative to the root, "." for the root itself
	name   string // without _test
	nested bool   // belongs to a module of its own, inside this one
	files  []*file
	vars   map[string]bool     // package-level variables
	consts map[string]ast.Expr // package-level constants that have a value of their own
	names  map[string][]string // package-level names outside tests, each with its fields and methods
}

// file is one Go file.
type file struct {
	path      string
	ast       *ast.File
	test      bool
	generated bool
	lines     []string
}

// text is any file that people read.
type text struct{ path, body string }

// skipped hold no source: what .gitignore names, and version control.
var skipped = []string{".git", ".cache", "bin", "out", "loadline"}

// written are the endings of texts, beside files without one.
var written = []string{".go", ".s", ".md", ".py", ".sh", ".mod", ".yaml", ".yml", ".txt", ".toml"}

func readTree(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), pkgs: map[string]*pkg{}}
	var nested []string // folders with a module of their own
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if base == "testdata" || slices.Contains(skipped, name) {
				return fs.SkipDir
			}
			if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil && name != "." {
				nested = append(nested, name)
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		if !d.Type().IsRegular() || base == "LICENSE" || base == "go.sum" || slices.Contains(skipped, name) {
			return nil
		}
		if ext := path.Ext(base); ext != "" && ext != base && !slices.Contains(written, ext) {
			return nil
		}
		body, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		t.texts = append(t.texts, text{name, string(body)})
		if path.Ext(name) != ".go" {
			return nil
		}
		return t.add(name, body, slices.Contains(nested, path.Dir(name)))
	})
	return t, err
}

// add parses a Go file into its package.
func (t *tree) add(name string, body []byte, nested bool) error {
	syntax, err := parser.ParseFile(t.fset, name, body, parser.ParseComments)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	p := t.pkgs[dir]
	if p == nil {
		p = &pkg{dir: dir, nested: nested, vars: map[string]bool{}, consts: map[string]ast.Expr{}, names: map[string][]string{}}
		t.pkgs[dir] = p
	}
	f := &file{path: name, ast: syntax, test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(syntax), lines: strings.Split(string(body), "\n")}
	p.files = append(p.files, f)
	p.name = strings.TrimSuffix(syntax.Name.Name, "_test")
	if !f.test {
		p.declare(syntax)
	}
	return nil
}

// declare takes the package-level names of a file.
func (p *pkg) declare(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				p.names[d.Name.Name] = p.names[d.Name.Name]
			} else {
				recv := receiver(d)
				p.names[recv] = append(p.names[recv], d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					p.names[s.Name.Name] = append(p.names[s.Name.Name], members(s.Type)...)
				case *ast.ValueSpec:
					for i, id := range s.Names {
						p.names[id.Name] = p.names[id.Name]
						if d.Tok == token.VAR {
							p.vars[id.Name] = true
						} else if i < len(s.Values) {
							p.consts[id.Name] = s.Values[i]
						}
					}
				}
			}
		}
	}
}

// members are the names of a struct's fields or an interface's methods.
func members(x ast.Expr) (names []string) {
	var list *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, id := range f.Names {
			names = append(names, id.Name)
		}
	}
	return names
}

// receiver is the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.ParenExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.Name
		default:
			return ""
		}
	}
}

// sorted is the packages in order of their folders.
func (t *tree) sorted() []*pkg {
	var all []*pkg
	for _, dir := range slices.Sorted(maps.Keys(t.pkgs)) {
		all = append(all, t.pkgs[dir])
	}
	return all
}

// dirOf is the folder of an import path of this module.
func (t *tree) dirOf(importPath string) (string, bool) {
	if importPath == "loadline" {
		return ".", true
	}
	return strings.CutPrefix(importPath, "loadline/")
}

// at is where a node stands, as path:line.
func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// paths is what a file imports.
func (f *file) paths() (paths []string) {
	for _, s := range f.ast.Imports {
		p, _ := strconv.Unquote(s.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// imported resolves x in x.Name to the import path it stands for, or "".
func (f *file) imported(x ast.Expr) string {
	id, ok := x.(*ast.Ident)
	if !ok || id.Obj != nil { // resolved inside the file: not a package
		return ""
	}
	for i, p := range f.paths() {
		name := baseName(p)
		if n := f.ast.Imports[i].Name; n != nil {
			name = n.Name
		}
		if name == id.Name {
			return p
		}
	}
	return ""
}

// baseName is the package name that an import path suggests: its last element that is not a major version.
func baseName(importPath string) string {
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

// global tells whether an identifier of f names a package-level entity rather than a local one.
func (f *file) global(id *ast.Ident) bool {
	return id.Obj == nil || f.ast.Scope.Lookup(id.Name) == id.Obj
}

// standard are the constants of the standard library that lengths of buffers are made of.
var standard = map[string]int64{"crypto/sha256.Size": 32, "unicode/utf8.RuneSelf": 128, "unicode/utf8.UTFMax": 4}

// value evaluates a constant integer expression made of literals, operators and named constants, of this module or
// in standard. It has no value where it sees anything else, iota included.
func (t *tree) value(p *pkg, f *file, x ast.Expr) (int64, bool) {
	v := t.constant(p, f, x, 0)
	if v.Kind() == constant.Unknown {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(v))
}

func (t *tree) constant(p *pkg, f *file, x ast.Expr, depth int) constant.Value {
	unknown := constant.MakeUnknown()
	if depth > 20 {
		return unknown
	}
	named := func(p *pkg, name string) constant.Value {
		value, ok := p.consts[name]
		if !ok {
			return unknown
		}
		for _, f := range p.files {
			if f.ast.FileStart <= value.Pos() && value.Pos() < f.ast.FileEnd {
				return t.constant(p, f, value, depth+1)
			}
		}
		return unknown
	}
	switch x := x.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(x.Value, x.Kind, 0)
	case *ast.ParenExpr:
		return t.constant(p, f, x.X, depth)
	case *ast.Ident:
		if f.global(x) {
			return named(p, x.Name)
		}
	case *ast.SelectorExpr:
		imp := f.imported(x.X)
		if dir, ours := t.dirOf(imp); ours && t.pkgs[dir] != nil {
			return named(t.pkgs[dir], x.Sel.Name)
		}
		if v, ok := standard[imp+"."+x.Sel.Name]; ok {
			return constant.MakeInt64(v)
		}
	case *ast.BinaryExpr:
		a, b := t.constant(p, f, x.X, depth), t.constant(p, f, x.Y, depth)
		if a.Kind() != constant.Int || b.Kind() != constant.Int {
			return unknown
		}
		switch n, _ := constant.Uint64Val(b); x.Op {
		case token.SHL, token.SHR:
			if n > 62 {
				return unknown
			}
			return constant.Shift(a, x.Op, uint(n))
		case token.QUO:
			if n == 0 {
				return unknown
			}
			return constant.BinaryOp(a, token.QUO_ASSIGN, b) // integer division
		case token.ADD, token.SUB, token.MUL:
			return constant.BinaryOp(a, x.Op, b)
		}
	}
	return unknown
}
