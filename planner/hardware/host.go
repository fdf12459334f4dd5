package hardware

import "loadline/mem"

// HostVendor is the vendor of a Host.
const HostVendor = "CPU"

// Host returns a machine without a card as a card: its processor computes, and three quarters of the memory that a process may take are
// the card's, the rest the host's, as on other machines that have one memory. bandwidth is bytes a second and matmul the FLOP/s of 16-bit
// matrix products, both as measured.
func Host(name string, memory mem.Bytes, bandwidth, matmul float64) Card {
	return Card{
		Name: name, Vendor: HostVendor, Memory: memory, MemoryType: "host", Bandwidth: bandwidth, BF16: matmul, BF16Measured: matmul,
		Unified: true, Notes: "measured here",
	}
}
