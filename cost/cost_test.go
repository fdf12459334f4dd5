package cost

import "testing"

func TestSecondsIsTheLongerOfArithmeticAndTraffic(t *testing.T) {
	m := Machine{FLOPs: 100, Bandwidth: 10, Overhead: 1}
	if got := m.Seconds(1000, 50); got != 11 {
		t.Errorf("arithmetic-bound: got %v, want 11", got)
	}
	if got := m.Seconds(100, 50); got != 6 {
		t.Errorf("traffic-bound: got %v, want 6", got)
	}
}
