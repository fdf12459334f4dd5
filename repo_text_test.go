package loadline

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"path"
	"regexp"
	"slices"
	"strings"
)

// comments wants one package comment in every package, in the form godoc knows.
func comments(t *tree) (faults []string) {
	for _, p := range t.sorted() {
		var have []*file
		for _, f := range p.files {
			if f.ast.Doc != nil {
				have = append(have, f)
			}
		}
		if len(have) == 0 {
			faults = append(faults, p.dir+": got no package comment directly above a package clause, want one")
			continue
		}
		if len(have) > 1 {
			faults = append(faults, fmt.Sprintf("%s: got %d package comments, %s and %s, want one", p.dir, len(have), have[0].path, have[1].path))
			continue
		}
		begin := "Package " + p.name + " "
		if p.name == "main" {
			begin = "Command " + path.Base(p.dir) + " "
		}
		if text := have[0].ast.Doc.Text(); !strings.HasPrefix(text, begin) {
			faults = append(faults, fmt.Sprintf("%s: package comment begins %.20q, want it to begin %q", have[0].path, text, begin))
		}
	}
	return faults
}

// docs wants a doc comment that begins with its name on everything exported. A method whose name an interface of its
// package declares is documented there, and a constant or variable may be documented by its group.
func docs(t *tree) (faults []string) {
	for _, p := range t.sorted() {
		if p.nested {
			continue
		}
		promised := p.promised()
		for _, f := range p.files {
			if f.test || f.generated {
				continue
			}
			need := func(id *ast.Ident, doc *ast.CommentGroup, articles bool) {
				text := doc.Text()
				if text == "" {
					faults = append(faults, fmt.Sprintf("%s: %s has no doc comment", t.at(id), id.Name))
					return
				}
				rest := text
				if first, after, _ := strings.Cut(text, " "); articles && slices.Contains([]string{"A", "An", "The"}, first) {
					rest = after
				}
				if word := regexp.MustCompile(`^\w+`).FindString(rest); word != id.Name {
					faults = append(faults, fmt.Sprintf("%s: doc comment of %s begins %q, want its name", t.at(id), id.Name, strings.Fields(text)[0]))
				}
			}
			for _, d := range f.ast.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d)) && !promised[d.Name.Name]) {
						need(d.Name, d.Doc, false)
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						switch s := s.(type) {
						case *ast.TypeSpec:
							doc := s.Doc
							if doc == nil && !d.Lparen.IsValid() {
								doc = d.Doc
							}
							if s.Name.IsExported() {
								need(s.Name, doc, true)
							}
						case *ast.ValueSpec:
							if s.Doc == nil && (s.Comment != nil || d.Lparen.IsValid() && d.Doc != nil) {
								continue
							}
							doc := s.Doc
							if doc == nil && !d.Lparen.IsValid() {
								doc = d.Doc
							}
							if s.Names[0].IsExported() {
								need(s.Names[0], doc, false)
							}
						}
					}
				}
			}
		}
	}
	return faults
}

// promised are the methods that the package's interfaces declare.
func (p *pkg) promised() map[string]bool {
	all := map[string]bool{}
	for _, f := range p.files {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if x, ok := n.(*ast.InterfaceType); ok {
				for _, name := range members(x) {
					all[name] = true
				}
			}
			return true
		})
	}
	return all
}

// maxLines is the ceiling of a file's size. The aim is 300.
const maxLines = 800

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// size holds maxLines, in files that are not generated.
func size(t *tree) (faults []string) {
	for _, x := range t.texts {
		if !slices.Contains([]string{".go", ".s", ".py", ".sh"}, path.Ext(x.path)) || generated.MatchString(x.body) {
			continue
		}
		if n := strings.Count(x.body, "\n"); n > maxLines {
			faults = append(faults, fmt.Sprintf("%s: got %d lines, want at most %d", x.path, n, maxLines))
		}
	}
	return faults
}

// gofmt wants every Go file as gofmt would write it.
func gofmt(t *tree) (faults []string) {
	for _, x := range t.texts {
		if path.Ext(x.path) != ".go" {
			continue
		}
		if out, err := format.Source([]byte(x.body)); err != nil || !bytes.Equal(out, []byte(x.body)) {
			faults = append(faults, x.path+": not gofmt-ed")
		}
	}
	return faults
}

// machinePath finds paths that exist on one machine only, tempPath those that only a test may name, and unfinished
// the marks of work left for later. They are spelled so that they do not find themselves.
var (
	machinePath = regexp.MustCompile(`(^|[^\w.*])/(work|root|farm)/`)
	tempPath    = regexp.MustCompile(`(^|[^\w.*])/tmp/`)
	unfinished  = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
)

// words finds what a reader elsewhere, or later, could make nothing of.
func words(t *tree) (faults []string) {
	for _, x := range t.texts {
		for i, line := range strings.Split(x.body, "\n") {
			at := fmt.Sprintf("%s:%d", x.path, i+1)
			if machinePath.MatchString(line) || tempPath.MatchString(line) && !strings.HasSuffix(x.path, "_test.go") {
				faults = append(faults, at+": names a path of a machine")
			}
			if unfinished.MatchString(line) {
				faults = append(faults, at+": leaves something unfinished")
			}
		}
	}
	return faults
}

// quoted is what stands between backquotes, fenced a block between lines of three, qualified a whole name as Go
// writes it, perhaps called, and mention such a name amid other text.
var (
	fenced    = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
	quoted    = regexp.MustCompile("`([^`\n]+)`")
	qualified = regexp.MustCompile(`^\(?\*?([a-z]\w*)\.([A-Z]\w*)\)?(?:\.(\w+))?(?:\(.*\))?$`)
	mention   = regexp.MustCompile(`(?:^|[^\w./])([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Za-z]\w*))?`)
)

// architecture looks up every Go name of ARCHITECTURE.md: package.Name and package.Type.Member, in backquotes or, of
// a package of this tree, in a fenced block. Names of the standard library are let through where code imports them.
func architecture(t *tree) (faults []string) {
	byName, foreign := map[string][]*pkg{}, map[string]bool{}
	for _, p := range t.sorted() {
		byName[p.name] = append(byName[p.name], p)
		for _, f := range p.files {
			for _, imp := range f.paths() {
				if _, ours := t.dirOf(imp); !ours {
					foreign[baseName(imp)] = true
				}
			}
		}
	}
	exists := func(m []string) bool {
		for _, p := range byName[m[1]] {
			if names, ok := p.names[m[2]]; ok && (m[3] == "" || slices.Contains(names, m[3])) {
				return true
			}
		}
		return false
	}
	for _, x := range t.texts {
		if x.path != "ARCHITECTURE.md" {
			continue
		}
		fault := func(m []string) {
			name := strings.TrimSuffix(m[1]+"."+m[2]+"."+m[3], ".")
			faults = append(faults, fmt.Sprintf("%s: names %s, which is not in the tree", x.path, name))
		}
		for _, block := range fenced.FindAllString(x.body, -1) {
			for _, m := range mention.FindAllStringSubmatch(block, -1) {
				if byName[m[1]] != nil && !exists(m) {
					fault(m)
				}
			}
		}
		for _, q := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(x.body, ""), -1) {
			m := qualified.FindStringSubmatch(q[1])
			if m != nil && !exists(m) && !(byName[m[1]] == nil && foreign[m[1]]) {
				fault(m)
			}
		}
	}
	return faults
}
