package score

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// rules is how rows are scored, for readers of the document.
const rules = `## Rules of scoring

- A row is scored if it is of tier A (tier B too for Megatron's CI, or no tier is given), its value is a number in a unit of
  memory, and its system belongs to a family below. Every other row is listed as skipped, with its reason.
- The error is e = predicted / measured − 1. Median and p90 (the ⌈0.9 n⌉-th smallest) are of |e|; bias is the median of e.
- Bytes: ` + "`value_gib`" + ` where it is filled; else MB is 2^20; GB is 2^30 for HF transformers and the Qwen fine-tunes, otherwise 10^9.
- Families, by ` + "`system`" + `: megatron-dense and megatron-moe (CI golden values with n_gpus and num-layers; moe where num-experts is
  given, or a model under hybrid/), bloom, peft, qwen-finetune, torchtitan (torchtitan-4d with PP), torchtune, colossalai, litgpt,
  fsdp-qlora, deepspeed, torchao, hf-inference. A llama.cpp row counts three times: llamacpp-kv (the sum of its kv_MiB),
  llamacpp-weights (the sum of model_MiB against the size in arch), llamacpp-compute (the largest compute_MiB; MLA models left out).
- Metrics are per GPU and allocated, unless they say reserved, nvidia-smi, last_rank, or total, the sum of GPUs.
- ` + "`arch`" + ` holds the framework's own flags, absent ones at its defaults. ` + "`parallel`" + `: DP = n_gpus/(TP·PP·CP); VPPL layers of a virtual
  stage; distopt the distributed optimizer; shard Megatron-FSDP; EP and DEP expert parallelism. ` + "`seq`" + ` is input + output when serving.
- A prediction sees neither its row's measurement nor any constant of one row: there is one set of formulas, with constants by
  framework version.
`

// Suspect is why rows are left out.
const Suspect = "duplicates of others, values below the states alone, options that were not recorded"

// Names of the document and its plot.
const (
	DocumentName = "planner-accuracy.md"
	PlotName     = "planner-accuracy.svg"
)

// Document writes the report of a table as Markdown. The plot is Plot's, in a file of the name given beside the
// document; leftOut are the rows that were taken out of the table before scoring, for Suspect.
func Document(rep *Report, speeds []Speed, plot string, leftOut []string) string {
	var b strings.Builder
	b.WriteString("# How far the planner is off\n\nPredicted against measured memory, by family. Written by `loadline plan score FILE.csv --write DIR --leave-out IDS`; do not edit by hand.\n\n")
	fmt.Fprintf(&b, "![Predicted against measured bytes](%s)\n\n| family | rows | median | p90 | bias |\n|---|---:|---:|---:|---:|\n", plot)
	var medians []float64
	for _, f := range rep.Families {
		fmt.Fprintf(&b, "| %s | %d | %.1f%% | %.1f%% | %+.1f%% |\n", f.Name, f.Rows, 100*f.Median, 100*f.P90, 100*f.Bias)
		medians = append(medians, f.Median)
	}
	if len(medians) > 0 {
		fmt.Fprintf(&b, "\nMedian of the families' medians: %.1f%%.", 100*median(medians))
	}
	in := 0
	for _, p := range rep.Pairs {
		if p.Measured >= float64(p.Low) && p.Measured <= float64(p.High) {
			in++
		}
	}
	if n := len(rep.Pairs); n > 0 {
		fmt.Fprintf(&b, " The range from p10 to p90 holds %.0f%% of %d predictions.", 100*float64(in)/float64(n), n)
	}
	fmt.Fprintf(&b, " Rows that ran out of memory: %d.\n\n", len(rep.OutOfMemory))
	if len(speeds) > 0 {
		writeSpeeds(&b, speeds)
	}
	b.WriteString(rules)
	if len(leftOut) > 0 {
		fmt.Fprintf(&b, "\n## Rows left out\n\n%d rows: %s. Their ids: %s.\n", len(leftOut), Suspect, strings.Join(leftOut, ", "))
	}
	writeSkipped(&b, rep.Skipped)
	return b.String()
}

func writeSpeeds(b *strings.Builder, speeds []Speed) {
	by := map[string][]float64{}
	var all []float64
	for _, s := range speeds {
		e := s.Error()
		by[s.System] = append(by[s.System], e)
		all = append(all, math.Abs(e))
	}
	fmt.Fprintf(b, "## Step times and tokens a second\n\nMedian error over %d rows: %.1f%%.\n\n| system | rows | median | bias |\n|---|---:|---:|---:|\n", len(speeds), 100*median(all))
	var names []string
	for n := range by {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		f := summarize(n, by[n])
		fmt.Fprintf(b, "| %s | %d | %.1f%% | %+.1f%% |\n", n, f.Rows, 100*f.Median, 100*f.Bias)
	}
	b.WriteString("\n")
}

func writeSkipped(b *strings.Builder, skipped []Skip) {
	count := map[string]int{}
	for _, s := range skipped {
		count[s.Reason]++
	}
	var reasons []string
	for r := range count {
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(x, y string) int {
		if count[x] != count[y] {
			return count[y] - count[x]
		}
		return strings.Compare(x, y)
	})
	if len(reasons) == 0 {
		return
	}
	b.WriteString("\n## Rows skipped\n\n| rows | reason |\n|---:|---|\n")
	for _, r := range reasons {
		fmt.Fprintf(b, "| %d | %s |\n", count[r], strings.ReplaceAll(r, "|", "\\|"))
	}
}

// colours are the families', told apart on white.
var colours = []string{
	"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
	"#003f5c", "#665191", "#a05195", "#d45087", "#f95d6a", "#b8860b", "#006d2c",
}

// The plot's frame, in its own units.
const (
	plotLeft, plotTop, plotSize = 70.0, 20.0, 560.0
	plotWidth, plotHeight       = 860, 640
)

// Plot draws every prediction against its measurement as SVG, both axes logarithmic, one colour a family, with the
// line of equality and those of 10% more and less.
func Plot(rep *Report) string {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, p := range rep.Pairs {
		for _, x := range []float64{p.Measured, float64(p.Predicted)} {
			if x > 0 {
				lo, hi = math.Min(lo, math.Log10(x)), math.Max(hi, math.Log10(x))
			}
		}
	}
	if lo > hi {
		lo, hi = 9, 11
	}
	lo, hi = math.Floor(lo), math.Ceil(hi)
	if lo == hi {
		hi++
	}
	scale := plotSize / (hi - lo)
	x := func(v float64) float64 { return plotLeft + (math.Log10(v)-lo)*scale }
	y := func(v float64) float64 { return plotTop + plotSize - (math.Log10(v)-lo)*scale }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><rect x="%g" y="%g" width="%g" height="%g" fill="none" stroke="black"/>`+"\n", plotWidth, plotHeight, plotLeft, plotTop, plotSize, plotSize)
	for e := lo; e <= hi; e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(&b, `<path d="M%.1f %gV%gM%g %.1fH%g" stroke="#ddd"/><text x="%.1f" y="%g" text-anchor="middle">%s</text><text x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n",
			x(v), plotTop, plotTop+plotSize, plotLeft, y(v), plotLeft+plotSize, x(v), plotTop+plotSize+18, decade(e), plotLeft-6, y(v)+4, decade(e))
	}
	low, high := math.Pow(10, lo), math.Pow(10, hi)
	fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="black"/>`+"\n", x(low), y(low), x(high), y(high))
	for _, f := range []float64{1.1, 1 / 1.1} {
		from, to := math.Max(low, low/f), math.Min(high, high/f)
		fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#888" stroke-dasharray="4 4"/>`+"\n", x(from), y(from*f), x(to), y(to*f))
	}
	for i, name := range familyNames {
		drawn := 0
		for _, p := range rep.Pairs {
			if p.Family != name || p.Predicted <= 0 {
				continue
			}
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s" fill-opacity="0.6"/>`+"\n", x(p.Measured), y(float64(p.Predicted)), colours[i])
			drawn++
		}
		if drawn > 0 {
			at := plotTop + 14 + 20*float64(i)
			fmt.Fprintf(&b, `<circle cx="%g" cy="%g" r="5" fill="%s"/><text x="%g" y="%g">%s (%d)</text>`+"\n", plotLeft+plotSize+20, at-4, colours[i], plotLeft+plotSize+32, at, name, drawn)
		}
	}
	fmt.Fprintf(&b, `<text x="%g" y="%g" text-anchor="middle">measured bytes</text><text transform="translate(16 %g) rotate(-90)" text-anchor="middle">predicted bytes</text>`+"\n</svg>\n",
		plotLeft+plotSize/2, plotTop+plotSize+42, plotTop+plotSize/2)
	return b.String()
}

// decade names a power of ten of bytes.
func decade(e float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := min(len(units)-1, max(0, int(e)/3))
	return fmt.Sprintf("%g %s", math.Pow(10, e-3*float64(i)), units[i])
}
