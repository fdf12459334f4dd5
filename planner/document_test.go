package planner

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"loadline/planner/hardware"
	"loadline/planner/score"
)

var update = flag.Bool("update", false, "rewrite docs/planner-accuracy.md and its plot")

// TestDocument checks that the document in docs is what the formulas of today earn.
func TestDocument(t *testing.T) {
	rows, cards := readTruth(t)
	table, err := hardware.Load()
	if err != nil {
		t.Fatal(err)
	}
	rep := score.Score(rows, cards)
	speeds, _ := score.Speeds(rows, cards, table)
	plot := score.Plot(rep)
	text := score.Document(rep, speeds, score.PlotName, strings.Fields(suspect))
	for name, want := range map[string]string{"../docs/planner-accuracy.md": text, "../docs/planner-accuracy.svg": plot} {
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what today's formulas give; write it again with -update", name)
		}
	}
	if n := strings.Count(plot, `r="2.5"`); n != len(rep.Pairs) {
		t.Errorf("plot: got %d points, want %d", n, len(rep.Pairs))
	}
}

// TestScoreJSON checks the names and the empty lists of score's document.
func TestScoreJSON(t *testing.T) {
	rows, err := score.Read(strings.NewReader("id,system,value\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, cards := readTruth(t)
	body, err := json.Marshal(score.Score(rows, cards))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(body), `{"families":[],"skipped":[]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
