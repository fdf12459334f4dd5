// Package probe measures this machine for the cost model: how long every kind of operation takes in every element type,
// how fast memory is copied, and how fast a file is written and read.
//
// Operations are not timed alone but inside training steps of small models, where caches hold what they hold in earnest.
// A few steps of each are made, every instruction is timed, and cost.Fit makes rates of the times of those that nothing disturbed. The models differ in
// width, length and kind so that the parts of a rate can be told apart; none is there because a plan that is judged later
// has its shape.
//
// Rig runs the steps, and serves benchmarks too: several settings of one model, open at once, that take turns.
//
// It decides nothing: what it finds is data for cost. A cache keeps it, by processor, kernels and version.
package probe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/model"
	"loadline/tensor/dtype"
	"loadline/train"
)

// Options are how a machine is measured.
type Options struct {
	Name   string        // of the machine that results
	Dir    string        // where a file may be written, and removed
	Memory mem.Bytes     // most that the largest model may hold; 0 is no limit
	Time   time.Duration // about what all may take; 0 is the least that gives rates
}

// geglu is Llama with a feed-forward of its own.
const geglu = "geglu"

// setting is one small model that is trained for a few steps.
type setting struct {
	model                          string // as config.json has it, or geglu
	d, layers, heads, kv, ffn, voc int
	batch, seq                     int
	precision, attention           string
	optimizer                      compile.Optimizer
}

// settings are the models. Each kind of operation is there in at least two sizes.
func settings() (out []setting) {
	add := func(kind string, d, layers, heads, kv, ffn, vocab, batch, seq int, precision, attention string) {
		out = append(out, setting{kind, d, layers, heads, kv, ffn, vocab, batch, seq, precision, attention, compile.AdamW})
	}
	for _, p := range []string{"fp32", "bf16", "fp16"} {
		for _, attention := range []string{"flash", "standard"} {
			add(model.Llama, 128, 2, 4, 2, 384, 1024, 2, 256, p, attention)
			if p == "fp16" { // which no kernel is made for: slow, and one size has to do
				continue
			}
			add(model.Llama, 384, 1, 6, 6, 1024, 2048, 1, 256, p, attention)
			add(model.Llama, 128, 1, 2, 2, 256, 512, 1, 2048, p, attention)
		}
		add(model.GPT2, 128, 1, 2, 2, 512, 512, 2, 128, p, "flash")
		add(model.Mixtral, 128, 1, 4, 2, 384, 512, 2, 128, p, "flash")
		add(geglu, 128, 1, 2, 2, 256, 512, 1, 128, p, "flash")
		if p == "fp16" {
			continue
		}
		add(model.GPT2, 256, 1, 4, 4, 1024, 512, 8, 128, p, "flash")
		add(model.Mixtral, 256, 1, 4, 2, 512, 512, 1, 256, p, "flash")
		add(geglu, 256, 1, 4, 4, 768, 512, 4, 128, p, "flash")
		add(model.Llama, 256, 1, 4, 4, 768, 256, 32, 128, p, "flash")   // rows that no cache near a core holds
		add(model.Llama, 128, 1, 4, 2, 384, 512, 8, 256, p, "standard") // nor such scores
		add(model.Llama, 1024, 1, 16, 16, 2816, 1024, 1, 256, p, "flash")
		if p == "bf16" { // tiles are so fast that packing and products tell apart at many rows alone
			add(model.Llama, 768, 1, 12, 12, 2048, 1024, 2, 512, p, "flash")
		}
	}
	for _, optimizer := range []compile.Optimizer{compile.SGD, compile.Lion, compile.Adafactor} {
		for _, d := range []int{128, 256} {
			out = append(out, setting{model.Llama, d, 1, 2, 2, 2 * d, 512, 1, 128, "fp32", "flash", optimizer})
		}
	}
	return out
}

// options is the training of a setting.
func (s setting) options() train.Options {
	c := model.Config{
		ModelType: s.model, HiddenSize: s.d, NumLayers: s.layers, NumHeads: s.heads, NumKVHeads: s.kv, HeadDim: s.d / s.heads,
		IntermediateSize: s.ffn, VocabSize: s.voc, MaxPositionEmbeddings: s.seq, RopeTheta: 10000, TieWordEmbeddings: true,
		HiddenAct: "silu", BOSTokenID: -1, RMSNormEps: 1e-5,
	}
	switch s.model {
	case geglu:
		c.ModelType, c.HiddenAct = model.Llama, "gelu_pytorch_tanh"
	case model.GPT2:
		c.HiddenAct, c.LayerNormEps, c.RMSNormEps, c.RopeTheta = "gelu_new", 1e-5, 0, 0
	case model.Mixtral:
		c.NumLocalExperts, c.NumExpertsPerTok = 4, 2
	}
	o := train.Defaults(c)
	o.Batch, o.Seq, o.Precision, o.Attention = s.batch, s.seq, s.precision, s.attention
	if o.Optimizer = s.optimizer; o.Optimizer == compile.SGD {
		o.Momentum = 0.9
	}
	return o
}

// The number of steps that are timed of each setting.
const (
	leastSteps = 4
	mostSteps  = 9
)

// Measure measures dev. What it returns is fitted to this process's own steps, so nothing else should be running.
func Measure(dev device.Device, o Options) (cost.Machine, error) {
	all := settings()
	var samples []cost.Sample
	end := time.Now().Add(o.Time)
	for i, s := range all {
		got, err := sample(dev, s.options(), o, time.Until(end)/time.Duration(len(all)-i)) // what one took too long, the rest has less
		if err != nil {
			return cost.Machine{}, fmt.Errorf("probe: model %d of %d: %w", i+1, len(all), err)
		}
		samples = append(samples, got...)
	}
	m := describe(o.Name, samples)
	var err error
	if m.Link[mem.Host], err = copyRate(); err != nil {
		return m, err
	}
	if m.Link[mem.Disk], err = fileRate(o.Dir); err != nil {
		return m, err
	}
	return m, nil
}

// sample times the instructions of one setting's steps for about the time given.
func sample(dev device.Device, o train.Options, limits Options, about time.Duration) (_ []cost.Sample, err error) {
	r, err := compileAll(dev, o)
	if err != nil {
		return nil, err
	}
	if limits.Memory > 0 && r.Job(0).Promise.Memory() > limits.Memory {
		return nil, nil
	}
	if err := r.open(dev, limits.Dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if _, err := r.Step(0); err != nil { // touches all memory for the first time
		return nil, err
	}
	var out []cost.Sample
	var seconds [][]float64
	begin := time.Now()
	for n := 0; n < leastSteps || n < mostSteps && time.Since(begin)*time.Duration(n+1)/time.Duration(max(n, 1)) < about; n++ {
		at := 0
		err := r.Watch(0, func(p *compile.Program, in *compile.Instr, d time.Duration) {
			if n == 0 {
				out, seconds = append(out, describeInstr(p, in)), append(seconds, nil)
			}
			seconds[at] = append(seconds[at], d.Seconds())
			at++
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range out {
		out[i].Seconds = undisturbed(seconds[i])
	}
	return out, nil
}

// undisturbed is what a third of the times are below: what else runs now and then makes some steps slow and none fast. It sorts x.
func undisturbed(x []float64) float64 {
	slices.Sort(x)
	return x[(len(x)-1)/3]
}

// describeInstr is a sample without its time.
func describeInstr(p *compile.Program, in *compile.Instr) cost.Sample {
	types := func(os []compile.Operand) (out []graph.Type) {
		for _, o := range os {
			out = append(out, o.Type)
		}
		return out
	}
	i, o := types(in.In), types(in.Out)
	return cost.Sample{
		Key:  cost.Key{Kind: in.Op.Kind(), Type: cost.TypeOf(append(append([]graph.Type{}, i...), o...)...)},
		Work: cost.WorkOf(in.Op, p.Bounds, i, o),
	}
}

// describe makes a machine of samples. Its memory is as fast as the largest update was, which reads and writes more than caches hold.
func describe(name string, samples []cost.Sample) cost.Machine {
	m := cost.Machine{Name: name, Overhead: 1, Rates: cost.Fit(samples)}
	var most float64
	for _, s := range samples {
		if s.Key.Type != dtype.F32 || !(s.Seconds > 0) {
			continue
		}
		switch kind := s.Key.Kind; {
		case kind == graph.MatMul{}.Kind():
			m.FLOPs = max(m.FLOPs, s.FLOPs/s.Seconds)
		case kind == graph.AdamW{}.Kind() && s.Moved > most:
			most, m.Bandwidth = s.Moved, s.Moved/s.Seconds
		}
		m.Overhead = min(m.Overhead, s.Seconds)
	}
	return m
}

// linkBytes is what is copied and written.
const linkBytes = 32 << 20

// copyRate is the bytes a second that one thread copies between two places in memory.
func copyRate() (rate float64, err error) {
	var parts [mem.NumPurposes]mem.Bytes
	parts[mem.Staging] = 2 * linkBytes
	a, err := arena.New(mem.NewLedger(mem.Limits{}), mem.Host, parts)
	if err != nil {
		return 0, fmt.Errorf("probe: memory: %w", err)
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b := a.Bytes()
	best := time.Duration(1<<63 - 1)
	for range 4 { // the first touches the pages
		begin := time.Now()
		copy(b[linkBytes:2*linkBytes], b[:linkBytes])
		best = min(best, time.Since(begin))
	}
	return linkBytes / best.Seconds(), nil
}

// fileRate is the bytes a second that reach a file and its disk, or come back, whichever are fewer.
func fileRate(dir string) (rate float64, err error) {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return 0, fmt.Errorf("probe: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := os.Remove(f.Name()); err != nil { // at once, so that nothing is left behind whatever happens
		return 0, fmt.Errorf("probe: %w", err)
	}
	piece := make([]byte, 64<<10)
	for i := range piece {
		piece[i] = byte(i * 7)
	}
	begin := time.Now()
	for range linkBytes / len(piece) {
		if _, err := f.Write(piece); err != nil {
			return 0, fmt.Errorf("probe: %w", err)
		}
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("probe: %w", err)
	}
	write := time.Since(begin)
	begin = time.Now()
	for i := range linkBytes / len(piece) {
		if _, err := f.ReadAt(piece, int64(i*len(piece))); err != nil {
			return 0, fmt.Errorf("probe: %w", err)
		}
	}
	return linkBytes / max(write, time.Since(begin)).Seconds(), nil
}
