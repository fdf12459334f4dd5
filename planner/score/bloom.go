package score

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"loadline/planner/frameworks"
	"loadline/planner/shape"
)

var (
	bloomSep   = regexp.MustCompile(`[;/]`)
	bloomHid   = regexp.MustCompile(`(?i)(?:^|[;/ ])N?HIDDEN=(\d+)`)
	bloomHeads = regexp.MustCompile(`(?i)NHEADS=(\d+)`)
	bloomDepth = regexp.MustCompile(`(?i)NLAYERS=(\d+)`)
	bloomBatch = regexp.MustCompile(`GBS=(\d+)`)
	bloomOwn   = regexp.MustCompile(`(?:^|[;/ ])Layers=(\d+)`)
)

// bloomVocab is BLOOM's vocabulary.
const bloomVocab = 250_880

func bloomJob(r *Row) (frameworks.Job, error) {
	find := func(re *regexp.Regexp) int {
		for _, part := range bloomSep.Split(r.ArchText, -1) {
			if m := re.FindStringSubmatch(strings.TrimSpace(part)); m != nil {
				return count(m[1])
			}
		}
		return 0
	}
	h := find(bloomHid)
	if h == 0 {
		return frameworks.Job{}, fmt.Errorf("NHIDDEN is not recorded")
	}
	depth := find(bloomOwn)
	if depth == 0 {
		depth = find(bloomDepth)
	}
	if depth == 0 {
		size, ok := shape.SizeIn(r.Model)
		if !ok {
			return frameworks.Job{}, fmt.Errorf("the number of layers is not recorded")
		}
		depth = int(math.Round((size - bloomVocab*float64(h)) / (12 * float64(h) * float64(h))))
	}
	heads := find(bloomHeads)
	if heads == 0 {
		heads = max(1, h/128)
	}
	if depth < 1 || depth > 4096 {
		return frameworks.Job{}, fmt.Errorf("got %d layers", depth)
	}
	s := &shape.Shape{
		Name: r.Model, Arch: "bloom", Hidden: h, Heads: heads, HeadDim: max(1, h/heads), Vocab: bloomVocab, Tied: true,
		NormBias: true, QKVBias: true, OutBias: true, MLPBias: true, Norms: 2, EmbedNorm: true,
	}
	for range depth {
		s.Layers = append(s.Layers, shape.Layer{KVHeads: heads, HeadDim: s.HeadDim, FFN: 4 * h})
	}
	j := frameworks.Job{
		Shape: s, Ranks: count(r.Ranks), TP: r.par("TP"), PP: r.par("PP"), MicroBatch: count(r.MicroBatch), GlobalBatch: count(r.GlobalBatch), Seq: count(r.Seq),
		Recompute: frameworks.Full, Compute: "fp16", Unfused: true,
	}
	if j.Seq == 0 {
		j.Seq = 2048
	}
	if g := find(bloomBatch); g > 0 {
		j.GlobalBatch = g
	}
	if r.par("ZeRO") >= 1 {
		j.Shard = frameworks.ShardOptim
	}
	if has(r.DType, "accum") {
		j.Compute = "bf16-fp32grads"
	}
	if dp := r.par("DP"); dp > 0 { // said or implied
		j.Ranks = dp * max(1, j.TP) * max(1, j.PP)
	}
	return j, s.Validate()
}
