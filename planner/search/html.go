package search

import (
	"fmt"
	"html"
	"strings"

	"loadline/mem"
)

// shades are the purposes' colours, and their order from the bottom of a bar.
var shades = []struct{ purpose, colour string }{
	{"runtime", "#777777"}, {"weights", "#1f77b4"}, {"master_weights", "#4a9bd4"}, {"grads", "#ff9f40"}, {"optim_state", "#9467bd"}, {"kv_blocks", "#2ca02c"},
	{"activations", "#d62728"}, {"comm_buffers", "#8c564b"}, {"staging", "#bcbd22"}, {"workspace", "#e377c2"},
}

// HTML writes an answer as one page that needs nothing else: bars of every kind of rank under the load line, memory
// over a step, the frontier of memory and speed, and the reasons.
func (a *Answer) HTML() string {
	q := &a.Question
	var b strings.Builder
	title := html.EscapeString(q.Shape.Name + " on " + a.Hardware)
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>%s</title>
<style>body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}svg text{font:12px sans-serif}.over{color:#b00}pre{white-space:pre-wrap;background:#f4f4f4;padding:.5em}</style>
</head><body><h1>%s</h1>
`, title, title)
	if a.Fits {
		fmt.Fprintf(&b, "<p>Fits. Next step up: %s</p>\n", html.EscapeString(a.Next))
	} else {
		fmt.Fprintf(&b, "<p class=\"over\">Does not fit: %s</p>\n", html.EscapeString(a.Next))
	}
	for i := range a.Plans {
		p := &a.Plans[i]
		fmt.Fprintf(&b, "<h2>%d. %s</h2>\n<p>Peak %v a rank of %v usable, %v to %v with 8 chances in 10, %.1f%% to run out; %s.</p>\n", i+1, html.EscapeString(p.Line(q)), p.Peak, a.Limit, p.Range[0], p.Range[1], 100*p.OOMChance, p.pace(q))
		if p.Config.System != Own {
			fmt.Fprintf(&b, "<p>This plan again:</p>\n<pre><code>%s</code></pre>\n", html.EscapeString(a.Command(p)))
		}
		b.WriteString(bars(p, a.Limit))
		if q.Task != Serve {
			b.WriteString(overStep(p, a.Limit))
		}
		b.WriteString("<ul>\n")
		for _, why := range p.Path {
			fmt.Fprintf(&b, "<li>%s</li>\n", html.EscapeString(why))
		}
		b.WriteString("</ul>\n")
	}
	b.WriteString(frontier(a))
	b.WriteString("</body></html>\n")
	return b.String()
}

// The figures' frame.
const (
	figureWide = 640.0
	figureHigh = 240.0
	figureLeft = 70.0
)

// scaleOf returns the bytes at the top of a figure, and the height of an amount in it.
func scaleOf(most, limit mem.Bytes) func(mem.Bytes) float64 {
	top := 1.08 * float64(max(most, limit))
	return func(n mem.Bytes) float64 { return figureHigh * float64(n) / top }
}

// loadLine draws the limit, as far as right.
func loadLine(high func(mem.Bytes) float64, limit mem.Bytes, right float64) string {
	y := figureHigh - high(limit)
	return fmt.Sprintf(`<path d="M%g %.1fH%g" stroke="#b00" stroke-width="2"/><text x="%g" y="%.1f" text-anchor="end" fill="#b00">%v</text><text x="%g" y="%.1f" text-anchor="end" fill="#b00">usable</text>`+"\n",
		figureLeft, y, right, figureLeft-4, y+4, limit, figureLeft-4, y+17)
}

// bars draws a bar for every kind of rank, its purposes on each other.
func bars(p *Plan, limit mem.Bytes) string {
	var b strings.Builder
	high := scaleOf(p.Range[1], limit)
	wide := min(240, (figureWide-figureLeft-188)/float64(len(p.Stages)))
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="memory of every kind of rank by purpose">`+"\n", figureWide, figureHigh+24)
	for i, s := range p.Stages {
		x, at := figureLeft+8+float64(i)*wide, figureHigh
		for _, shade := range shades {
			n := s.ByPurpose[shade.purpose]
			if n <= 0 {
				continue
			}
			h := high(n)
			at -= h
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s %v</title></rect>`+"\n", x, at, 0.85*wide, h, shade.colour, shade.purpose, n)
			if h >= 13 && wide >= 60 {
				name := ""
				if wide >= 150 {
					name = shade.purpose + " "
				}
				fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="white">%s%v</text>`+"\n", x+4, at+h/2+4, name, n)
			}
		}
		total := s.Peak.String()
		if wide < 60 { // what fits over a narrow bar: its number alone
			total = fmt.Sprintf("%.3g", float64(s.Peak)/float64(mem.GiB))
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f">%s</text><text x="%.1f" y="%g">%d</text>`+"\n", x, at-3, total, x, figureHigh+16, i+1)
	}
	line := 12.0
	for _, shade := range shades {
		if n := p.ByPurpose[shade.purpose]; n > 0 {
			fmt.Fprintf(&b, `<rect x="%g" y="%g" width="10" height="10" fill="%s"/><text x="%g" y="%g">%s %v</text>`+"\n", figureWide-178, line-9, shade.colour, figureWide-164, line, shade.purpose, n)
			line += 16
		}
	}
	b.WriteString(loadLine(high, limit, figureWide-188) + "</svg>\n")
	return b.String()
}

// overStep draws the worst rank's memory from the first layer's forward pass to the update, as the closed forms have
// it: what waits for the backward pass grows layer by layer, the head comes on top, and all of it goes again.
func overStep(p *Plan, limit mem.Bytes) string {
	waits, top := p.ByPurpose["activations"], p.ByPurpose["workspace"]
	held := p.Peak - waits - top
	high := scaleOf(p.Peak, limit)
	x := func(part float64) float64 { return figureLeft + part*(figureWide-figureLeft) }
	y := func(n mem.Bytes) float64 { return figureHigh - high(n) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="memory over a step">`+"\n", figureWide, figureHigh+24)
	fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fV%gH%gZ" fill="#1f77b433" stroke="#1f77b4"/>`+"\n",
		x(0), y(held), x(0.3), y(held+waits), x(0.32), y(p.Peak), x(0.36), y(p.Peak), x(0.38), y(held+waits), x(0.92), y(held), x(1), y(held), figureHigh, figureLeft)
	for _, t := range []struct {
		at   float64
		name string
	}{{0.1, "forward"}, {0.31, "head"}, {0.6, "backward"}, {0.92, "update"}} {
		fmt.Fprintf(&b, `<text x="%.1f" y="%g">%s</text>`+"\n", x(t.at), figureHigh+16, t.name)
	}
	b.WriteString(loadLine(high, limit, figureWide) + "</svg>\n")
	return b.String()
}

// frontier draws the plans that no other beats in both memory and speed.
func frontier(a *Answer) string {
	if len(a.Frontier) < 2 {
		return ""
	}
	var b strings.Builder
	fastest := 0.0
	for _, p := range a.Frontier {
		fastest = max(fastest, p.TokensPerSecond)
	}
	high := func(v float64) float64 { return figureHigh * (1 - 0.92*v/fastest) }
	x := func(n mem.Bytes) float64 { return figureLeft + (figureWide-figureLeft-10)*float64(n)/float64(a.Limit) }
	fmt.Fprintf(&b, "<h2>Memory against speed</h2>\n"+`<svg viewBox="0 0 %g %g" role="img" aria-label="tokens a second against peak memory">`+"\n", figureWide, figureHigh+24)
	path := ""
	for i, p := range a.Frontier {
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		path += fmt.Sprintf("%s%.1f %.1f", verb, x(p.Peak), high(p.TokensPerSecond))
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="#1f77b4"><title>%s: %v, %s tokens/s</title></circle>`+"\n", x(p.Peak), high(p.TokensPerSecond), html.EscapeString(p.Name), p.Peak, Number(p.TokensPerSecond, 4))
	}
	fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="#1f77b4"/><path d="M%g 0V%gH%g" fill="none" stroke="black"/>`+"\n", path, figureLeft, figureHigh, figureWide)
	fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="end">%s</text><text x="%g" y="%g" text-anchor="end">peak a rank, to %v</text></svg>`+"\n<p>Tokens a second of the plans that none beats in both.</p>\n",
		figureLeft-4, high(fastest)+4, Number(fastest, 3), figureWide, figureHigh+16, a.Limit)
	return b.String()
}
