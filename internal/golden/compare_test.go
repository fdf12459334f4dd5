package golden

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// recorder is a testing.TB that keeps what would have been reported.
type recorder struct {
	testing.TB
	reports []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.reports = append(r.reports, fmt.Sprintf(format, args...))
}

// Fatalf reports and then stops the caller by panicking with the recorder itself.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// fatal returns what f reported to a recorder before it stopped, "" if it did not stop.
func fatal(t *testing.T, f func(tb testing.TB)) (report string) {
	r := &recorder{TB: t}
	defer func() {
		switch p := recover(); p {
		case nil:
		case r:
			report = strings.Join(r.reports, "\n")
		default:
			panic(p)
		}
	}()
	f(r)
	return ""
}

func TestClose(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name      string
		got, want []float32
		rel       float64
		report    string // "" where it passes
	}{
		{"equal", []float32{1, -2}, []float32{1, -2}, 0, ""},
		{"empty", nil, nil, 0, ""},
		{"both zero", []float32{0, 0}, []float32{0, 0}, 0, ""},
		{"at the bound", []float32{1, 4.5}, []float32{1, 4}, 0.125, ""},
		{"over the bound", []float32{1, 4.5}, []float32{1, 4}, 0.12, "x[1]: got 4.5, want 4"},
		{"small values share the largest's bound", []float32{0.125, 128}, []float32{0, 128}, 1.0 / 1024, ""},
		{"negative largest", []float32{0.125, -128}, []float32{0, -128}, 1.0 / 1024, ""},
		{"want zero", []float32{0, 1e-30}, []float32{0, 0}, 1e3, "x[1]"},
		{"lengths", []float32{1}, []float32{1, 2}, 1, "got 1 values, want 2"},
		{"NaN in got", []float32{1, nan}, []float32{1, 1}, 1e9, "x[1]: got NaN"},
		{"NaN in want", []float32{1, 1}, []float32{nan, 1}, 1e9, "x[0]"},
		{"NaN in both", []float32{nan}, []float32{nan}, 1e9, "x[0]"},
		{"NaN before a large difference", []float32{nan, 1}, []float32{0, 5}, 1e9, "x[0]"},
		{"same infinities", []float32{inf, 1}, []float32{inf, 1}, 0, ""},
		{"infinity in got", []float32{inf}, []float32{1}, 1e9, "x[0]: got +Inf"},
		{"opposite infinities", []float32{inf}, []float32{-inf}, 1e9, "x[0]"},
	} {
		r := &recorder{TB: t}
		Close(r, "x", c.got, c.want, c.rel)
		switch report := strings.Join(r.reports, "\n"); {
		case (report == "") != (c.report == ""), !strings.Contains(report, c.report):
			t.Errorf("%s: got report %q, want %q", c.name, report, c.report)
		}
	}
}

func TestMaxAbs(t *testing.T) {
	if got := MaxAbs([]float64{1, -3, 2}); got != 3 {
		t.Errorf("got %v, want 3", got)
	}
	if got := MaxAbs([]float32{}); got != 0 {
		t.Errorf("of none: got %v, want 0", got)
	}
	if got := MaxAbs([]float64{math.NaN(), 1}); !math.IsNaN(got) {
		t.Errorf("of NaN: got %v", got)
	}
}
