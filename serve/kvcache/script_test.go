package kvcache

import (
	"fmt"
	"strings"
	"testing"

	"loadline/internal/script"
)

// TestScripts runs testdata. The commands are
//
//	pool blocks=N size=N [nocache]     start again
//	new T tokens=1,2,3                 match, then extend to the tokens
//	append T tokens=4,5                writable, extend
//	commit T                           publish what T holds
//	fork T U
//	rewrite T at=N                     writable from token N on
//	free T
//	stats
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Case) string {
		var p *Pool
		tables := map[string]BlockTable{}
		tokens := map[string][]int32{}
		return func(c script.Case) string {
			var out strings.Builder
			for _, cmd := range c.Commands() {
				name := ""
				if len(cmd.Args) > 0 {
					name = cmd.Args[0]
				}
				switch cmd.Name {
				case "pool":
					var err error
					p, err = NewPool(Options{Blocks: cmd.Int(t, "blocks", 4), BlockSize: cmd.Int(t, "size", 2), Cache: name != "nocache"})
					if err != nil {
						t.Fatal(err)
					}
					clear(tables)
				case "new":
					toks := cmd.Ints(t, "tokens")
					table, have := p.Match(toks)
					fmt.Fprintf(&out, "matched %d tokens %v\n", have, table)
					table, ok := p.Extend(table, have, len(toks)-have)
					if !ok {
						p.Free(table)
						fmt.Fprintln(&out, "no room")
						break
					}
					tables[name], tokens[name] = table, toks
					fmt.Fprintf(&out, "%s %v\n", name, table)
				case "append":
					toks := cmd.Ints(t, "tokens")
					table, copies, ok := p.Writable(tables[name], len(tokens[name]))
					if ok {
						tables[name] = table
						if len(copies) > 0 {
							fmt.Fprintf(&out, "copy %v\n", copies)
						}
						tables[name], ok = p.Extend(table, len(tokens[name]), len(toks))
					}
					if !ok {
						fmt.Fprintln(&out, "no room")
						break
					}
					tokens[name] = append(tokens[name][:len(tokens[name]):len(tokens[name])], toks...)
					fmt.Fprintf(&out, "%s %v\n", name, tables[name])
				case "rewrite":
					table, copies, ok := p.Writable(tables[name], cmd.Int(t, "at", 0))
					tables[name] = table
					fmt.Fprintf(&out, "%s %v copies %v ok=%v\n", name, table, copies, ok)
				case "commit":
					p.Commit(tables[name], tokens[name])
				case "fork":
					other := cmd.Arg(t, 1)
					tables[other], tokens[other] = p.Fork(tables[name]), tokens[name]
					fmt.Fprintf(&out, "%s %v\n", other, tables[other])
				case "free":
					p.Free(tables[name])
					delete(tables, name)
				case "stats":
					fmt.Fprintf(&out, "%+v\n", p.Stats())
				default:
					t.Fatalf("unknown command %q", cmd.Name)
				}
				var all []BlockTable
				for _, table := range tables {
					all = append(all, table)
				}
				if err := p.CheckTables(all...); err != nil {
					t.Fatalf("line %d: %v", c.Line, err)
				}
			}
			return out.String()
		}
	})
}
