package model

import (
	"fmt"

	"loadline/graph"
)

// Names of the inputs that graphs have; a job's programs share inputs by name.
const (
	TokensInput     = "tokens"      // i32 (N)
	PositionsInput  = "positions"   // i32 (N): place in the row's sequence
	SequencesInput  = "sequences"   // i32 (N): which line of the table the row's sequence has
	TableInput      = "table"       // i32 (sequences, blocks): KV block of each block of positions
	TargetsInput    = "targets"     // i32 (N), training: the next token; negative leaves the row out
	LossWeightInput = "loss_weight" // f32 (1), training: what each row's loss is multiplied by
	SeedInput       = "seed"        // i32 (2), training with dropout: see graph.Dropout
)

// TrainOptions shape a training or evaluation graph.
type TrainOptions struct {
	Name     string
	Batch    int // sequences in the graph: those of one micro-batch
	Seq      int // tokens of each
	Standard bool
	Dropout  float32 // of what each sub-block adds to the residual stream and, for GPT-2, of the embedding; 0 is none
	Loss     graph.LossTerms
	Block    int // tokens a block of the identity table; divides Seq. 0 takes the largest divisor up to 128
}

// maxRows bounds the rows of one graph.
const maxRows = 1 << 24

// Validate reports what cannot be built for c.
func (o TrainOptions) Validate(c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	switch {
	case o.Batch < 1 || o.Seq < 1 || o.Batch > maxRows/o.Seq:
		return fmt.Errorf("model: batch %d × seq %d: want at least 1 and at most %d tokens", o.Batch, o.Seq, maxRows)
	case c.ModelType == GPT2 && o.Seq > c.MaxPositionEmbeddings:
		return fmt.Errorf("model: seq %d: the model has %d positions", o.Seq, c.MaxPositionEmbeddings)
	case !(o.Dropout >= 0 && o.Dropout < 1):
		return fmt.Errorf("model: dropout %g: want 0 or more, and less than 1", o.Dropout)
	case !(o.Loss.Smoothing >= 0 && o.Loss.Smoothing < 1) || !(o.Loss.Z >= 0 && o.Loss.Z <= 1):
		return fmt.Errorf("model: label smoothing %g, z-loss %g: want 0 or more and less than 1, and 0 to 1", o.Loss.Smoothing, o.Loss.Z)
	case o.Block < 0 || o.Block > 0 && o.Seq%o.Block != 0:
		return fmt.Errorf("model: block %d does not divide seq %d", o.Block, o.Seq)
	}
	return nil
}

// KVBlock is the block that a valid o uses: Block, or the largest divisor of Seq up to 128.
func (o TrainOptions) KVBlock() int {
	if o.Block > 0 {
		return o.Block
	}
	n := min(o.Seq, 128)
	for o.Seq%n != 0 {
		n--
	}
	return n
}

// TrainGraph builds the forward half of a training step: rows are Batch·Seq, keys and values are Temps that attention reads
// through an identity table (see FillStatic), and the loss is CrossEntropy over logits that compile.Fuse never holds whole.
func TrainGraph(c Config, o TrainOptions) (*graph.Graph, error) {
	if err := o.Validate(c); err != nil {
		return nil, err
	}
	block := o.KVBlock()
	d := newDecoder(c, o.Name, graph.Bounds{Rows: o.Batch * o.Seq}, graph.AttentionSpec{Block: block, Context: o.Seq})
	d.standard = o.Standard
	rows := graph.I(graph.R(1))
	d.tokens = d.Input(TokensInput, rows)
	targets := d.Input(TargetsInput, rows)
	weight := d.Input(LossWeightInput, graph.F(graph.D(1)))
	d.inputs(o.Batch, o.Seq/block)
	if o.Dropout > 0 {
		seed := d.Input(SeedInput, graph.I(graph.D(2)))
		d.drop = func(x graph.Value) graph.Value { return d.Dropout(x, seed, o.Dropout) }
	}
	logits := d.head(d.body())
	d.Part(graph.Outside, "head", func() {
		d.SetLoss(d.Apply(graph.CrossEntropy{LossTerms: o.Loss}, logits, targets, weight)[0])
	})
	return d.G, nil
}

// inputs declares what says where rows and keys are.
func (d *decoder) inputs(sequences, blocks int) {
	rows := graph.I(graph.R(1))
	d.positions = d.Input(PositionsInput, rows)
	d.paging = graph.Paging{
		Pos: d.positions, Seq: d.Input(SequencesInput, rows), Table: d.Input(TableInput, graph.I(graph.D(sequences), graph.D(blocks))),
	}
}

// EvalGraph builds the same forward without dropout (so without the seed input) and with the plain loss, for evaluation.
func EvalGraph(c Config, o TrainOptions) (*graph.Graph, error) {
	o.Dropout, o.Loss = 0, graph.LossTerms{}
	return TrainGraph(c, o)
}

// FillStatic computes the inputs of TrainGraph that never change: positions and sequences, Batch·Seq each, and the identity
// table, Batch·Seq/KVBlock: position p of sequence s has slot s·Seq+p. All three come in pieces of any length, from element
// at on, so that a caller may stream them; a nil slice is skipped.
func FillStatic(o TrainOptions, at int, positions, sequences, table []int32) {
	for i := range positions {
		positions[i] = int32((at + i) % o.Seq)
	}
	for i := range sequences {
		sequences[i] = int32((at + i) / o.Seq)
	}
	for i := range table {
		table[i] = int32(at + i)
	}
}
