package train

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"loadline/compile"
	"loadline/cost"
	"loadline/graph"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor"
	"loadline/tensor/dtype"
)

// Options are the settings of a training run. Defaults returns usable ones; the zero value is not valid.
type Options struct {
	Config model.Config

	// Batch is the sequences of one micro-batch on one rank; a step takes Batch·Accumulate·Ranks of them. Micro-batch m of rank r holds
	// the sequences from (m·Ranks+r)·Batch on.
	Batch      int
	Seq        int // tokens of a sequence
	Accumulate int // micro-batches a step
	Steps      int // in all, resumed ones included

	LR       float64 // peak learning rate
	MinLR    float64 // what the schedule ends at, as a fraction of LR; 0 to 1
	Schedule Schedule
	Warmup   int // steps of the linear rise
	Decay    int // steps of the fall at the end; WSD alone

	Optimizer    compile.Optimizer
	Beta1, Beta2 float64 // AdamW and Lion
	Eps          float64 // AdamW
	Momentum     float64 // SGD
	Nesterov     bool    // SGD with momentum
	WeightDecay  float64 // of tensors of two or more axes
	Clip         float64 // largest global norm of the gradient; 0 is no clipping
	Dropout      float64

	LabelSmoothing float64 // of training alone, as ZLoss: see graph.LossTerms. Losses of steps hold both terms, those of evaluations neither
	ZLoss          float64

	// Precision is "fp32"; "bf16" or "fp16" store weights of two or more axes, activations and their gradients in that type, with f32
	// masters of the weights, and everything that is summed in f32. With fp16 the loss is scaled by LossScale.
	Precision string
	NoMaster  bool      // bf16 alone: there are no masters, and updates of weights are rounded stochastically
	LossScale ScaleRule // fp16 alone
	Recompute compile.Recompute
	Attention string // "standard" or "flash"
	HeadChunk int    // rows of logits held at once, a multiple of 128; 0 is the most that stays within 2 MiB, at least 128; or AutoChunk

	Ranks   int  // processes
	Zero    int  // ZeRO stage
	Offload bool // saved activations go to a file, or to host memory where DeviceMemory is set
	// OffloadOptimizer puts masters and the optimizer's States there, from where updates bring them in piece by piece.
	OffloadOptimizer bool
	// Lower is how much of that tier Compile may use, by itself, for what OffloadOptimizer moves, where nothing else fits or all else is modelled
	// slower; 0 is none. No more goes there then than has to. Where Compile has chosen so, OffloadOptimizer is set in the Job's options.
	Lower mem.Bytes
	piece int64           // of OffloadOptimizer, in bytes; 0 is what is usual
	stay  map[string]bool // weights whose masters and States OffloadOptimizer leaves where they are

	Memory       mem.Bytes // most that a process may hold; 0 is no limit
	DeviceMemory mem.Bytes // most of it that may lie on the device tier; 0 is no limit of its own
	// SavedActivations is what recompute auto decides by in place of the other limits, for comparisons of policies: most bytes of forward
	// values that are alive when the backward half begins; 0 is none. The other limits are only held then.
	SavedActivations mem.Bytes

	// Continues says that the run goes on from a checkpoint, which settles precision, sequences and their length: a refusal advises none of them.
	Continues bool

	SaveEvery int // steps; 0 saves at the end alone
	Keep      int // checkpoints that stay; 0 is all
	EvalEvery int // steps; 0 never evaluates

	Seed    uint64 // of start weights and dropout; the stream of tokens has its own
	Machine cost.Machine

	// Planning is told which program is planned next; nil is not told. It is no setting of the run.
	Planning func(program string) `json:"-"`
}

// Defaults returns the settings of a run of c that nothing else is said about.
func Defaults(c model.Config) Options {
	return Options{
		Config: c, Batch: 8, Seq: 256, Accumulate: 1, Steps: 100,
		LR: 1e-3, MinLR: 0.1, Schedule: Cosine, Warmup: 10,
		Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, WeightDecay: 0.1, Clip: 1,
		Precision: "fp32", LossScale: TorchScale(), Attention: "flash", Ranks: 1, Keep: 2, Seed: 1, Machine: cost.Laptop2(),
	}
}

// TuneLR is the peak learning rate of a run that goes on from the weights of a trained model, where nothing else is said: a fiftieth of Defaults', with which the
// first steps undo what such weights have learnt. Lion's steps are larger than AdamW's, SGD's far smaller.
func TuneLR(opt compile.Optimizer) float64 {
	switch opt {
	case compile.Lion:
		return 5e-6
	case compile.SGD:
		return 1e-3
	}
	return 2e-5
}

// OptionError says that a setting cannot be.
type OptionError struct {
	Option string // as a flag without dashes
	Err    error
}

// Error returns one line.
func (e *OptionError) Error() string { return fmt.Sprintf("train: --%s: %v", e.Option, e.Err) }

// Unwrap returns Err.
func (e *OptionError) Unwrap() error { return e.Err }

func bad(option, format string, args ...any) error {
	return &OptionError{option, fmt.Errorf(format, args...)}
}

// Bounds of what is added and multiplied freely afterwards.
const (
	maxRanks      = 1 << 10 // the most that collective/local connects
	maxStepTokens = 1 << 40 // tokens of one step
	maxSteps      = 1 << 20 // every step's loss is held in the Runtime line, 4 bytes each, and as text in checkpoints and documents
)

// Validate returns an *OptionError about the first setting that cannot be, or the model's own error.
func (o *Options) Validate() error {
	switch {
	case !(o.LabelSmoothing >= 0 && o.LabelSmoothing < 1):
		return bad("label-smoothing", "%g: want 0 or more, and less than 1", o.LabelSmoothing)
	case !(o.ZLoss >= 0 && o.ZLoss <= 1):
		return bad("z-loss", "%g: want 0 to 1", o.ZLoss)
	}
	if err := o.graphOptions("step").Validate(o.Config); err != nil {
		return err
	}
	for _, f := range []struct {
		name   string
		n, min int
	}{
		{"accumulate", o.Accumulate, 1}, {"steps", o.Steps, 1}, {"ranks", o.Ranks, 1}, {"save-every", o.SaveEvery, 0},
		{"keep", o.Keep, 0}, {"eval-every", o.EvalEvery, 0},
	} {
		if f.n < f.min {
			return bad(f.name, "%d: want at least %d", f.n, f.min)
		}
	}
	switch tokens := float64(o.Batch) * float64(o.Seq) * float64(o.Accumulate) * float64(o.Ranks); {
	case o.Ranks > maxRanks:
		return bad("ranks", "%d: want at most %d", o.Ranks, maxRanks)
	case tokens > maxStepTokens:
		return bad("accumulate", "%d: a step would take %.3g tokens, want at most %.3g", o.Accumulate, tokens, float64(maxStepTokens))
	case o.Steps > maxSteps:
		return bad("steps", "%d: want at most %d", o.Steps, maxSteps)
	case o.Clip > 0 && float32(o.Clip) == 0: // which would mean none
		return bad("clip", "%g: want 0, or at least %g", o.Clip, math.SmallestNonzeroFloat32)
	}
	for _, f := range []struct {
		name string
		x    float64
	}{{"weight-decay", o.WeightDecay}, {"clip", o.Clip}, {"momentum", o.Momentum}} {
		if !(f.x >= 0 && f.x < math.MaxFloat32) {
			return bad(f.name, "%g: want 0 or more", f.x)
		}
	}
	if err := o.validateSchedule(); err != nil {
		return err
	}
	switch {
	case !slices.Contains(precisions, o.Precision):
		return bad("precision", "%q: only %s are there yet", o.Precision, strings.Join(precisions, ", "))
	case o.NoMaster && o.Precision != "bf16":
		return bad("master", "none with --precision %s: only bf16 is trained without masters", o.Precision)
	case o.Attention != "flash" && o.Attention != "standard":
		return bad("attention", "%q: want standard or flash", o.Attention)
	case o.Nesterov && (o.Optimizer != compile.SGD || o.Momentum == 0):
		return bad("nesterov", "it is of sgd with momentum")
	case o.Optimizer == compile.SGD && o.Momentum >= 1:
		return bad("momentum", "%g: want less than 1", o.Momentum)
	case o.Optimizer == compile.Lion && !(o.Beta1 >= 0 && o.Beta1 < 1 && o.Beta2 >= 0 && o.Beta2 < 1):
		return bad("optimizer", "lion with betas %g and %g: want 0 or more and less than 1", o.Beta1, o.Beta2)
	case o.Optimizer == compile.AdamW && !(o.Beta1 >= 0 && o.Beta1 < 1 && o.Beta2 >= 0 && o.Beta2 < 1 && o.Eps > 0):
		return bad("optimizer", "adamw with betas %g, %g and eps %g: want betas of 0 or more and less than 1, and eps above 0", o.Beta1, o.Beta2, o.Eps)
	case o.HeadChunk != AutoChunk && (o.HeadChunk < 0 || o.HeadChunk%tensor.BlockRows != 0):
		return bad("head-chunk", "%d rows: want a multiple of %d", o.HeadChunk, tensor.BlockRows)
	case o.Zero < 0 || o.Zero > 3:
		return bad("zero", "%d: want 0 to 3", o.Zero)
	case o.Zero > 0 && o.Ranks == 1:
		return bad("zero", "%d: want at least 2 ranks", o.Zero)
	case o.Memory < 0 || o.DeviceMemory < 0:
		return bad("memory", "%v, device memory %v: want 0 or more", o.Memory, o.DeviceMemory)
	case o.SavedActivations < 0 || o.SavedActivations > 0 && o.Recompute.Policy != compile.Auto:
		return bad("recompute", "%v, saved activations of %v: want auto for a limit of them", o.Recompute, o.SavedActivations)
	case (o.Offload || o.OffloadOptimizer) && o.Machine.Link[o.OffloadTier()] <= 0:
		return bad("offload", "the machine has no link to %v", o.OffloadTier())
	}
	if o.scaled() {
		if err := o.LossScale.Validate(); err != nil {
			return &OptionError{"precision", err}
		}
	}
	return nil
}

// precisions are the number formats of training.
var precisions = []string{"fp32", "bf16", "fp16"}

// compute is the type of what Precision narrows.
func (o *Options) compute() dtype.Type {
	switch o.Precision {
	case "bf16":
		return dtype.BF16
	case "fp16":
		return dtype.F16
	}
	return dtype.F32
}

// scaled tells whether the loss is scaled, and a step may be skipped.
func (o *Options) scaled() bool { return o.compute() == dtype.F16 }

// split tells whether a step is several programs, with gradients kept between them.
func (o *Options) split() bool { return o.Accumulate > 1 || o.scaled() }

// Offloads names what lies on the lower tier, as --offload does.
func (o *Options) Offloads() (names []string) {
	if o.Offload {
		names = append(names, "activations")
	}
	if o.OffloadOptimizer {
		names = append(names, "optimizer")
	}
	return names
}

// OffloadTier is where Offload and OffloadOptimizer put things.
func (o *Options) OffloadTier() mem.Tier {
	if o.DeviceMemory > 0 {
		return mem.Host
	}
	return mem.Disk
}

// Sequences is the sequences of one step, over all micro-batches and ranks.
func (o *Options) Sequences() int { return o.Batch * o.Accumulate * o.Ranks }

// AutoChunk as Options.HeadChunk has Compile choose: the most rows that fit into what the limits leave, as long as the step is modelled no
// slower for them.
const AutoChunk = -1

// chunkBytes is the most that the loss head takes for logits unless told otherwise.
const chunkBytes = 2 << 20

// chunk is the rows of logits that the loss head holds at once.
func (o *Options) chunk() int {
	if o.HeadChunk > 0 {
		return o.HeadChunk
	}
	return max(chunkBytes/(4*o.Config.VocabSize)/128*128, 128)
}

// graphOptions are the model's own.
func (o *Options) graphOptions(name string) model.TrainOptions {
	return model.TrainOptions{Name: name, Batch: o.Batch, Seq: o.Seq, Standard: o.Attention == "standard", Dropout: float32(o.Dropout),
		Loss: graph.LossTerms{Smoothing: float32(o.LabelSmoothing), Z: float32(o.ZLoss)}}
}

func (o *Options) trainOptions() compile.TrainOptions {
	accumulate := o.Accumulate
	if o.split() {
		accumulate = max(accumulate, 2) // anything above 1 makes two graphs
	}
	return compile.TrainOptions{
		Optimizer: o.Optimizer, Beta1: float32(o.Beta1), Beta2: float32(o.Beta2), Eps: float32(o.Eps), Decay: float32(o.WeightDecay),
		Momentum: float32(o.Momentum), Nesterov: o.Nesterov, NoMaster: o.NoMaster, Clip: float32(o.Clip), Accumulate: accumulate,
	}
}

func (o *Options) zeroOptions() compile.ZeroOptions {
	return compile.ZeroOptions{Stage: o.Zero, Ranks: o.Ranks}
}

// agree lists the settings without which a resumed run would not go on as it began. The number of ranks is among them only through the
// sequences of a step, and neither the ZeRO stage nor anything else that changes no bit is.
func (o *Options) agree() map[string]string {
	c := o.Config
	c.EOSTokenIDs, c.BOSTokenID = nil, -1 // of no meaning to training
	a := map[string]string{
		"model": fmt.Sprintf("%+v", c), "seq": fmt.Sprint(o.Seq), "sequences a step": fmt.Sprint(o.Sequences()),
		"seed": fmt.Sprint(o.Seed), "precision": o.Precision, "optimizer": o.Optimizer.String(),
	}
	if o.Optimizer == compile.SGD {
		a["optimizer"] = fmt.Sprintf("sgd, momentum %g", o.Momentum)
		if o.Nesterov {
			a["optimizer"] += ", nesterov"
		}
	}
	if o.NoMaster {
		a["precision"] += " without masters"
	}
	if o.scaled() {
		a["loss scale"] = fmt.Sprintf("%+v", o.LossScale)
	}
	return a
}

// planning tells which program is planned next.
func (o *Options) planning(program string) {
	if o.Planning != nil {
		o.Planning(program)
	}
}
