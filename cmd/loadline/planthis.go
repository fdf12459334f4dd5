package main

import (
	"fmt"
	"math"

	"loadline/cost"
	"loadline/graph"
	"loadline/mem"
	"loadline/planner/hardware"
	"loadline/planner/search"
	"loadline/tensor/dtype"
)

// thisHardware describes this machine to the planner: what a process may take of its memory, and speeds as they were measured, with all
// threads. It says what it found.
func (a *app) thisHardware(flag string) (*search.Machine, error) {
	if flag == "" {
		flag = thisMachine
	}
	threads := a.computeThreads(1)
	m, err := a.machine(flag, threads, true)
	if err != nil {
		return nil, err
	}
	available, _, err := availableMemory()
	if err != nil {
		return nil, err
	}
	f32, bf16 := productRate(&m, dtype.F32), productRate(&m, dtype.BF16)
	best := math.Max(f32, bf16) // where 16-bit products are slower, they are widened
	fmt.Fprintf(a.text(), "this machine, %s: %s, %.0f GFLOP/s in f32 and %.0f in bf16, memory %.1f GB/s, file %.2f GB/s, %v available\n",
		m.Name, count(threads, "thread"), f32/1e9, bf16/1e9, m.Bandwidth/1e9, m.Link[mem.Disk]/1e9, available)
	return &search.Machine{
		Card: hardware.Host(hostName(threads), available, m.Bandwidth, best), Nodes: 1, PerNode: 1,
		HostBandwidth: m.Bandwidth, DiskBandwidth: m.Link[mem.Disk],
	}, nil
}

// hostName is this machine's name among cards.
func hostName(threads int) string { return fmt.Sprintf("this machine (%s)", count(threads, "thread")) }

// productRate is the FLOP/s of a product of rows with a weight of a layer's size.
func productRate(m *cost.Machine, t dtype.Type) float64 {
	const rows, d = 512, 1024
	b := graph.NewBuilder("product", graph.Bounds{Rows: rows})
	of := func(n graph.Dim) graph.Type { return graph.Type{DType: t, Shape: graph.S(n, graph.D(d))} }
	b.MatMul(b.Input("x", of(graph.R(1))), b.Input("w", of(graph.D(d))))
	n := &b.G.Ops[0]
	return n.FLOPs / m.Op(b.G, n)
}
