package train

import (
	"unsafe"

	"loadline/compile"
	"loadline/mem"
)

// RuntimeBytes is what the Go runtime is given: heap, stacks, code, and of that heapPrograms for programs. A job of many layers whose programs
// take more is given as much more.
const (
	RuntimeBytes = 48 * mem.MiB
	heapPrograms = 16 * mem.MiB
)

// runtime is what the Go runtime is given with such programs.
func (c *compiler) runtime(programs []*compile.Program) mem.Bytes {
	var heap mem.Bytes
	for _, p := range programs {
		heap += heapBytes(p)
	}
	return c.fixed.Runtime + max(0, heap-heapPrograms)
}

// heapBytes is about what p takes of the Go heap, with what a device makes of it: a quarter more than its lists.
func heapBytes(p *compile.Program) mem.Bytes {
	n := len(p.Instrs)*int(unsafe.Sizeof(compile.Instr{})) + len(p.Buffers)*int(unsafe.Sizeof(compile.Buffer{})) + len(p.Outputs)*int(unsafe.Sizeof(compile.Output{}))
	for i := range p.Instrs {
		n += (len(p.Instrs[i].In) + len(p.Instrs[i].Out)) * int(unsafe.Sizeof(compile.Operand{}))
	}
	return mem.Bytes(n) * 5 / 4
}
