package main

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
)

// TestRun trains under each policy: recomputing lowers the peak, by part less than whole, and changes no digit of the
// loss, which falls.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(&out, []string{"--steps", "12", "--recompute", "twin.norm,twin.ffn"}); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
	peak, loss := map[string]int64{}, map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(out.String()))
	lines.Scan() // the head
	for lines.Scan() {
		var name string
		var p int64
		var l float64
		if _, err := fmt.Sscan(lines.Text(), &name, &p, &l); err != nil {
			t.Fatalf("line %q: %v", lines.Text(), err)
		}
		peak[name], loss[name] = p, l
	}
	const tags = "twin.norm,twin.ffn"
	if !(peak["full"] < peak[tags] && peak[tags] < peak["none"]) {
		t.Errorf("peaks: got %v, want full < tags < none", peak)
	}
	if loss["full"] != loss["none"] || loss[tags] != loss["none"] {
		t.Errorf("losses: got %v, want the same", loss)
	}
	if loss["none"] <= 0 || loss["none"] > 3.5 { // ln 61 = 4.11 at the start
		t.Errorf("loss: got %v, want it to have fallen below 3.5", loss["none"])
	}
}

func TestWrongTag(t *testing.T) {
	var out strings.Builder
	err := run(&out, []string{"--steps", "1", "--recompute", "mlp.act"})
	if err == nil || !strings.Contains(err.Error(), "twin.ffn") {
		t.Errorf("got %v, want an error that lists this model's parts", err)
	}
}
