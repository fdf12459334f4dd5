// Command peer compares the matrix products of package kernel with OpenBLAS's sgemm, and bf16 with float32:
// ratios of speeds measured in one run, sides in turn. It is a module of its own, so that loading a foreign
// library stays out of the engine.
//
//	OPENBLAS_THREAD_TIMEOUT=20 CGO_ENABLED=0 go run . -lib libopenblas.so.0
//
// OpenBLAS chooses its kernels by CPU when it is loaded; with OPENBLAS_CORETYPE=Haswell they are those that
// a CPU without AVX-512 gets, the yardstick of the set avx2.
package main

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"loadline/internal/par"
	"loadline/tensor/kernel"
)

func main() {
	lib := flag.String("lib", "libopenblas.so.0", "OpenBLAS to load")
	prefix := flag.String("prefix", "", "what its names begin with, scipy_ in the wheels of scipy-openblas")
	rounds := flag.Int("rounds", 60, "rounds, each a few calls of every side")
	names := flag.String("sets", "", "sets to measure, separated by commas; all vector sets where empty")
	threads := flag.String("threads", "1,2", "thread counts")
	flag.Parse()
	blas, err := load(*lib, *prefix)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("OpenBLAS %s; ratios of speeds: median of rounds (best against best)\n", blas.config())
	fmt.Printf("%-15s %-14s %7s %8s   %-22s %-22s %-14s %-14s\n", "set", "M,N,K", "threads", "OpenBLAS", "packs A and B / OB", "B prepacked / OB", "bf16 / f32", "prepacked")
	sets := kernel.Sets()[1:]
	if last := sets[len(sets)-1]; last.Parts() != last {
		sets = append(sets, last.Parts()) // float32 in parts of bf16
	}
	for _, s := range sets {
		if *names != "" && !slices.Contains(strings.Split(*names, ","), s.Name()) {
			continue
		}
		for _, d := range [][3]int{{768, 768, 768}, {512, 2048, 2048}} {
			for _, t := range strings.Split(*threads, ",") {
				n := int(t[0] - '0')
				p := newProblem(s, blas, d[0], d[1], d[2], n)
				if err := p.check(); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				p.measure(*rounds)
				p.close()
			}
		}
	}
}

// library is OpenBLAS.
type library struct {
	sgemm, setThreads, getConfig uintptr
}

func load(path, prefix string) (*library, error) {
	h, err := purego.Dlopen(path, purego.RTLD_NOW)
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	l := &library{}
	for name, p := range map[string]*uintptr{"sgemm_": &l.sgemm, "openblas_set_num_threads": &l.setThreads, "openblas_get_config": &l.getConfig} {
		if *p, err = purego.Dlsym(h, prefix+name); err != nil {
			return nil, fmt.Errorf("peer: %s: %w", path, err)
		}
	}
	return l, nil
}

func (l *library) config() string {
	p, _, _ := purego.SyscallN(l.getConfig)
	var b []byte
	for q := *(*unsafe.Pointer)(unsafe.Pointer(&p)); *(*byte)(q) != 0; q = unsafe.Add(q, 1) {
		b = append(b, *(*byte)(q))
	}
	return string(b)
}

// gemm is row-major C (m,n) = A·B, which is C' = B'·A' for a library that counts columns first.
func (l *library) gemm(m, n, k int, a, b, c []float32) {
	mm, nn, kk, one, zero, no := int32(m), int32(n), int32(k), float32(1), float32(0), [2]byte{'N'}
	p := func(x unsafe.Pointer) uintptr { return uintptr(x) }
	purego.SyscallN(l.sgemm, p(unsafe.Pointer(&no)), p(unsafe.Pointer(&no)), p(unsafe.Pointer(&nn)), p(unsafe.Pointer(&mm)), p(unsafe.Pointer(&kk)),
		p(unsafe.Pointer(&one)), p(unsafe.Pointer(&b[0])), p(unsafe.Pointer(&nn)), p(unsafe.Pointer(&a[0])), p(unsafe.Pointer(&kk)),
		p(unsafe.Pointer(&zero)), p(unsafe.Pointer(&c[0])), p(unsafe.Pointer(&nn)))
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	runtime.KeepAlive(c)
}

// problem is C = A·B in every form.
type problem struct {
	s       kernel.Set
	blas    *library
	m, n, k int
	threads int
	pool    *par.Pool

	a, b, c, want []float32
	ah, bh        []uint16
	pre           kernel.PackedB
	preH          kernel.PackedBF16
	ws            [][]float32
}

func newProblem(s kernel.Set, blas *library, m, n, k, threads int) *problem {
	p := &problem{s: s, blas: blas, m: m, n: n, k: k, threads: threads, pool: par.New(threads)}
	p.a, p.b, p.c, p.want = pages[float32](m*k), pages[float32](k*n), pages[float32](m*n), pages[float32](m*n)
	p.ah, p.bh = pages[uint16](m*k), pages[uint16](k*n)
	r := rand.New(rand.NewPCG(1, 2))
	for _, x := range [][]float32{p.a, p.b} {
		for i := range x {
			x[i] = r.Float32()*2 - 1
		}
	}
	s.RoundBF16(p.ah, p.a)
	s.RoundBF16(p.bh, p.b)
	p.pre = kernel.PackedB{Data: pages[float32](kernel.PackedPartsLen(k, n)), K: k, N: n}
	s.PackB(p.pre, kernel.RowMajor(p.b, k, n, n), 0, n)
	p.preH = kernel.PackedBF16{Data: pages[uint32](kernel.PackedBF16Len(k, n)), K: k, N: n}
	s.PackBF16(p.preH, kernel.RowMajorBF16(p.bh, k, n, n), 0, n)
	for range threads {
		p.ws = append(p.ws, pages[float32](kernel.GemmWorkspace(m, n, k)))
	}
	return p
}

func (p *problem) close() { p.pool.Close() }

// tiles runs f for row ranges of C.
func (p *problem) tiles(f func(r0, r1 int, ws []float32)) {
	if p.threads == 1 {
		f(0, p.m, p.ws[0])
		return
	}
	tile := p.s.Cut(false).Rows
	step := (p.m/(2*p.threads) + tile - 1) / tile * tile
	p.pool.DoTask((p.m+step-1)/step, task(func(i, w int) { f(i*step, min((i+1)*step, p.m), p.ws[w]) }))
}

// columns runs f for column ranges of C, one for each thread.
func (p *problem) columns(f func(j0, j1 int, ws []float32)) {
	if p.threads == 1 {
		f(0, p.n, p.ws[0])
		return
	}
	step := (p.n/p.threads + kernel.PanelCols - 1) / kernel.PanelCols * kernel.PanelCols
	p.pool.DoTask((p.n+step-1)/step, task(func(i, w int) { f(i*step, min((i+1)*step, p.n), p.ws[w]) }))
}

type task func(i, worker int)

func (t task) Run(i, worker int) { t(i, worker) }

func (p *problem) mats() (c, a, b kernel.Mat) {
	return kernel.RowMajor(p.c, p.m, p.n, p.n), kernel.RowMajor(p.a, p.m, p.k, p.k), kernel.RowMajor(p.b, p.k, p.n, p.n)
}

// packing is C = A·B from scratch. Each thread packs B's part for its columns, and all of A where that must be packed.
func (p *problem) packing() {
	c, a, b := p.mats()
	p.columns(func(j0, j1 int, ws []float32) {
		p.s.Gemm(c.Slice(0, p.m, j0, j1), a, b.Slice(0, p.k, j0, j1), false, ws)
	})
}

// prepacked gives threads columns where A is multiplied as it lies, so that they have alike, and otherwise rows, which each packs for itself.
func (p *problem) prepacked() {
	c, a, _ := p.mats()
	if p.s.Cut(false).Direct {
		p.columns(func(j0, j1 int, ws []float32) {
			p.s.GemmPacked(c.Slice(0, p.m, j0, j1), a, p.pre, j0, false, ws)
		})
		return
	}
	p.tiles(func(r0, r1 int, ws []float32) {
		p.s.GemmPacked(c.Slice(r0, r1, 0, p.n), a.Slice(r0, r1, 0, p.k), p.pre, 0, false, ws)
	})
}

func (p *problem) packingBF16() {
	c, _, _ := p.mats()
	a, b := kernel.RowMajorBF16(p.ah, p.m, p.k, p.k), kernel.RowMajorBF16(p.bh, p.k, p.n, p.n)
	p.columns(func(j0, j1 int, ws []float32) {
		p.s.GemmBF16(c.Slice(0, p.m, j0, j1), a, b.Slice(0, p.k, j0, j1), false, ws)
	})
}

func (p *problem) prepackedBF16() {
	c, _, _ := p.mats()
	a := kernel.RowMajorBF16(p.ah, p.m, p.k, p.k)
	p.tiles(func(r0, r1 int, ws []float32) {
		p.s.GemmBF16Packed(c.Slice(r0, r1, 0, p.n), a.Slice(r0, r1, 0, p.k), p.preH, 0, false, ws)
	})
}

func (p *problem) openBLAS() { p.blas.gemm(p.m, p.n, p.k, p.a, p.b, p.c) }

// check compares every form with OpenBLAS: float32 within rounding, bf16 within its own.
func (p *problem) check() error {
	purego.SyscallN(p.blas.setThreads, uintptr(p.threads))
	p.openBLAS()
	copy(p.want, p.c)
	for _, f := range []struct {
		name string
		run  func()
		tol  float64
	}{{"packing", p.packing, 1e-5}, {"prepacked", p.prepacked, 1e-5}, {"bf16", p.packingBF16, 2e-2}, {"bf16 prepacked", p.prepackedBF16, 2e-2}} {
		clear(p.c)
		f.run()
		for i, w := range p.want {
			if d := math.Abs(float64(p.c[i] - w)); !(d <= f.tol*math.Sqrt(float64(p.k))) {
				return fmt.Errorf("peer: %s %s: element %d got %v, OpenBLAS %v", p.s.Name(), f.name, i, p.c[i], w)
			}
		}
	}
	return nil
}

// now is a clock in seconds: with one thread the time it had the CPU, so that other processes weigh less.
func (p *problem) now() float64 {
	if p.threads > 1 {
		return float64(time.Now().UnixNano()) * 1e-9
	}
	return threadSeconds()
}

// measure prints one line. Sides take turns as fast as they can, since a core's speed may change from one second to the next.
func (p *problem) measure(rounds int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pause := 2 * time.Millisecond // until OpenBLAS's threads sleep, which spin for so many cycles after a call: 2²⁸ unless told otherwise
	if n, err := strconv.Atoi(os.Getenv("OPENBLAS_THREAD_TIMEOUT")); err != nil || n > 21 {
		pause = 200 * time.Millisecond
	}
	sides := []func(){p.openBLAS, p.packing, p.prepacked, p.packingBF16, p.prepackedBF16}
	took := make([][]float64, len(sides))
	for range rounds {
		for i, f := range sides {
			time.Sleep(pause)
			f()
			best := math.Inf(1)
			for range 3 {
				start := p.now()
				f()
				best = min(best, p.now()-start)
			}
			took[i] = append(took[i], best)
		}
	}
	ratio := func(of, to int) string {
		var each []float64
		for i, t := range took[of] {
			each = append(each, took[to][i]/t)
		}
		slices.Sort(each)
		return fmt.Sprintf("%.2f (%.2f)", each[len(each)/2], slices.Min(took[to])/slices.Min(took[of]))
	}
	speed := func(i int) float64 {
		return 2 * float64(p.m) * float64(p.n) * float64(p.k) / slices.Min(took[i]) / 1e9
	}
	fmt.Printf("%-15s %-14s %7d %8.0f   %-22s %-22s %-14s %-14s\n", p.s.Name(), fmt.Sprintf("%d,%d,%d", p.m, p.n, p.k), p.threads, speed(0),
		fmt.Sprintf("%s %.0f", ratio(1, 0), speed(1)), fmt.Sprintf("%s %.0f", ratio(2, 0), speed(2)), ratio(3, 1), ratio(4, 2))
}
