package bytesize

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
	}{
		{"0", 0}, {"4096", 4096}, {"7B", 7}, {"512MiB", 512 << 20}, {"24GB", 24e9}, {"24gb", 24e9}, {" 1.5 GiB ", 3 << 29},
		{"0.1GB", 1e8}, {"0.29GB", 29e7}, {"1KiB", 1024}, {"1kB", 1000}, {"2TiB", 2 << 40}, {"8191PiB", 8191 << 50},
		{"9223372036854775807", math.MaxInt64},
	} {
		got, err := Parse(c.in)
		if err != nil || got != c.want {
			t.Errorf("Parse(%q): got %d, %v, want %d", c.in, got, err, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ in, why string }{
		{"", "empty"}, {"-1", "negative"}, {"-4MiB", "negative"}, {"24G", "not a size"}, {"MiB", "not a size"}, {"1e9", "not a size"},
		{"0x10", "not a size"}, {"1.5", "fraction"}, {"1.5B", "fraction"}, {"1.GiB", "not a size"}, {".5GiB", "not a size"},
		{"1..5GiB", "not a size"}, {"+5MiB", "not a size"}, {"nan", "not a size"}, {"8192PiB", "too large"},
		{"9223372036854775808", "too large"}, {"9223372036854775.999PB", "too large"}, {"1 2MiB", "not a size"},
	} {
		got, err := Parse(c.in)
		if err == nil {
			t.Errorf("Parse(%q): got %d, want an error", c.in, got)
			continue
		}
		text := err.Error()
		if !strings.Contains(text, c.why) || !strings.Contains(text, "512MiB") || strings.Contains(text, "\n") {
			t.Errorf("Parse(%q): got error %q, want one line saying %q and what is accepted", c.in, text, c.why)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		in   int64
		want string
	}{
		{0, "0 B"}, {512, "512 B"}, {1023, "1023 B"}, {1024, "1 KiB"}, {96 << 20, "96 MiB"}, {3 << 29, "1.5 GiB"}, {1<<20 - 1, "1 MiB"},
		{1234567, "1.18 MiB"}, {-2048, "-2 KiB"}, {100 << 10, "100 KiB"}, {math.MaxInt64, "8 EiB"}, {math.MinInt64, "-8 EiB"},
	} {
		if got := Format(c.in); got != c.want {
			t.Errorf("Format(%d): got %q, want %q", c.in, got, c.want)
		}
	}
}

func TestFormatParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<57).Draw(t, "n")
		got, err := Parse(Format(n))
		if err != nil {
			t.Fatal(err)
		}
		// Two decimals of a value that is at least 1: |err| <= 0.005 units, so 0.5% of it.
		if diff := math.Abs(float64(got - n)); diff > 0.005001*float64(n) {
			t.Fatalf("Parse(Format(%d)): got %d, off by %.0f", n, got, diff)
		}
	})
}
