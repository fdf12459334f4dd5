package train

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"loadline/collective"
	"loadline/data"
	"loadline/device"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/model"
	"loadline/train/checkpoint"
)

// Batches is where a Trainer gets its rows: a data.Stream of this rank's part, or a feed of one's own.
type Batches interface {
	// Next fills tokens and targets, (Batch, Seq) each, with this rank's part of the next micro-batch. Every target counts.
	Next(tokens, targets []int32) error
	// Position is the place of the next batch, the same on every rank.
	Position() data.Position
	// Seek goes to a place that Position returned.
	Seek(data.Position) error
}

// Windows is validation data: a data.Sequence of this rank's part.
type Windows interface {
	// Windows is the number of windows over all ranks.
	Windows() int64
	// Next fills rows of tokens and targets and returns how many; io.EOF, on all ranks at once, when there are no more.
	Next(tokens, targets []int32) (rows int, err error)
	// Rewind goes back to the beginning.
	Rewind()
}

// Env is what a Trainer needs from outside.
type Env struct {
	Ledger *mem.Ledger      // the caller has reserved FixedBytes in it
	Group  collective.Group // nil means one rank

	// Out is where checkpoints go; nil saves none. The caller, or the caller of rank 0, holds its lock. Its Keep is not used:
	// Options.Keep is.
	Out *checkpoint.Dir
	// Dir is where the file of the disk tier is made; empty means Out's.
	Dir string
	// Resume is a checkpoint, or a directory of them, to go on from: the newest, or from the beginning if there is none. Empty begins.
	Resume string
	// Weights is a model to start from in place of fresh weights; empty means fresh ones. Resume goes before.
	Weights string
	// Files write what else a checkpoint has, by name, such as tokenizer.json.
	Files map[string]func(io.Writer) error
	// Kernels names what computes: checkpoints keep it, and another in its place changes the last bits of losses. Empty is not kept.
	Kernels string

	Train Batches
	Val   Windows // nil if EvalEvery is 0
}

// Trainer runs a job.
//
// Invariants: between calls, the States on the device are those after Step() steps; len(losses) == step.
type Trainer struct {
	job     *Job
	o       *Options
	env     Env
	group   collective.Group
	session device.Session
	batch   *arena.Arena // tokens, then targets, of a micro-batch

	tokens, targets           []int32 // views of batch
	tokensBytes, targetsBytes []byte

	step      int64
	saved     int64  // the step of the newest checkpoint; -1 before the first
	last      string // its path
	losses    []float32
	valLosses []checkpoint.ValLoss
	scaler    *Scaler // nil unless the loss is scaled
	broken    error   // why States are no longer those of a step

	params map[string]model.Param
	states map[string]*state
	at     map[string]int // by State: elements passed in the restore or save in progress
	wide   []byte         // float32 elements of a narrow weight before they are rounded
}

// wideBytes is the length of Trainer.wide.
const wideBytes = 16 << 10

// New opens the job on the device and fills its States: fresh ones, or those of the checkpoint that env.Resume names.
func New(job *Job, dev device.Device, env Env) (*Trainer, error) {
	t := &Trainer{
		job: job, o: &job.Options, env: env, group: env.Group, saved: -1,
		params: map[string]model.Param{}, states: map[string]*state{}, at: map[string]int{}, wide: make([]byte, wideBytes),
	}
	if t.group == nil {
		t.group = collective.Single()
	}
	if env.Out != nil {
		out := *env.Out
		out.Keep = t.o.Keep
		t.env.Out = &out
	}
	if t.group.Size() != t.o.Ranks {
		return nil, fmt.Errorf("train: the job is for %d ranks, the group has %d", t.o.Ranks, t.group.Size())
	}
	for _, p := range t.o.Config.Parameters() {
		t.params[p.Name] = p
	}
	if t.o.scaled() {
		t.scaler = NewScaler(t.o.LossScale)
	}
	for i := range job.states {
		t.states[job.states[i].name] = &job.states[i]
	}
	if err := t.open(dev); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Trainer) open(dev device.Device) error {
	from, err := t.resumeFrom()
	if err := t.agree(err); err != nil {
		return err
	}
	if err := t.samePrograms(from.Step); err != nil {
		return err
	}
	var parts [mem.NumPurposes]mem.Bytes
	parts[mem.Staging] = batchBytes(t.o)
	if t.batch, err = arena.New(t.env.Ledger, mem.Host, parts); err != nil {
		return fmt.Errorf("train: tokens: %w", err)
	}
	n := 4 * t.o.Batch * t.o.Seq
	t.tokensBytes, t.targetsBytes = t.batch.Bytes()[:n:n], t.batch.Bytes()[n:2*n:2*n]
	t.tokens, t.targets = arena.I32(t.tokensBytes), arena.I32(t.targetsBytes)

	dir := t.env.Dir
	if dir == "" && t.env.Out != nil {
		dir = t.env.Out.Path
	}
	if t.session, err = dev.Open(t.job.Job, device.Env{Ledger: t.env.Ledger, Group: t.env.Group, Dir: dir}); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if err := t.writeStatic(); err != nil {
		return err
	}
	if from.Path != "" {
		return t.resume(from)
	}
	return t.start()
}

// Close releases everything. Checkpoints stay.
func (t *Trainer) Close() error {
	var errs []error
	if t.session != nil {
		errs = append(errs, t.session.Close())
		t.session = nil
	}
	if t.batch != nil {
		errs = append(errs, t.batch.Close())
		t.batch = nil
	}
	return errors.Join(errs...)
}

// StepsDone is the number of steps behind the Trainer, resumed ones included.
func (t *Trainer) StepsDone() int64 { return t.step }

// Skipped is the number of those steps whose gradients overflowed and changed nothing; 0 unless the loss is scaled.
func (t *Trainer) Skipped() int64 {
	if t.scaler == nil {
		return 0
	}
	return t.scaler.LossScale.Skipped
}

// Losses are those of every step from the first. The slice is the Trainer's.
func (t *Trainer) Losses() []float32 { return t.losses }

// ValLosses are those of every evaluation. The slice is the Trainer's.
func (t *Trainer) ValLosses() []checkpoint.ValLoss { return t.valLosses }

// Checkpoint is the path of the newest checkpoint that the Trainer wrote or began from; empty if there is none.
func (t *Trainer) Checkpoint() string { return t.last }

// Check compares the promise with the ledger's peak, to the byte.
func (t *Trainer) Check() error { return t.job.Promise.Check(t.env.Ledger.Peak()) }

// writeStatic writes the inputs that never change, through the buffer of tokens.
func (t *Trainer) writeStatic() error {
	o := t.o.graphOptions("")
	n := len(t.tokens)
	for _, in := range []struct {
		name                        string
		n                           int
		positions, sequences, table []int32
	}{
		{model.PositionsInput, n, t.tokens, nil, nil},
		{model.SequencesInput, n, nil, t.tokens, nil},
		{model.TableInput, n / o.KVBlock(), nil, nil, t.tokens[:n/o.KVBlock()]},
	} {
		model.FillStatic(o, 0, in.positions, in.sequences, in.table)
		if err := t.session.Write(in.name, 0, t.tokensBytes[:4*in.n]); err != nil {
			return fmt.Errorf("train: %w", err)
		}
	}
	return nil
}

// errorBytes is what ranks tell each other of an error.
const errorBytes = 512

// agree makes an error of one rank an error of all, so that none goes on into a collective alone. Every rank calls it.
func (t *Trainer) agree(err error) error {
	if t.group.Size() == 1 {
		return err
	}
	mine, all := make([]byte, errorBytes), make([]byte, errorBytes*t.group.Size()) //mem:ok half a KiB a rank
	if err != nil {
		mine[0] = 1
		copy(mine[1:], err.Error())
	}
	gerr := t.group.AllGatherBytes(all, mine)
	if err != nil {
		return err // it says more than what it makes of the group
	}
	if gerr != nil {
		return gerr
	}
	for rank := range t.group.Size() {
		if m := all[rank*errorBytes : (rank+1)*errorBytes]; m[0] != 0 {
			n := 1
			for n < len(m) && m[n] != 0 {
				n++
			}
			return fmt.Errorf("train: rank %d: %s", rank, m[1:n])
		}
	}
	return nil
}

// samePrograms makes sure that all ranks run the same programs from the same step: two that differ would wait for each other for ever.
func (t *Trainer) samePrograms(step int64) error {
	ranks := t.group.Size()
	if ranks == 1 {
		return nil
	}
	h := sha256.New()
	for _, p := range t.job.Programs {
		io.WriteString(h, p.Text()) // a hash takes everything
	}
	fmt.Fprintf(h, "%d %d", t.o.Accumulate, step)
	mine, all := h.Sum(nil), make([]byte, ranks*sha256.Size) //mem:ok 32 bytes a rank
	if err := t.group.AllGatherBytes(all, mine); err != nil {
		return err
	}
	for rank := range ranks {
		if string(all[rank*sha256.Size:(rank+1)*sha256.Size]) != string(all[:sha256.Size]) {
			return fmt.Errorf("train: rank %d has another program than rank 0: the same binary, settings and checkpoint are wanted on all ranks", rank)
		}
	}
	return nil
}
