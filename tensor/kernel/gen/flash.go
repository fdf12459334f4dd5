package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// flash emits the kernels of attention: products whose operands lie in cache as they are, and what comes between.
func flash() {
	word("one", 1<<30-1<<23)
	number("minusInf", math.Inf(-1))
	word("sign", 1<<31)
	number("magic", 0x1.8p23)
	number("cut", -125)
	for i, c := range exp2Poly {
		number(fmt.Sprintf("p%d", i+1), c)
	}
	iota := GLOBL(setName("iota"), RODATA|NOPTR)
	for i := range lanes {
		DATA(4*i, U32(uint32(i)))
	}
	consts["iota"] = iota
	word("ones", 1)
	word("lanes", uint32(lanes))
	flashProduct("flashRows", false, 2)
	flashProduct("flashCols", true, 2)
	flashProduct("flashRowsHalf", false, 1)
	flashProduct("flashColsHalf", true, 1)
	flashSoftmax()
	flashProbs()
}

// exp2Poly are the coefficients from r¹ up of a minimax polynomial for 2ʳ, |r| <= 1/2, that is 1 at 0.
var exp2Poly = []float64{0.6931472420692444, 0.24022652208805084, 0.055503103882074356, 0.009617692790925503, 0.0013406643411144614, 0.00015594677824992687}

// flashProduct emits C (m,N) = A (m,k) · B (k,N), N being one or two registers; ld are in bytes. A's element (i,k) lies at
// i·lda+4k, or where cols is set at 4i+k·lda. mode: 0 stores, 1 adds to C, 2 adds to C times f, by columns. Tiles have at
// most 12 rows (6 of AVX2), and the last two of a call share what is left.
func flashProduct(name string, cols bool, vecs int) {
	tile := 6
	if wide() {
		tile = tile512
	}
	fn(name, "func(m, k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, mode int, f *float32)")
	m, a, b, c, lda, ldb, ldc, n := reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI, reg.RDI, reg.R8, reg.R9
	at := []reg.GPPhysical{reg.R10, reg.R11, reg.R12}
	lda3, t := reg.R13, reg.R10
	Load(Param("m"), m)
	Load(Param("a"), a)
	Load(Param("lda"), lda)
	Load(Param("ldb"), ldb)
	Load(Param("c"), c)
	Load(Param("ldc"), ldc)
	LEAQ(Mem{Base: lda, Index: lda, Scale: 2}, lda3)
	Label("next")
	MOVQ(m, n)
	CMPQ(m, Imm(uint64(tile)))
	JLE(LabelRef("pick"))
	MOVQ(I32(int32(tile)), n)
	CMPQ(m, Imm(uint64(tile+tile/2)))
	JGE(LabelRef("pick"))
	LEAQ(mem(m, 1), n)
	SHRQ(Imm(1), n)
	Label("pick")
	for r := tile; r > 1; r-- {
		CMPQ(n, Imm(uint64(r)))
		JEQ(LabelRef(fmt.Sprintf("tile%d", r)))
	}
	size := 4 * lanes
	fac := v[len(v)-4:]
	for r := 1; r <= tile; r++ {
		l := func(s string) string { return fmt.Sprintf("%s%d", s, r) }
		acc := func(i, j int) reg.VecPhysical { return v[vecs*i+j] }
		eachRow := func(f func(i int)) {
			MOVQ(c, t)
			for i := range r {
				f(i)
				if i < r-1 {
					ADDQ(ldc, t)
				}
			}
		}
		Label(l("tile"))
		Load(Param("b"), b)
		Load(Param("mode"), n)
		CMPQ(n, Imm(1))
		JLT(LabelRef(l("fresh")))
		JEQ(LabelRef(l("add")))
		Load(Param("f"), n)
		for j := range vecs {
			VMOVUPS(mem(n, size*j), fac[j])
		}
		eachRow(func(i int) {
			for j := range vecs {
				VMULPS(mem(t, size*j), fac[j], acc(i, j))
			}
		})
		JMP(LabelRef(l("start")))
		Label(l("add"))
		eachRow(func(i int) {
			for j := range vecs {
				VMOVUPS(mem(t, size*j), acc(i, j))
			}
		})
		JMP(LabelRef(l("start")))
		Label(l("fresh"))
		for i := range r {
			for j := range vecs {
				zero(acc(i, j))
			}
		}
		Label(l("start"))
		MOVQ(a, at[0])
		if !cols {
			for i := 4; i < r; i += 4 {
				LEAQ(Mem{Base: at[i/4-1], Index: lda, Scale: 4}, at[i/4])
			}
		}
		elem := func(i, u int) Mem {
			if cols {
				if u%2 == 1 {
					return Mem{Base: at[0], Index: lda, Scale: 1, Disp: 4 * i}
				}
				return mem(at[0], 4*i)
			}
			switch i % 4 {
			case 0:
				return mem(at[i/4], 4*u)
			case 1:
				return Mem{Base: at[i/4], Index: lda, Scale: 1, Disp: 4 * u}
			case 2:
				return Mem{Base: at[i/4], Index: lda, Scale: 2, Disp: 4 * u}
			}
			return Mem{Base: at[i/4], Index: lda3, Scale: 1, Disp: 4 * u}
		}
		bs, as := v[tile*vecs:], v[len(v)-2:] // B's row, A's values
		if wide() {
			as = v[28:]
		}
		step := func(u int) {
			row := bs
			if wide() {
				row = v[24+2*(u%2):]
			}
			for j := range vecs {
				if u%2 == 1 {
					VMOVUPS(Mem{Base: b, Index: ldb, Scale: 1, Disp: size * j}, row[j])
				} else {
					VMOVUPS(mem(b, size*j), row[j])
				}
			}
			for i := range r {
				x := as[i%len(as)]
				VBROADCASTSS(elem(i, u), x)
				for j := range vecs {
					VFMADD231PS(row[j], x, acc(i, j))
				}
			}
		}
		Load(Param("k"), n)
		SUBQ(Imm(4), n)
		JL(LabelRef(l("tail")))
		Label(l("loop"))
		for u := range 4 {
			step(u)
			if u%2 == 1 {
				LEAQ(Mem{Base: b, Index: ldb, Scale: 2}, b)
				if cols {
					LEAQ(Mem{Base: at[0], Index: lda, Scale: 2}, at[0])
				}
			}
		}
		if !cols {
			for i := 0; i < r; i += 4 {
				ADDQ(Imm(16), at[i/4])
			}
		}
		SUBQ(Imm(4), n)
		JGE(LabelRef(l("loop")))
		Label(l("tail"))
		ADDQ(Imm(4), n)
		JZ(LabelRef(l("done")))
		Label(l("one"))
		step(0)
		ADDQ(ldb, b)
		if cols {
			ADDQ(lda, at[0])
		} else {
			for i := 0; i < r; i += 4 {
				ADDQ(Imm(4), at[i/4])
			}
		}
		DECQ(n)
		JNE(LabelRef(l("one")))
		Label(l("done"))
		eachRow(func(i int) {
			for j := range vecs {
				VMOVUPS(acc(i, j), mem(t, size*j))
			}
		})
		SUBQ(Imm(uint64(r)), m)
		JZ(LabelRef("end"))
		LEAQ(Mem{Base: t, Index: ldc, Scale: 1}, c)
		if cols {
			ADDQ(Imm(uint64(4*r)), a)
		} else {
			IMUL3Q(Imm(uint64(r)), lda, n)
			ADDQ(n, a)
		}
		JMP(LabelRef("next"))
	}
	Label("end")
	ret()
}

// exp2v makes x 2 to the power of x < 127 with temporaries t, p and q (or K2): 2ⁿ·2ʳ, n the nearest integer. Below
// 2⁻¹²⁵ it is 0; NaN stays.
func exp2v(x, t, p, q reg.VecPhysical) {
	if wide() {
		VCMPPS(Imm(5), consts["cut"], x, reg.K2) // not below
	} else {
		VCMPPS(Imm(1), consts["cut"], x, q) // below
	}
	VADDPS(consts["magic"], x, t) // the low bits are n
	VSUBPS(consts["magic"], t, p)
	VSUBPS(p, x, x)
	VMOVUPS(consts["p6"], p)
	for i := 5; i > 0; i-- {
		VFMADD213PS(consts[fmt.Sprintf("p%d", i)], x, p)
	}
	VFMADD213PS(consts["one"], x, p)
	VPSLLD(Imm(23), t, t)
	VPADDD(consts["one"], t, t)
	if wide() {
		VMULPS_Z(t, p, reg.K2, x)
		return
	}
	VMULPS(t, p, x)
	VANDNPS(x, q, x)
}

// flashSoftmax continues the softmax of two registers of columns by the n rows of s, in place: see FlashPanel.
// state is the columns' maxima, sums and factors; where lo is not nil a column takes positions lo to hi alone, at being
// that of the first row.
func flashSoftmax() {
	fn("flashSoftmax", "func(n int, s *float32, c float32, at int32, state *float32, lo, hi *int32)")
	n, s, state, lo, hi, p, left := reg.RAX, reg.RBX, reg.RDX, reg.RSI, reg.RDI, reg.R8, reg.R9
	size := 4 * lanes
	Load(Param("n"), n)
	Load(Param("s"), s)
	Load(Param("state"), state)
	Load(Param("lo"), lo)
	Load(Param("hi"), hi)
	VMOVUPS(consts["minusInf"], v[0])
	for i := 1; i < 8; i++ {
		VMOVAPS(v[0], v[i])
	}
	MOVQ(s, p)
	MOVQ(n, left)
	TESTQ(lo, lo)
	JNE(LabelRef("masked"))
	SUBQ(Imm(4), left)
	JL(LabelRef("rest"))
	Label("max")
	for i := range 8 {
		VMAXPS(mem(p, size*i), v[i], v[i])
	}
	ADDQ(I32(int32(8*size)), p)
	SUBQ(Imm(4), left)
	JGE(LabelRef("max"))
	Label("rest")
	ADDQ(Imm(4), left)
	JZ(LabelRef("fold"))
	Label("max1")
	for i := range 2 {
		VMAXPS(mem(p, size*i), v[i], v[i])
	}
	ADDQ(I32(int32(2*size)), p)
	DECQ(left)
	JNE(LabelRef("max1"))
	JMP(LabelRef("fold"))
	Label("masked")
	row := v[8]
	broadcast("at", row)
	for i := range 2 {
		VMOVUPS(mem(lo, size*i), v[9+i])
		VMOVUPS(mem(hi, size*i), v[11+i])
	}
	Label("mask1")
	for i := range 2 {
		x := v[13]
		if wide() {
			VPCMPD(Imm(2), v[11+i], row, reg.K1)
			VPCMPD(Imm(2), row, v[9+i], reg.K1, reg.K2)
			VMOVAPS(v[7], x) // -Inf
			VMOVUPS(mem(p, size*i), reg.K2, x)
		} else {
			VPCMPGTD(v[11+i], row, x)
			VPCMPGTD(row, v[9+i], v[14])
			VPOR(v[14], x, x)
			VMOVUPS(mem(p, size*i), v[14])
			VBLENDVPS(x, v[7], v[14], x)
		}
		VMOVUPS(x, mem(p, size*i))
		VMAXPS(x, v[i], v[i])
	}
	VPADDD(consts["ones"], row, row)
	ADDQ(I32(int32(2*size)), p)
	DECQ(left)
	JNE(LabelRef("mask1"))
	Label("fold")
	for i := range 4 {
		VMAXPS(v[4+i], v[i], v[i])
	}
	for i := range 2 {
		VMAXPS(v[2+i], v[i], v[i])
	}
	c := v[10]
	broadcast("c", c)
	shift := v[8:]
	for i := range 2 {
		old, top := v[2], v[3]
		VMOVUPS(mem(state, size*i), old)
		VMULPS(c, v[i], top)
		VMAXPS(top, old, top)
		VMOVUPS(top, mem(state, size*i))
		if wide() { // shift = -top, or 0 of -Inf
			VCMPPS(Imm(4), consts["minusInf"], top, reg.K1)
			VXORPS_Z(consts["sign"], top, reg.K1, shift[i])
		} else {
			VCMPPS(Imm(4), consts["minusInf"], top, v[4])
			VXORPS(consts["sign"], top, shift[i])
			VANDPS(v[4], shift[i], shift[i])
		}
		VADDPS(shift[i], old, old)
		exp2v(old, v[4], v[5], v[6])
		VMOVUPS(old, mem(state, size*(4+i)))
	}
	for i := range 8 {
		zero(v[i])
	}
	MOVQ(s, p)
	MOVQ(n, left)
	turn := func(r int) {
		for i := range 2 {
			x := v[11:]
			if wide() {
				x = v[11+4*(2*(r%2)+i):]
			}
			VMOVUPS(mem(p, size*(2*r+i)), x[0])
			VFMADD213PS(shift[i], c, x[0])
			exp2v(x[0], x[1], x[2], x[3])
			VMOVUPS(x[0], mem(p, size*(2*r+i)))
			VADDPS(x[0], v[2*r+i], v[2*r+i])
		}
	}
	SUBQ(Imm(4), left)
	JL(LabelRef("few"))
	Label("exp")
	for r := range 4 {
		turn(r)
	}
	ADDQ(I32(int32(8*size)), p)
	SUBQ(Imm(4), left)
	JGE(LabelRef("exp"))
	Label("few")
	ADDQ(Imm(4), left)
	for r := range 3 {
		JZ(LabelRef("sum"))
		turn(r)
		DECQ(left)
	}
	Label("sum")
	for i := range 2 {
		VADDPS(v[4+i], v[i], v[i])
		VADDPS(v[6+i], v[2+i], v[2+i])
		VADDPS(v[2+i], v[i], v[i])
		VMOVUPS(mem(state, size*(2+i)), v[11])
		VMOVUPS(mem(state, size*(4+i)), v[12])
		VFMADD213PS(v[i], v[12], v[11])
		VMOVUPS(v[11], mem(state, size*(2+i)))
	}
	ret()
}

// flashProbs makes of the scores p and the gradients d of probabilities, rows of n registers, ld bytes apart, in place:
// probabilities 2^(c·p - lse), and the scores' gradients, the probability times
// scale·d - delta. Where lo is not nil, both are 0
// but for columns lo to hi of a row.
func flashProbs() {
	fn("flashProbs", "func(rows, n int, p, d *float32, ld int, c, scale float32, lse, delta *float32, lo, hi *int32)")
	rows, n, p, d, ld, lse, delta, lo, hi, at := reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI, reg.RDI, reg.R8, reg.R9, reg.R10, reg.R11
	size := 4 * lanes
	Load(Param("rows"), rows)
	Load(Param("p"), p)
	Load(Param("d"), d)
	Load(Param("ld"), ld)
	Load(Param("lse"), lse)
	Load(Param("delta"), delta)
	Load(Param("lo"), lo)
	Load(Param("hi"), hi)
	c, shift, del, loV, hiV, col, scale := v[0], v[1], v[2], v[3], v[4], v[5], v[6]
	broadcast("c", c)
	broadcast("scale", scale)
	addr := func(b reg.GPPhysical, i int) Mem { return Mem{Base: b, Index: at, Scale: 1, Disp: size * i} }
	turn := func(i int, masked bool) {
		x := v[7:]
		if wide() {
			x = v[7+5*i:]
		}
		VMOVUPS(addr(p, i), x[0])
		VFMADD213PS(shift, c, x[0])
		if masked && wide() {
			VPCMPD(Imm(2), hiV, col, reg.K1)
			VPCMPD(Imm(2), col, loV, reg.K1, reg.K3)
		}
		exp2v(x[0], x[1], x[2], x[3])
		VMOVUPS(addr(d, i), x[1])
		VFMSUB213PS(del, scale, x[1])
		switch {
		case masked && wide():
			VMOVAPS_Z(x[0], reg.K3, x[0])
			VMULPS_Z(x[0], x[1], reg.K3, x[1])
		case masked:
			VPCMPGTD(hiV, col, x[2])
			VPCMPGTD(col, loV, x[3])
			VPOR(x[3], x[2], x[2])
			VANDNPS(x[0], x[2], x[0])
			VMULPS(x[0], x[1], x[1])
			VANDNPS(x[1], x[2], x[1])
		default:
			VMULPS(x[0], x[1], x[1])
		}
		if masked {
			VPADDD(consts["lanes"], col, col)
		}
		VMOVUPS(x[0], addr(p, i))
		VMOVUPS(x[1], addr(d, i))
	}
	Label("row")
	VBROADCASTSS(mem(lse, 0), shift)
	VXORPS(consts["sign"], shift, shift)
	VBROADCASTSS(mem(delta, 0), del)
	ADDQ(Imm(4), lse)
	ADDQ(Imm(4), delta)
	XORQ(at, at)
	Load(Param("n"), n)
	TESTQ(lo, lo)
	JNE(LabelRef("masked"))
	SUBQ(Imm(4), n)
	JL(LabelRef("rest"))
	Label("loop")
	for i := range 4 {
		turn(i, false)
	}
	ADDQ(I32(int32(4*size)), at)
	SUBQ(Imm(4), n)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(4), n)
	JZ(LabelRef("end"))
	Label("one")
	turn(0, false)
	ADDQ(I32(int32(size)), at)
	DECQ(n)
	JNE(LabelRef("one"))
	JMP(LabelRef("end"))
	Label("masked")
	VPBROADCASTD(mem(lo, 0), loV)
	VPBROADCASTD(mem(hi, 0), hiV)
	ADDQ(Imm(4), lo)
	ADDQ(Imm(4), hi)
	VMOVUPS(consts["iota"], col)
	Label("mask1")
	turn(0, true)
	ADDQ(I32(int32(size)), at)
	DECQ(n)
	JNE(LabelRef("mask1"))
	Label("end")
	ADDQ(ld, p)
	ADDQ(ld, d)
	DECQ(rows)
	JNE(LabelRef("row"))
	ret()
}
