// Command gen writes the vector kernels of package kernel with avo, for AVX2 with FMA, for AVX-512, or for the
// tiles of AMX: the assembly and its Go declarations, both committed. It is a module of its own so that avo stays out of the
// engine's dependencies; `go generate` in package kernel runs it once for each.
//
// Every kernel uses physical registers only. A slice's tail runs the same instructions as its body, with
// masked loads and stores, so that an element's bits do not depend on its position. The elementwise and row
// kernels are written once; they do the same operations in both widths and give the same bits.
package main

import (
	"flag"
	"fmt"
	"math"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var y = []reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15}

var z = []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31}

// v are the vector registers of the set that is written: 8 lanes of y, or 16 of z.
var (
	v     = y
	lanes = 8
	set   = "AVX2"
)

// mask is the register that holds the tail's mask: y15, or K1 where registers are wide.
var mask = y[15]

func wide() bool { return lanes == 16 }

func main() {
	name := flag.String("set", "avx2", "avx2, avx512 or amx; quant512, quant2 or quantamx for the quantised products of a set, turn for their panels; table2 for what widens codes of tables")
	part := flag.String("part", "", "flash alone, or all but it")
	flag.Parse()
	ConstraintExpr("amd64,!purego")
	switch *name {
	case "turn":
		turns()
		Generate()
		return
	case "quant512", "quant2":
		quantised(*name == "quant512")
		Generate()
		return
	case "table2":
		codesOfTables()
		Generate()
		return
	case "quantamx":
		quantAMX()
		Generate()
		return
	case "avx512":
		v, lanes, set = z, 16, "AVX512"
	case "amx":
		v, lanes, set = z, 16, "AMX"
		amx()
		Generate()
		return
	}
	if *part == "flash" {
		flash()
		Generate()
		return
	}
	constants()
	if wide() {
		gemm512()
		pack512()
	} else {
		gemm()
		pack()
		pack16()
	}
	vector()
	reduce()
	exps()
	optim()
	casts()
	Generate()
}

func fn(name, sig string) {
	TEXT(name+set, NOSPLIT, sig)
	Pragma("noescape")
}

func ret() {
	VZEROUPPER()
	RET()
}

func mem(b reg.Register, disp int) Mem { return Mem{Base: b, Disp: disp} }
func zero(r reg.VecPhysical)           { VXORPS(r, r, r) }
func x(r reg.VecPhysical) Op           { return r.AsX() }
func half(r reg.VecPhysical) Op        { return r.AsY() }

// broadcast loads a float32 parameter into every lane.
func broadcast(name string, r reg.VecPhysical) {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(p.Addr, r)
}

// consts are constants of a whole register by name.
var consts = map[string]Mem{}

func word(name string, w uint32) {
	m := GLOBL(setName(name), RODATA|NOPTR)
	for i := range lanes {
		DATA(4*i, U32(w))
	}
	consts[name] = m
}

func setName(name string) string { return strings.ToLower(set) + "_" + name }

func number(name string, f float64) { word(name, math.Float32bits(float32(f))) }

var masks Mem // 8 words of ones, then 8 of zeros

func constants() {
	if !wide() {
		masks = GLOBL("avx2_masks", RODATA|NOPTR)
		for i := range 16 {
			w := uint32(0)
			if i < 8 {
				w = 0xffffffff
			}
			DATA(4*i, U32(w))
		}
	}
	number("one", 1)
	word("sign", 1<<31)
	number("inf", math.Inf(1))
	number("minusInf", math.Inf(-1))
	// exp: the range, 1.5·2²³ that rounds to an integer, ln 2 in two parts (the first of ten bits, so that
	// its product with an integer is exact), and a minimax polynomial of degree 6 on |r| <= ln 2 / 2.
	word("expLo", 0xc2aeac4f) // -87.33654, just above 2⁻¹²⁶
	number("expHi", 89)
	number("log2e", math.Log2E)
	number("magic", 0x1.8p23)
	number("ln2hi", 0.693359375)
	number("ln2lo", -2.12194440e-4)
	number("e2", 0.4999999343)
	number("e3", 0.166665204)
	number("e4", 0.04166839079)
	number("e5", 0.008368745116)
	number("e6", 0.001381453999)
	number("minusHalf", -0.5)
	number("erfP", 0.3275911/math.Sqrt2)
	for i, a := range []float64{0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429} {
		number(fmt.Sprintf("erf%d", i+1), a/2)
	}
	number("rootTau", 1/(math.Sqrt2*math.SqrtPi))
	number("geluA", 0.044715)
	number("gelu3A", 3*0.044715)
	number("gelu2C", 2*0.7978845608028654)
	number("geluHi", 10)
	number("geluLo", -10)
	castConstants()
}

// tailMask makes the mask of the first n lanes, n below their number, and clobbers n and t.
func tailMask(n, t reg.GPPhysical) {
	if wide() {
		kMask(n, t, reg.K1)
	} else {
		loadMask(n, t, mask)
	}
}

// kMask makes the mask of the first n bits, n < 32, and clobbers t.
func kMask(n, t reg.GPPhysical, k reg.OpmaskPhysical) {
	MOVQ(I32(-1), t)
	BZHIQ(n, t, t)
	KMOVD(t.As32(), k)
}

// loadMask makes a mask of 8 lanes, of which the first n < 8 are set, and clobbers n and t.
func loadMask(n, t reg.GPPhysical, m reg.VecPhysical) {
	LEAQ(masks, t)
	NEGQ(n)
	VMOVDQU(Mem{Base: t, Index: n, Scale: 4, Disp: 32}, m)
}

// access is a load or store of a register of elements, whole or masked.
type access struct{ masked bool }

func (a access) load(m Mem, r reg.VecPhysical) {
	switch {
	case !a.masked:
		VMOVUPS(m, r)
	case wide():
		VMOVUPS_Z(m, reg.K1, r)
	default:
		VMASKMOVPS(m, mask, r)
	}
}

func (a access) store(r reg.VecPhysical, m Mem) {
	switch {
	case !a.masked:
		VMOVUPS(r, m)
	case wide():
		VMOVUPS(r, reg.K1, m)
	default:
		VMASKMOVPS(r, mask, m)
	}
}

// pointers are where each and reduce put slices, in order.
var pointers = []reg.GPPhysical{reg.R8, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13}

// each emits a loop over a register of elements of the named slices at a time: body gets their addresses.
func each(name, sig string, slices []string, setup func(), body func(a access, p []Mem)) {
	fn(name, sig)
	for i, s := range slices {
		Load(Param(s).Base(), pointers[i])
	}
	Load(Param(slices[0]).Len(), reg.RCX)
	setup()
	eachLoop(len(slices), body)
	ret()
}

// eachLoop is the loop of each over RCX elements at the first n pointers.
func eachLoop(n int, body func(a access, p []Mem)) {
	idx := reg.RAX
	p := make([]Mem, n)
	for i := range p {
		p[i] = Mem{Base: pointers[i], Index: idx, Scale: 4}
	}
	XORQ(idx, idx)
	SUBQ(Imm(uint64(lanes)), reg.RCX)
	JL(LabelRef("tail"))
	Label("loop")
	body(access{}, p)
	ADDQ(Imm(uint64(lanes)), idx)
	CMPQ(idx, reg.RCX)
	JLE(LabelRef("loop"))
	Label("tail")
	ADDQ(Imm(uint64(lanes)), reg.RCX)
	SUBQ(idx, reg.RCX)
	JZ(LabelRef("done"))
	tailMask(reg.RCX, reg.RDX)
	body(access{masked: true}, p)
	Label("done")
}
