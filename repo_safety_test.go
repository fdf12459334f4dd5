package loadline

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	namedTest = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.((?:Test|Fuzz)[A-Z]\\w*)`")
	target    = regexp.MustCompile(`(?m)^\t"\w+ \./(\S+) (Fuzz\w+)"$`)
	cve       = regexp.MustCompile(`CVE-\d{4}-\d+`)
)

// safety wants the tests that documents and the fuzzing script name to exist, every fuzz target of a file's parser under model and serve to be
// in that script, and docs/safety.md to list the vulnerabilities that tests name, and no others.
func safety(t *tree) (faults []string) {
	tests, listed, tested, fuzzed := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range t.sorted() {
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
					tests[p.dir+"."+fn.Name.Name] = true
				}
			}
		}
	}
	for _, x := range t.texts {
		var names [][]string
		switch {
		case path.Ext(x.path) == ".md":
			names = namedTest.FindAllStringSubmatch(x.body, -1)
		case path.Base(x.path) == "80-fuzz.sh":
			names = target.FindAllStringSubmatch(x.body, -1)
			for _, m := range names {
				fuzzed[m[1]+"."+m[2]] = true
			}
		}
		for _, m := range names {
			if name := m[1] + "." + m[2]; !tests[name] {
				faults = append(faults, fmt.Sprintf("%s: names the test %s, which is not in the tree", x.path, name))
			}
		}
		for _, id := range cve.FindAllString(x.body, -1) {
			if x.path == "docs/safety.md" {
				listed[id] = true
			} else if strings.HasSuffix(x.path, "_test.go") && path.Dir(x.path) != "." {
				tested[id] = true
			}
		}
	}
	for name := range tests {
		dir, fn, _ := strings.Cut(name, ".")
		if top, _, _ := strings.Cut(dir, "/"); strings.HasPrefix(fn, "Fuzz") && (top == "model" || top == "serve") && !fuzzed[name] {
			faults = append(faults, fmt.Sprintf("scripts/peers/80-fuzz.sh: lacks %s", name))
		}
	}
	for id := range listed {
		if !tested[id] {
			faults = append(faults, fmt.Sprintf("docs/safety.md: lists %s, which no test names", id))
		}
	}
	for id := range tested {
		if !listed[id] {
			faults = append(faults, fmt.Sprintf("docs/safety.md: lacks %s, which a test names", id))
		}
	}
	slices.Sort(faults)
	return faults
}
