// Package hardware is what the planner knows of accelerators: memory and what of it a job may use, bandwidths, and
// the arithmetic that cards were measured to reach beside what their makers promise.
//
// Invariants: every card has a name of its own, positive memory and no negative number; a rate that nobody published
// is 0. Names are matched whatever their case, spaces, hyphens and vendor words, and may leave words out.
//
// It measures nothing: rates come from the table hardware.csv, whose cells name their sources, those filled in from
// memory marked so.
package hardware

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loadline/mem"
)

//go:embed hardware.csv
var tableCSV string

// Card is one accelerator. Rates are per second; 0 is unknown.
type Card struct {
	Name, Vendor string
	Memory       mem.Bytes // as the maker states it
	MemoryType   string
	Bandwidth    float64 // bytes of its memory
	BF16         float64 // dense FLOP, 16-bit
	FP8          float64
	INT8         float64
	FP4          float64
	BF16Measured float64 // the best that a matrix product reached
	FP8Measured  float64
	Link         float64 // bytes to its neighbours, both directions together
	PCIe         int     // generation
	Watts        float64
	Unified      bool // memory is the host's too
	Notes        string
	reported     mem.Bytes // what the driver shows, where the notes say
}

// Table is the known cards.
type Table struct{ cards []Card }

var reportedMiB = regexp.MustCompile(`(\d+) ?MiB reported`)

// Load reads and checks the built-in table.
func Load() (*Table, error) {
	all, err := csv.NewReader(strings.NewReader(tableCSV)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("hardware: %w", err)
	}
	t := &Table{}
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = strings.TrimSpace(cells[i])
		}
		c, err := card(row)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(t.cards, func(o Card) bool { return o.Name == c.Name }) {
			return nil, fmt.Errorf("hardware: %q is listed twice", c.Name)
		}
		t.cards = append(t.cards, c)
	}
	return t, nil
}

func card(row map[string]string) (Card, error) {
	var bad error
	read := func(column string, unit float64) float64 {
		cell := row[column]
		if cell == "" {
			return 0
		}
		x, err := strconv.ParseFloat(cell, 64)
		if err != nil || x < 0 {
			bad = fmt.Errorf("hardware: %s of %q: got %q, want a number", column, row["name"], cell)
		}
		return x * unit
	}
	c := Card{
		Name: row["name"], Vendor: row["vendor"], MemoryType: row["memory_type"],
		Memory: mem.Bytes(read("memory_gb", float64(mem.GiB))), Bandwidth: read("mem_bw_gbs", 1e9),
		BF16: read("bf16_dense_tflops", 1e12), FP8: read("fp8_dense_tflops", 1e12), INT8: read("int8_dense_tops", 1e12), FP4: read("fp4_dense_tflops", 1e12),
		BF16Measured: read("mamf_bf16_tflops_measured", 1e12), FP8Measured: read("mamf_fp8_tflops_measured", 1e12),
		Link: read("link_gbs_bidir_per_gpu", 1e9), Watts: read("tdp_w", 1), Unified: row["unified_memory"] == "y", Notes: row["notes"],
	}
	if g := row["pcie_gen"]; g != "" {
		c.PCIe = int(g[0] - '0')
	}
	if m := reportedMiB.FindStringSubmatch(c.Notes); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return c, fmt.Errorf("hardware: %q: %w", c.Name, err)
		}
		c.reported = mem.Bytes(n) * mem.MiB
	}
	if bad == nil && (c.Name == "" || c.Memory <= 0 || c.PCIe < 0 || c.PCIe > 9) {
		bad = fmt.Errorf("hardware: a card %q with %v of memory and PCIe %d", c.Name, c.Memory, c.PCIe)
	}
	return c, bad
}

// With returns the table with one card more. A user's card hides one of the same name.
func (t *Table) With(c Card) (*Table, error) {
	words, _ := words(c.Name)
	switch {
	case !hasModel(words):
		return nil, fmt.Errorf("hardware: a card is called %q: want a name with letters, or a number of four digits", c.Name)
	case c.Memory <= Context || c.Memory > maxMemory:
		return nil, fmt.Errorf("hardware: %q has %v of memory, want more than %v and at most %v", c.Name, c.Memory, Context, maxMemory)
	case c.PCIe != 0 && (c.PCIe < 3 || c.PCIe > 9):
		return nil, fmt.Errorf("hardware: %q has PCIe %d, want 3 to 9", c.Name, c.PCIe)
	}
	for _, x := range []float64{c.Bandwidth, c.BF16, c.FP8, c.INT8, c.FP4, c.BF16Measured, c.FP8Measured, c.Link, c.Watts} {
		if !(x >= 0 && x <= 1e18) {
			return nil, fmt.Errorf("hardware: %q has a rate of %g, want 0 to 1e18", c.Name, x)
		}
	}
	others := slices.DeleteFunc(t.Cards(), func(o Card) bool { return strings.EqualFold(o.Name, c.Name) })
	return &Table{append(others, c)}, nil
}

// SetReported sets what the driver shows as the card's memory.
func (c *Card) SetReported(n mem.Bytes) { c.reported = n }

// maxMemory bounds a card.
const maxMemory = mem.Bytes(1) << 50

// Cards returns all cards, in the order of the table.
func (t *Table) Cards() []Card { return slices.Clone(t.cards) }

// inlineECC are cards that keep error-correcting codes in their own memory: a sixteenth of it, on unless switched off.
var inlineECC = []string{"T4", "A10", "A10G", "A40", "L4", "L20", "L40S"}

// Context is what the driver takes of a card for one process with kernels loaded.
const Context = mem.Bytes(500 << 20)

// Reported returns what the driver shows as the card's memory: its size less error-correcting codes and firmware.
func (c *Card) Reported() mem.Bytes {
	switch {
	case c.reported > 0:
		return c.reported
	case slices.Contains(inlineECC, c.Name):
		return c.Memory / 16 * 15
	case c.Unified:
		return c.Memory / 4 * 3 // what the system leaves, by default
	}
	return c.Memory - c.Memory/200
}

// Usable returns what a process can allocate.
func (c *Card) Usable() mem.Bytes { return c.Reported() - Context }

// Matmul returns the FLOP/s that 16-bit matrix products reach: measured, or what cards of its kind lose.
func (c *Card) Matmul() float64 {
	if c.BF16Measured > 0 {
		return c.BF16Measured
	}
	return 0.82 * c.BF16
}

// MatmulFP8 is Matmul in 8 bits, or in 16 where the card has no such units.
func (c *Card) MatmulFP8() float64 {
	switch {
	case c.FP8Measured > 0:
		return c.FP8Measured
	case c.FP8 > 0:
		return 0.72 * c.FP8
	}
	return c.Matmul()
}

// HostLink returns the bytes a second that reach the card from the host, one way.
func (c *Card) HostLink() float64 {
	if c.Unified {
		return c.Bandwidth
	}
	lanes := 16.0
	gen := c.PCIe
	if gen == 0 {
		gen = 4
	}
	return 0.8 * lanes * 0.985e9 * float64(int(1)<<(gen-3)) // of which four fifths arrive
}

// Stream returns the bytes a second at which one kernel reads a card's memory. A card with few units for its
// bandwidth, as H20, cannot keep enough reads in flight: no more than a byte for 75 FLOP of its peak.
func (c *Card) Stream() float64 {
	if c.Vendor == "NVIDIA" && !c.Unified && c.BF16 > 0 {
		return min(c.Bandwidth, c.BF16/75)
	}
	return c.Bandwidth
}
