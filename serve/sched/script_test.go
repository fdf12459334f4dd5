package sched

import (
	"fmt"
	"strings"
	"testing"

	"loadline/internal/script"
	"loadline/serve/kvcache"
)

// TestScripts runs testdata. The commands are
//
//	new rows=N seqs=N outs=N chunk=N blocks=N size=N [cache]    start again
//	add ID prompt=N [first=N] max=N [n=N] [stop=1,2]            a prompt of N tokens that count up from first (default 1)
//	schedule                                                    prints the pass
//	commit [next=1,2]                                           by default each out gets 100 + the length of its sequence; prints events
//	step                                                        schedule and commit
//	run                                                         steps until idle; prints the number of passes and each sequence's end
//	preempt ID | cancel ID | abort | stats
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Case) string {
		var s *Scheduler
		var p Pass
		return func(c script.Case) string {
			var out strings.Builder
			schedule := func() {
				if p = s.Schedule(); p.Empty() {
					fmt.Fprintln(&out, "nothing to run")
				} else {
					fmt.Fprint(&out, p)
				}
			}
			commit := func(next []int32) []Event {
				if next == nil {
					for _, q := range p.OutSeqs {
						next = append(next, int32(100+len(q.Tokens)))
					}
				}
				return s.Commit(p, next)
			}
			printEvents := func(events []Event) {
				for _, e := range events {
					fmt.Fprintf(&out, "  %s\n", eventText(e))
				}
			}
			for _, cmd := range c.Commands() {
				switch cmd.Name {
				case "new":
					pool, err := kvcache.NewPool(kvcache.Options{
						Blocks: cmd.Int(t, "blocks", 8), BlockSize: cmd.Int(t, "size", 4), Cache: len(cmd.Args) > 0 && cmd.Arg(t, 0) == "cache",
					})
					if err != nil {
						t.Fatal(err)
					}
					s, err = New(Options{
						MaxRows: cmd.Int(t, "rows", 16), MaxSeqs: cmd.Int(t, "seqs", 4), MaxOuts: cmd.Int(t, "outs", 4),
						PrefillChunk: cmd.Int(t, "chunk", 0), MaxBlocks: cmd.Int(t, "width", 0), Pool: pool,
					})
					if err != nil {
						t.Fatal(err)
					}
				case "add":
					r := Request{ID: cmd.Arg(t, 0), MaxTokens: cmd.Int(t, "max", 1), N: cmd.Int(t, "n", 0), Stop: cmd.Ints(t, "stop")}
					for i := range cmd.Int(t, "prompt", 1) {
						r.Prompt = append(r.Prompt, int32(cmd.Int(t, "first", 1)+i))
					}
					if err := s.Add(r); err != nil {
						fmt.Fprintln(&out, err)
					}
				case "schedule":
					schedule()
				case "commit":
					printEvents(commit(cmd.Ints(t, "next")))
				case "step":
					schedule()
					printEvents(commit(cmd.Ints(t, "next")))
				case "run":
					passes := 0
					for ; !s.Idle() && passes < 1000; passes++ {
						p = s.Schedule()
						for _, e := range commit(nil) {
							if e.Finished != NotFinished || e.Kind == Preempted {
								fmt.Fprintf(&out, "  %s\n", eventText(e))
							}
						}
					}
					fmt.Fprintf(&out, "%d passes\n", passes)
				case "preempt":
					fmt.Fprintln(&out, s.ForcePreempt(cmd.Arg(t, 0)))
				case "cancel":
					fmt.Fprintln(&out, s.Cancel(cmd.Arg(t, 0)))
				case "abort":
					s.Abort()
				case "stats":
					fmt.Fprintf(&out, "%+v\n%+v\n", s.Stats(), s.pool.Stats())
				default:
					t.Fatalf("unknown command %q", cmd.Name)
				}
				if err := checkPool(s); err != nil {
					t.Fatalf("line %d: after %s: %v", c.Line, cmd.Name, err)
				}
			}
			return out.String()
		}
	})
}

func eventText(e Event) string {
	name := fmt.Sprintf("%s/%d", e.Seq.ID, e.Seq.Index)
	switch {
	case e.Kind == Preempted:
		return name + " preempted"
	case e.Finished != NotFinished:
		return fmt.Sprintf("%s token %d, %s", name, e.Token, e.Finished)
	default:
		return fmt.Sprintf("%s token %d", name, e.Token)
	}
}

// checkPool verifies the pool against the tables of all sequences.
func checkPool(s *Scheduler) error {
	var tables []kvcache.BlockTable
	for _, q := range s.running {
		tables = append(tables, q.table)
	}
	return s.pool.CheckTables(tables...)
}
