package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"loadline/mem"
	"loadline/mem/arena"
	"loadline/model/tokenizer"
	"loadline/model/weights"
	"loadline/train"
)

// codeBytes is what of the Runtime line the Go runtime does not count itself: resident pages of the program, and the stacks of its
// threads. Measured: 9 to 11 MiB of the program after a training or a generation on Linux.
const codeBytes = 14 * mem.MiB

// planHeap bounds the heap while planning inside a limit, which holds nothing else then.
func planHeap(limit mem.Bytes) {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(int64(max(limit-codeBytes, 16*mem.MiB)))
}

// settle ends planning: it gives the heap's free pages back to the system and holds the runtime to its line of the plan from here on.
func settle(runtimeBytes mem.Bytes) {
	debug.SetMemoryLimit(int64(runtimeBytes - codeBytes))
	debug.FreeOSMemory()
}

// heapError says that what a verb does before its programs run takes more heap than the limit leaves.
type heapError struct {
	what        string
	need, limit mem.Bytes
}

// Error returns one line.
func (e *heapError) Error() string {
	return fmt.Sprintf("does not fit: %s takes up to %v, --memory is %v", e.what, e.need, e.limit)
}

// Advice returns one line: what to do.
func (e *heapError) Advice() string {
	return fmt.Sprintf("--memory %dMiB", (e.need+mem.MiB-1)/mem.MiB)
}

// loadTokenizer reads a tokenizer.json, a tokenizer.model or that of a GGUF file inside a limit. What the Runtime line of any plan covers
// is not asked about: a plan says more.
func loadTokenizer(path string, limit mem.Bytes) (*tokenizer.Tokenizer, error) {
	t, err := weights.LoadTokenizer(path, max(limit, train.RuntimeBytes)-codeBytes)
	var no *weights.TokenizerError
	if errors.As(err, &no) {
		return nil, &heapError{"reading " + path, codeBytes + no.Need, limit}
	}
	return t, err
}

// memoryLimit is --memory, or the default for the machine as it is now, with a text that says where it comes from.
func memoryLimit(flag sizeFlag, ranks int) (mem.Bytes, string, error) {
	if flag > 0 {
		return mem.Bytes(flag), "--memory", nil
	}
	available, from, err := availableMemory()
	if err != nil {
		return 0, "", advise(err, "give a limit with --memory")
	}
	limit := available / 10 * 8 / mem.Bytes(ranks)
	text := fmt.Sprintf("80%% of %v (%s)", available, from)
	if ranks > 1 {
		text += fmt.Sprintf(", shared by %d ranks", ranks)
	}
	return limit, text, nil
}

// smallest returns the smaller of the amount at hand and what the control groups allow.
func smallest(available mem.Bytes, groups []string) (mem.Bytes, string) {
	from := "MemAvailable"
	for _, path := range groups {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // no controller, or no such level
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n > 0 && mem.Bytes(n) < available { // "max", and v1's huge number, are no limit
			available, from = mem.Bytes(n), "limit of the control group"
		}
	}
	return available, from
}

// memoryReport is what every verb that runs programs says about memory.
type memoryReport struct {
	Limit     mem.Bytes                `json:"limit_bytes"`
	Predicted mem.Bytes                `json:"predicted_peak_bytes"`
	Ledger    mem.Bytes                `json:"ledger_peak_bytes"`
	RSS       mem.Bytes                `json:"rss_peak_bytes"`
	Seconds   float64                  `json:"seconds"`
	ByPurpose map[string]purposeReport `json:"by_purpose"`
}

// purposeReport is one purpose's promise and fact.
type purposeReport struct {
	Predicted mem.Bytes `json:"predicted"`
	Ledger    mem.Bytes `json:"ledger"`
}

// reportMemory compares a promise with a ledger and asks the kernel for the process's peak.
func reportMemory(limit mem.Bytes, promise, fact mem.Usage) (memoryReport, error) {
	r := memoryReport{Limit: limit, Predicted: promise.Memory(), Ledger: fact.Memory(), ByPurpose: map[string]purposeReport{}}
	p, f := promise.ByPurpose(), fact.ByPurpose()
	for _, q := range mem.Purposes() {
		if p[q] != 0 || f[q] != 0 {
			r.ByPurpose[q.String()] = purposeReport{p[q], f[q]}
		}
	}
	var err error
	r.RSS, err = arena.VmHWM()
	return r, err
}

// check returns an error if fact is not what was promised.
func (r *memoryReport) check() error {
	const report = "this is a fault of loadline: please report it with the command line"
	switch {
	case r.Predicted != r.Ledger:
		return advise(fmt.Errorf("memory: the plan promised a peak of %d bytes, the ledger saw %d", int64(r.Predicted), int64(r.Ledger)), report)
	case r.RSS > r.Limit:
		return advise(fmt.Errorf("memory: the process held %v at its peak, the limit is %v", r.RSS, r.Limit), report)
	}
	return nil
}

// print writes promise against fact for people.
func (r *memoryReport) print(w io.Writer) {
	rows := [][]string{{"memory", "promised", "ledger"}}
	for _, q := range mem.Purposes() {
		if p, ok := r.ByPurpose[q.String()]; ok {
			rows = append(rows, []string{q.String(), p.Predicted.String(), p.Ledger.String()})
		}
	}
	table(w, append(rows, []string{"peak", r.Predicted.String(), r.Ledger.String()}))
	kept := "kept"
	if err := r.check(); err != nil {
		kept = "BROKEN"
	}
	fmt.Fprintf(w, "process peak RSS %v of %v: promise %s\n", r.RSS, r.Limit, kept)
}
