package search

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"loadline/mem"
	"loadline/planner/hardware"
)

// Machines are the cards that have a name: the table's, and those that users describe, with the machines around them.
type Machines struct {
	table *hardware.Table
	own   []Machine // users', the last of a name counts
}

// NewMachines returns the machines of a table.
func NewMachines(table *hardware.Table) *Machines { return &Machines{table: table} }

// Cards returns every card, users' last.
func (m *Machines) Cards() []hardware.Card { return m.table.Cards() }

// Own returns the names of users' machines.
func (m *Machines) Own() []string {
	var names []string
	for i := range m.own {
		names = append(names, m.own[i].Card.Name)
	}
	return names
}

// Parse reads a cluster as ParseMachine does. Of a user's machine, what the text does not count is as described.
func (m *Machines) Parse(text string) (Machine, error) {
	found, err := ParseMachine(m.table, text)
	if err != nil {
		return found, err
	}
	for i := len(m.own) - 1; i >= 0; i-- {
		own := m.own[i]
		if own.Card.Name != found.Card.Name {
			continue
		}
		if parts := cluster.FindStringSubmatch(text); parts != nil && parts[1] != "" {
			own.Nodes, own.PerNode = found.Nodes, found.PerNode
		}
		return own, nil
	}
	return found, nil
}

// key is one setting of a user's machine.
type key struct {
	name     string
	unit     float64 // of a number; 0 for bytes as people write them
	from, to float64
	set      func(m *Machine, x float64)
}

const gb, tera = 1e9, 1e12

// keys are what a description may say besides name, like, vendor and unified. Names are those of the table's columns.
var keys = []key{
	{"memory", 0, 1 << 29, 1 << 50, func(m *Machine, x float64) { m.Card.Memory = mem.Bytes(x) }},
	{"reported", 0, 1 << 29, 1 << 50, func(m *Machine, x float64) { m.Card.SetReported(mem.Bytes(x)) }},
	{"bandwidth_gbs", gb, 0.1, 1e6, func(m *Machine, x float64) { m.Card.Bandwidth = x }},
	{"bf16_tflops", tera, 0.001, 1e6, func(m *Machine, x float64) { m.Card.BF16 = x }},
	{"fp8_tflops", tera, 0, 1e6, func(m *Machine, x float64) { m.Card.FP8 = x }},
	{"int8_tops", tera, 0, 1e6, func(m *Machine, x float64) { m.Card.INT8 = x }},
	{"fp4_tflops", tera, 0, 1e6, func(m *Machine, x float64) { m.Card.FP4 = x }},
	{"measured_bf16_tflops", tera, 0, 1e6, func(m *Machine, x float64) { m.Card.BF16Measured = x }},
	{"measured_fp8_tflops", tera, 0, 1e6, func(m *Machine, x float64) { m.Card.FP8Measured = x }},
	{"link_gbs", gb, 0, 1e6, func(m *Machine, x float64) { m.Card.Link = x }},
	{"watts", 1, 0, 1e6, func(m *Machine, x float64) { m.Card.Watts = x }},
	{"pcie", 1, 3, 9, func(m *Machine, x float64) { m.Card.PCIe = int(x) }},
	{"nodes", 1, 1, maxCards, func(m *Machine, x float64) { m.Nodes = int(x) }},
	{"cards", 1, 1, 4096, func(m *Machine, x float64) { m.PerNode = int(x) }},
	{"host_memory", 0, 1, 1 << 60, func(m *Machine, x float64) { m.Host = mem.Bytes(x) }},
	{"nvme", 0, 1, 1 << 60, func(m *Machine, x float64) { m.NVMe = mem.Bytes(x) }},
	{"host_bandwidth_gbs", gb, 0.1, 1e6, func(m *Machine, x float64) { m.HostBandwidth = x }},
	{"node_link_gbs", gb, 0.001, 1e6, func(m *Machine, x float64) { m.NodeLink = x }},
	{"disk_bandwidth_gbs", gb, 0.001, 1e6, func(m *Machine, x float64) { m.DiskBandwidth = x }},
}

// With returns the machines with one more, as a file describes it: a card of its own, or one like another with what
// is different, and the machine around it. Rates are those of the table's columns: dense, TFLOP or GB a second.
func (m *Machines) With(fields map[string]any) (*Machines, error) {
	one := Machine{Nodes: 1, PerNode: 1}
	words := map[string]string{}
	for _, k := range []string{"name", "like", "vendor"} {
		v, ok := fields[k]
		if !ok {
			continue
		}
		s, ok := v.(string)
		if n, isInt := v.(int); isInt {
			s, ok = strconv.Itoa(n), true
		}
		if s = strings.TrimSpace(s); !ok || s == "" || len(s) > 100 || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			text := fmt.Sprint(v)
			return nil, &Invalid{What: k, Got: strconv.Quote(text[:min(len(text), 100)]), Why: "want a name of 1 to 100 characters"}
		}
		words[k] = s
	}
	name := words["name"]
	if name == "" {
		return nil, &Invalid{What: "name", Got: "none", Why: "a machine has a name"}
	}
	if parts := cluster.FindStringSubmatch(name); parts != nil && parts[1] != "" {
		return nil, &Invalid{What: "name", Got: strconv.Quote(name), Why: "a name that begins with a count means so many cards", Nearest: parts[3]}
	}
	if slices.ContainsFunc(m.own, func(o Machine) bool { return strings.EqualFold(o.Card.Name, name) }) {
		return nil, &Invalid{What: "name", Got: strconv.Quote(name), Why: "two machines have it"}
	}
	if like := words["like"]; like != "" {
		at, err := m.Parse(like)
		if err != nil {
			return nil, err
		}
		one = at
	}
	one.Card.Name = name
	if v := words["vendor"]; v != "" {
		one.Card.Vendor = v
	} else if one.Card.Vendor == "" {
		one.Card.Vendor = "NVIDIA"
	}
	if v, ok := fields["unified"]; ok {
		unified, isBool := v.(bool)
		if !isBool {
			return nil, &Invalid{What: "unified", Got: fmt.Sprint(v), Why: "want true or false", Nearest: "false"}
		}
		one.Card.Unified = unified
	}
	known := []string{"name", "like", "vendor", "unified"}
	for _, k := range keys {
		known = append(known, k.name)
		v, ok := fields[k.name]
		if !ok {
			continue
		}
		x, err := k.number(v)
		if err != nil {
			return nil, err
		}
		if k.name == "memory" && words["like"] != "" {
			one.Card.SetReported(0)
		}
		k.set(&one, x)
	}
	for k := range fields {
		if !slices.Contains(known, k) {
			return nil, &Invalid{What: "the file", Got: strconv.Quote(k[:min(len(k), 100)]), Why: "no such setting", Nearest: nearestWord(k[:min(len(k), 100)], known)}
		}
	}
	for _, need := range []struct {
		name string
		x    float64
	}{{"memory", float64(one.Card.Memory)}, {"bandwidth_gbs", one.Card.Bandwidth}, {"bf16_tflops", one.Card.BF16}} {
		if need.x <= 0 {
			return nil, &Invalid{What: need.name, Got: "none", Why: "a card needs it, or `like: CARD` to take it from", Nearest: "like: H100-SXM-80GB"}
		}
	}
	if one.Nodes*one.PerNode > maxCards {
		return nil, &Invalid{What: "nodes × cards", Got: fmt.Sprint(one.Nodes * one.PerNode), Why: "too many cards", Nearest: fmt.Sprint(maxCards)}
	}
	if shown := one.Card.Reported(); shown > one.Card.Memory {
		return nil, &Invalid{What: "reported", Got: shown.String(), Why: fmt.Sprintf("the card has %v", one.Card.Memory), Nearest: strings.ReplaceAll(one.Card.Memory.String(), " ", "")}
	}
	table, err := m.table.With(one.Card)
	if err != nil {
		return nil, err
	}
	if found, err := table.Find(name); err != nil || found.Name != name {
		return nil, &Invalid{What: "name", Got: strconv.Quote(name), Why: "it means " + found.Name + " already; choose another, or that name as it is"}
	}
	return &Machines{table, append(slices.Clone(m.own), one)}, nil
}

// number reads a setting's value.
func (k *key) number(v any) (float64, error) {
	x := math.NaN()
	switch v := v.(type) {
	case int:
		x = float64(v)
	case int64:
		x = float64(v)
	case uint64:
		x = float64(v)
	case float64:
		x = v
	case string:
		if k.unit == 0 {
			if n, err := mem.ParseBytes(v); err == nil {
				x = float64(n)
			}
		}
	}
	what := "a number"
	low, high := fmt.Sprint(k.from), fmt.Sprint(k.to)
	if k.unit == 0 {
		what = "a size such as 48GiB"
		low, high = strings.ReplaceAll(mem.Bytes(k.from).String(), " ", ""), strings.ReplaceAll(mem.Bytes(k.to).String(), " ", "")
	}
	whole := k.unit != 1 || x == math.Trunc(x) || k.name == "watts"
	if !(x >= k.from && x <= k.to) || !whole {
		near := low
		if x > k.to {
			near = high
		}
		text := fmt.Sprint(v)
		return 0, &Invalid{What: k.name, Got: text[:min(len(text), 100)], Why: fmt.Sprintf("want %s, %s to %s", what, low, high), Nearest: near}
	}
	if k.unit > 0 {
		x *= k.unit
	}
	return x, nil
}
