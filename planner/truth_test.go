package planner

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"loadline/planner/score"
	"loadline/planner/shape"
)

var showRows = flag.String("rows", "", "print every row of this family")

// suspect are rows that look wrong in their source: duplicates of others, values below the states alone, options that
// were not recorded.
const suspect = `579 595 607 614 624 600 603 584 585 712 850 810 811 812 1128 1133 1093 1094 1095 1096 236 241 113 117 156 158
17 18 250 251 948 951 954 957 378 384 395 403 404 405 406 411 412 413 414 416 418 419 424 455 392 1343`

func readTruth(t *testing.T) ([]*score.Row, *shape.Cards) {
	t.Helper()
	body, err := os.ReadFile("testdata/measured_memory.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := score.Read(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	bad := strings.Fields(suspect)
	rows = slices.DeleteFunc(rows, func(r *score.Row) bool { return slices.Contains(bad, r.ID) })
	cards, err := shape.Load()
	if err != nil {
		t.Fatal(err)
	}
	return rows, cards
}

func TestTruth(t *testing.T) {
	rows, cards := readTruth(t)
	rep := score.Score(rows, cards)
	for _, f := range rep.Families {
		t.Logf("%-18s %4d rows  median %5.1f%%  p90 %5.1f%%  bias %+5.1f%%", f.Name, f.Rows, 100*f.Median, 100*f.P90, 100*f.Bias)
	}
	if *showRows != "" {
		for _, p := range rep.Pairs {
			if p.Family == *showRows {
				fmt.Printf("%5s %+6.1f%% got %8.3f want %8.3f  %s %s mbs=%s seq=%s n=%s %s | %s | %s %s\n", p.Row.ID, 100*p.Error(), float64(p.Predicted)/(1<<30), p.Measured/(1<<30),
					p.Row.Model, p.Row.DType, p.Row.MicroBatch, p.Row.Seq, p.Row.Ranks, p.Row.Layout, p.Row.ArchText, p.Row.GPU, p.Row.Notes)
			}
		}
		for _, s := range rep.Skipped {
			fmt.Println("skipped", s)
		}
	}
}
