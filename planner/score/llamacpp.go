package score

import (
	"fmt"
	"regexp"
	"strings"

	"loadline/mem"
	"loadline/planner/frameworks"
	"loadline/planner/shape"
)

var (
	perDevice = regexp.MustCompile(`([A-Za-z_0-9]+):([0-9.eE+]+)`)
	ggufSize  = regexp.MustCompile(`size=([0-9.]+) ?(GiB|MiB)`)
	ggufBits  = regexp.MustCompile(`\(([0-9.]+) BPW\)`)
)

const mib = 1 << 20

// devices reads a list such as "CUDA0:816.0|CUDA1:782.0", in MiB.
func devices(text string) (sum, largest float64, gpus int) {
	for _, m := range perDevice.FindAllStringSubmatch(text, -1) {
		x, ok := num(m[2])
		if !ok {
			continue
		}
		sum += x
		largest = max(largest, x)
		if strings.HasPrefix(m[1], "CUDA") && !strings.Contains(m[1], "Host") {
			gpus++
		}
	}
	return sum, largest, gpus
}

// llamacpp scores a row three times: its cache, its weights, its largest compute buffer.
func (rep *Report) llamacpp(r *Row, cards *shape.Cards, skip func(string, ...any)) {
	run, err := llamaRun(r, cards)
	counted := 0
	pair := func(family string, predicted, measured float64) {
		p := Pair{Row: r, Family: family, Predicted: mem.Bytes(predicted), Measured: measured}
		p.Low, p.High = frameworks.SpreadOf(family).Range(p.Predicted)
		rep.Pairs = append(rep.Pairs, p)
		counted++
	}
	kv, _, _ := devices(r.Extras["kv_mib"])
	if kv == 0 {
		if x, ok := num(r.Extras["kv"]); ok { // a total in MiB instead of the cache's types
			kv = x
		} else if has(r.Metric, "kv_total") {
			kv, _ = num(r.Value)
		}
	}
	if kv > 0 && err == nil && run.Context > 0 {
		pair("llamacpp-kv", run.KV(), kv*mib)
	}
	model, _, _ := devices(r.Extras["model_mib"])
	if m := ggufSize.FindStringSubmatch(r.ArchText); m != nil && model > 0 {
		size, _ := num(m[1])
		size *= mib
		if m[2] == "GiB" {
			size *= 1024
		}
		pair("llamacpp-weights", size, model*mib)
	}
	_, compute, _ := devices(r.Extras["compute_mib"])
	if compute > 0 && err == nil && run.Context > 0 && !run.Shape.MLA() {
		pair("llamacpp-compute", run.Compute(), compute*mib)
	}
	switch {
	case counted > 0:
	case err != nil:
		skip("%v", err)
	default:
		skip("no kv_MiB, model_MiB or compute_MiB")
	}
}

// llamaRun reads the flags of a llama.cpp log.
func llamaRun(r *Row, cards *shape.Cards) (frameworks.LlamaCpp, error) {
	s, err := modelOf(r, cards)
	if err != nil {
		return frameworks.LlamaCpp{}, err
	}
	k, v, both := strings.Cut(r.Extras["kv"], "/")
	if _, total := num(k); total {
		k = ""
	}
	if !both {
		v = k
	}
	c := frameworks.LlamaCpp{
		Shape: s, Context: count(number.FindString(r.Seq)), MicroB: count(r.Extras["n_ubatch"]), Flash: r.Extras["fa"] == "1",
		MLA: count(r.Extras["mla"]),
	}
	if c.MicroB == 0 {
		c.MicroB = 512
	}
	if c.K, err = frameworks.CacheTypeByName(k); err != nil {
		return c, fmt.Errorf("%w", err)
	}
	if c.V, err = frameworks.CacheTypeByName(v); err != nil {
		return c, err
	}
	_, _, c.Devices = devices(r.Extras["model_mib"])
	if m := ggufBits.FindStringSubmatch(r.ArchText); m != nil {
		c.HostBits, _ = num(m[1])
	}
	cpu := 0.0
	for _, m := range perDevice.FindAllStringSubmatch(r.Extras["model_mib"], -1) {
		if strings.HasPrefix(m[1], "CPU") {
			x, _ := num(m[2])
			cpu += x
		}
	}
	c.Offload = cpu > 4096 && c.Devices > 0
	return c, nil
}
