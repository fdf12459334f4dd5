// Package cost models the time of operations and transfers on a described machine. Bytes are exact and live in graph and
// compile; time here is a roofline estimate (Williams et al., CACM 2009) that ranks plans and never changes a result.
package cost

import "loadline/mem"

// Machine describes a machine to the model.
type Machine struct {
	Name      string
	FLOPs     float64               // achievable arithmetic, FLOP/s
	Bandwidth float64               // achievable memory traffic, bytes/s
	Overhead  float64               // seconds that any operation takes
	Link      [mem.NumTiers]float64 // bytes/s of a copy between the device tier and each lower tier; 0 where there is none
}

// Laptop2 describes two cores of a present-day CPU with AVX2, plain memory and a SATA-class disk.
func Laptop2() Machine {
	m := Machine{Name: "2-core-avx2", FLOPs: 100e9, Bandwidth: 12e9, Overhead: 2e-6}
	m.Link[mem.Host] = 5e9
	m.Link[mem.Disk] = 500e6
	return m
}

// H100 describes an H100 SXM at rates that dense training reaches.
func H100() Machine {
	m := Machine{Name: "h100-sxm-80gb", FLOPs: 400e12, Bandwidth: 2.5e12, Overhead: 3e-6}
	m.Link[mem.Host] = 50e9
	m.Link[mem.Disk] = 5e9
	return m
}

// Seconds is the modelled time of an operation: the longer of arithmetic and traffic.
func (m Machine) Seconds(flops, moved float64) float64 {
	return m.Overhead + max(flops/m.FLOPs, moved/m.Bandwidth)
}
