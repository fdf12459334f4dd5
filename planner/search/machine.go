package search

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"loadline/mem"
	"loadline/planner/hardware"
)

// Machine is a cluster of equal nodes of equal cards.
type Machine struct {
	Card    hardware.Card
	Nodes   int
	PerNode int
	Host    mem.Bytes // of a node; 0 for twice its cards' memory
	NVMe    mem.Bytes // of a node; 0 for none
	// HostBandwidth is bytes a second of a node's memory as the CPU reads it: 60 GB/s, two channels of DDR5, where 0.
	HostBandwidth float64
	// NodeLink is bytes a second that a card sends to other nodes: 35 GB/s, what 400 Gb/s reach, where 0.
	NodeLink float64
	// DiskBandwidth is bytes a second of a node's NVMe: 5 GB/s where 0.
	DiskBandwidth float64
}

// maxCards bounds a cluster.
const maxCards = 1 << 17

// cluster splits [N x ][M x ]NAME.
var cluster = regexp.MustCompile(`^\s*(?:(-?\d+)\s*[x×*]\s*)?(?:(-?\d+)\s*[x×*]\s*)?(\S.*)$`)

// ParseMachine reads a cluster as people write it: "RTX-4090", "8xH100-SXM-80GB", "4 x 8 x H100". One count of more
// than 16 cards that eights divide is taken as nodes of eight.
func ParseMachine(table *hardware.Table, text string) (Machine, error) {
	parts := cluster.FindStringSubmatch(text)
	if parts == nil {
		return Machine{}, &Invalid{What: "hardware", Got: strconv.Quote(text), Nearest: "8xH100-SXM-80GB"}
	}
	m := Machine{Nodes: 1, PerNode: 1}
	for i, n := range []*int{&m.Nodes, &m.PerNode} {
		if parts[i+1] == "" {
			continue
		}
		k, err := strconv.Atoi(parts[i+1])
		if err != nil || k > maxCards {
			return Machine{}, &Invalid{What: "hardware", Got: strconv.Quote(text), Why: "too many cards", Nearest: fmt.Sprintf("%dx%s", maxCards, parts[3])}
		}
		if k < 1 {
			return Machine{}, &Invalid{What: "hardware", Got: strconv.Quote(text), Why: "a cluster has at least one card", Nearest: "1x" + parts[3]}
		}
		*n = k
	}
	if parts[1] != "" && parts[2] == "" {
		m.Nodes, m.PerNode = 1, m.Nodes
		if m.PerNode > 16 && m.PerNode%8 == 0 {
			m.Nodes, m.PerNode = m.PerNode/8, 8
		}
	}
	if m.Nodes*m.PerNode > maxCards {
		return Machine{}, &Invalid{What: "hardware", Got: strconv.Quote(text), Why: "too many cards", Nearest: fmt.Sprintf("%dx%s", maxCards, parts[3])}
	}
	card, err := table.Find(strings.TrimSpace(parts[3]))
	if err != nil {
		return Machine{}, err
	}
	m.Card = card
	return m, nil
}

// Cards returns how many there are.
func (m *Machine) Cards() int { return max(1, m.Nodes) * max(1, m.PerNode) }

// host returns the memory of a node outside its cards. A card that shares the host's memory leaves a quarter of it.
func (m *Machine) host() mem.Bytes {
	switch {
	case m.Host > 0:
		return m.Host
	case m.Card.Unified:
		return m.Card.Memory - m.Card.Reported()
	}
	return 2 * m.Card.Memory * mem.Bytes(max(1, m.PerNode))
}

func (m *Machine) hostBandwidth() float64 {
	switch {
	case m.HostBandwidth > 0:
		return m.HostBandwidth
	case m.Card.Unified:
		return m.Card.Bandwidth
	}
	return 60e9
}

func (m *Machine) nodeLink() float64 {
	if m.NodeLink > 0 {
		return m.NodeLink
	}
	return 35e9
}

func (m *Machine) disk() float64 {
	if m.DiskBandwidth > 0 {
		return m.DiskBandwidth
	}
	return 5e9
}

// String says the machine as it was understood.
func (m Machine) String() string {
	s := fmt.Sprintf("%s of %v, %v usable, %v of it for the framework", m.Card.Name, m.Card.Memory, m.Card.Reported(), m.Card.Usable())
	switch {
	case m.Nodes > 1:
		s = fmt.Sprintf("%d nodes of %d × %s", m.Nodes, m.PerNode, s)
	case m.PerNode > 1:
		s = fmt.Sprintf("%d × %s", m.PerNode, s)
	}
	return fmt.Sprintf("%s, %v of host memory a node", s, m.host())
}
