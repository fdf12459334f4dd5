package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"loadline/planner/hardware"
	"loadline/planner/score"
)

// TestTruthSpeed checks step times and tokens a second, and that what is faster is predicted to be.
func TestTruthSpeed(t *testing.T) {
	rows, cards := readTruth(t)
	table, err := hardware.Load()
	if err != nil {
		t.Fatal(err)
	}
	speeds, skipped := score.Speeds(rows, cards, table)
	abs := map[string][]float64{}
	signed := map[string][]float64{}
	var all []float64
	for _, s := range speeds {
		abs[s.System] = append(abs[s.System], math.Abs(s.Error()))
		p, m := s.Slower()
		signed[s.System] = append(signed[s.System], p/m-1)
		all = append(all, math.Abs(s.Error()))
		if *showRows == s.System {
			fmt.Printf("%5s %+6.1f%% got %9.3f want %9.3f %s %s %s %s mbs=%s gbs=%s seq=%s n=%s %s %s\n", s.Row.ID, 100*s.Error(), s.Predicted, s.Measured, s.Unit, s.Row.Model, s.Row.DType, s.Row.GPU, s.Row.MicroBatch, s.Row.GlobalBatch, s.Row.Seq, s.Row.Ranks, s.Row.Layout, s.Row.Notes)
		}
	}
	type pairs struct{ right, all int }
	ranked := map[string]*pairs{}
	total := pairs{}
	for i, a := range speeds {
		for _, b := range speeds[i+1:] {
			if a.System != b.System || a.Row.Model != b.Row.Model || a.Row.GPU != b.Row.GPU || a.Unit != b.Unit {
				continue
			}
			pa, ma := a.Slower()
			pb, mb := b.Slower()
			if math.Abs(ma/mb-1) < 0.05 && math.Abs(mb/ma-1) < 0.05 {
				continue
			}
			if ranked[a.System] == nil {
				ranked[a.System] = &pairs{}
			}
			ranked[a.System].all++
			total.all++
			if cmp.Compare(pa, pb) == cmp.Compare(ma, mb) {
				ranked[a.System].right++
				total.right++
			}
		}
	}
	var names []string
	for name := range abs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e, sg := abs[name], signed[name]
		slices.Sort(e)
		slices.Sort(sg)
		r := ranked[name]
		if r == nil {
			r = &pairs{}
		}
		t.Logf("%-28s %3d rows  median %5.1f%%  p90 %6.1f%%  time %+5.1f%%  ranked %d of %d", name, len(e), 100*e[len(e)/2], 100*e[int(math.Ceil(0.9*float64(len(e))))-1], 100*sg[len(sg)/2], r.right, r.all)
	}
	slices.Sort(all)
	median, right := all[len(all)/2], float64(total.right)/float64(total.all)
	t.Logf("%d rows, median %.1f%%; %d of %d pairs ranked right, %.1f%%; %d without prediction", len(all), 100*median, total.right, total.all, 100*right, len(skipped))
	if median > 0.2 {
		t.Errorf("got a median error of %.1f%%, want at most 20%%", 100*median)
	}
	if right < 0.85 {
		t.Errorf("got %.1f%% of pairs ranked right, want 85%%", 100*right)
	}
	if *showRows != "" {
		for _, s := range skipped {
			fmt.Println("no speed", s)
		}
	}
}
