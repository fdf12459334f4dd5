package cpu

import (
	"errors"
	"fmt"

	"loadline/compile"
	"loadline/graph"
	"loadline/mem/arena"
	"loadline/mem/tier"
	"loadline/tensor/dtype"
)

// fn is a body that was bound at Open. It is made once, so that running it allocates nothing.
type fn func(s *Session, lo, hi, worker int)

func (f fn) do(s *Session, lo, hi, worker int) { f(s, lo, hi, worker) }

// stepFunc is a step that was bound at Open.
type stepFunc func(s *Session) error

func (f stepFunc) run(s *Session) error { return f(s) }

// binder resolves the operands of one instruction. The first thing that does not fit is kept in err.
type binder struct {
	s   *Session
	x   *program
	at  int
	in  *compile.Instr
	err error
}

// bind binds every instruction of p.
func bind(s *Session, p *compile.Program) (*program, error) {
	x := &program{Program: p, fetched: fetched(p)}
	most := int32(-1)
	for i := range p.Instrs {
		most = max(most, p.Instrs[i].Ticket)
	}
	x.tickets = make([]tier.Ticket, most+1)
	for t := range p.Instrs {
		b := &binder{s: s, x: x, at: t, in: &p.Instrs[t]}
		st := b.op()
		if b.err != nil {
			return nil, fmt.Errorf("cpu: program %q: instruction %d %s: %w", p.Name, t, b.in.Op.Kind(), b.err)
		}
		x.steps = append(x.steps, st)
	}
	if invariants {
		x.dead = make([][][]float32, len(p.Instrs))
		for i := range p.Buffers {
			f := &p.Buffers[i]
			if f.Persistent() || !f.Tier.Memory() || isOutput(p, int32(i)) {
				continue
			}
			b, err := s.mem.Buffer(p, int32(i))
			if err != nil {
				return nil, err
			}
			x.dead[f.Last] = append(x.dead[f.Last], arena.F32(b))
		}
	}
	return x, nil
}

func isOutput(p *compile.Program, buffer int32) bool {
	for i := range p.Outputs {
		if p.Outputs[i].Buffer == buffer {
			return true
		}
	}
	return false
}

// bytes resolves o.
func (b *binder) bytes(o compile.Operand) []byte {
	p, err := b.s.mem.Operand(b.x.Program, o)
	if err != nil && b.err == nil {
		b.err = err
	}
	return p
}

// typed resolves o, whose elements must be of type t.
func (b *binder) typed(o compile.Operand, t dtype.Type) []byte {
	if o.Buffer >= 0 && o.Type.DType != t && b.err == nil {
		b.err = fmt.Errorf("want elements of %v, got %v", t, o.Type)
	}
	p := b.bytes(o)
	if b.err != nil {
		return nil
	}
	return p
}

// in32 and out32 are an operand and a result of f32; nil where absent.
func (b *binder) in32(i int) []float32 {
	if i >= len(b.in.In) {
		return nil
	}
	return arena.F32(b.typed(b.in.In[i], dtype.F32))
}

func (b *binder) out32(i int) []float32 {
	if i >= len(b.in.Out) {
		return nil
	}
	return arena.F32(b.typed(b.in.Out[i], dtype.F32))
}

// inInt and outInt are an operand and a result of i32.
func (b *binder) inInt(i int) []int32 { return arena.I32(b.typed(b.in.In[i], dtype.I32)) }

func (b *binder) outInt(i int) []int32 { return arena.I32(b.typed(b.in.Out[i], dtype.I32)) }

// scratch32 is the instruction's own scratch.
func (b *binder) scratch32() []float32 {
	return arena.F32(b.scratchBytes())
}

func (b *binder) scratchBytes() []byte {
	if b.in.Scratch < 0 {
		return nil
	}
	p, err := b.s.mem.Buffer(b.x.Program, b.in.Scratch)
	if err != nil && b.err == nil {
		b.err = err
	}
	return p
}

// inType and outType are the types of operands and results; the zero Type where absent.
func (b *binder) inType(i int) graph.Type {
	if i >= len(b.in.In) || b.in.In[i].Buffer < 0 {
		return graph.Type{}
	}
	return b.in.In[i].Type
}

func (b *binder) outType(i int) graph.Type { return b.in.Out[i].Type }

// perElem is a step that runs f over the elements of a value of type t.
func perElem(t graph.Type, f fn) step {
	return stepFunc(func(s *Session) error {
		s.elems(int(t.Shape.Elems(s.b)), f)
		return nil
	})
}

// perRow is a step that runs f over the rows of a value of type t.
func perRow(t graph.Type, f fn) step {
	return stepFunc(func(s *Session) error {
		s.rows(t.Shape.Lead(s.b), t.Shape.Last(), f)
		return nil
	})
}

// nothing is the step of an instruction without work.
var nothing = stepFunc(func(*Session) error { return nil })

var errKind = errors.New("no such operation on this device")

// op binds the instruction to the function of its operation.
func (b *binder) op() step {
	switch o := b.in.Op.(type) {
	case graph.AddOp:
		return bindAdd(b)
	case graph.Affine:
		return bindAffine(b, o)
	case graph.AdamW:
		return bindAdamW(b, o)
	case graph.SGD:
		return bindSGD(b, o)
	case graph.Lion:
		return bindLion(b, o)
	case graph.AdafactorMoments:
		return bindAdafactorMoments(b)
	case graph.AdafactorUpdate:
		return bindAdafactorUpdate(b, o)
	case graph.Attention:
		return bindAttention(b, o)
	case graph.AttentionGrad:
		return bindAttentionGrad(b, o)
	case graph.Cast:
		return bindCast(b)
	case graph.SumSquares:
		return bindSumSquares(b)
	case graph.ClipScale:
		return bindClipScale(b, o)
	case graph.AllReduce:
		return bindAllReduce(b)
	case graph.ReduceScatter:
		return bindReduceScatter(b, o)
	case graph.AllGather:
		return bindAllGather(b, o)
	case graph.ShardSlice:
		return bindShardSlice(b, o)
	case graph.Combine:
		return bindCombine(b, o)
	case graph.CombineGrad:
		return bindCombineGrad(b, o)
	case graph.CrossEntropy:
		return bindCrossEntropy(b, o)
	case graph.CrossEntropyGrad:
		return bindCrossEntropyGrad(b, o)
	case graph.Dispatch:
		return bindDispatch(b, o)
	case graph.GatherRows:
		return bindGatherRows(b, o)
	case graph.GatherRowsGrad:
		return bindGatherRowsGrad(b, o)
	case graph.Dropout:
		return bindDropout(b, o)
	case graph.Embedding:
		return bindEmbedding(b)
	case graph.EmbeddingGrad:
		return bindEmbeddingGrad(b)
	case graph.GeGLU:
		return bindGeGLU(b, o)
	case graph.GeGLUGrad:
		return bindGeGLUGrad(b, o)
	case graph.Gelu:
		return bindGelu(b, o)
	case graph.GeluGrad:
		return bindGeluGrad(b, o)
	case graph.GroupedMatMul:
		return bindGrouped(b)
	case graph.GroupedBias:
		return bindGroupedBias(b)
	case graph.GroupedBiasGrad:
		return bindGroupedBiasGrad(b)
	case graph.ClampedGLU:
		return bindClampedGLU(b, o)
	case graph.ClampedGLUGrad:
		return bindClampedGLUGrad(b, o)
	case graph.SinkGrad:
		return bindSinkGrad(b)
	case graph.SoftmaxSinkGrad:
		return bindSoftmaxSinkGrad(b)
	case graph.GroupedMatMulDX:
		return bindGroupedDX(b)
	case graph.GroupedMatMulDW:
		return bindGroupedDW(b)
	case graph.HeadLoss:
		return bindHeadLoss(b, o, false)
	case graph.HeadLossGrad:
		return bindHeadLoss(b, graph.HeadLoss(o), true)
	case graph.KVAppend:
		return bindKVAppend(b)
	case graph.KVCopy:
		return bindKVCopy(b, o)
	case graph.LayerNorm:
		return bindLayerNorm(b, o)
	case graph.LayerNormGrad:
		return bindLayerNormGrad(b)
	case graph.MatMul:
		return bindMatMul(b)
	case graph.MatMulDX:
		return bindMatMulDX(b)
	case graph.MatMulDW:
		return bindMatMulDW(b)
	case graph.BiasGrad:
		return bindBiasGrad(b)
	case graph.Mix:
		return bindMix(b, o)
	case graph.MixDP:
		return bindMixDP(b, o)
	case graph.MixDV:
		return bindMixDV(b, o)
	case graph.Offload, graph.Fetch:
		return bindCopy(b)
	case graph.Wait:
		return bindWait(b)
	case graph.RMSNorm:
		return bindRMSNorm(b, o)
	case graph.RMSNormGrad:
		return bindRMSNormGrad(b)
	case graph.Rope:
		return bindRope(b, o)
	case graph.Router:
		return bindRouter(b, o)
	case graph.RouterGrad:
		return bindRouterGrad(b, o)
	case graph.AttentionProbs:
		return bindAttentionProbs(b, o)
	case graph.Scores:
		return bindScores(b, o)
	case graph.ScoresDQ:
		return bindScoresDQ(b, o)
	case graph.ScoresDK:
		return bindScoresDK(b, o)
	case graph.SelectColumns:
		return bindSelectColumns(b)
	case graph.SelectRows:
		return bindSelect(b)
	case graph.SoftCap:
		return bindSoftCap(b, o)
	case graph.SoftCapGrad:
		return bindSoftCapGrad(b, o)
	case graph.Softmax:
		return bindSoftmax(b)
	case graph.SoftmaxGrad:
		return bindSoftmaxGrad(b)
	case graph.SwiGLU:
		return bindSwiGLU(b)
	case graph.SwiGLUGrad:
		return bindSwiGLUGrad(b)
	case graph.Zero:
		return bindZero(b)
	case graph.Save:
		return bindSave(b)
	case graph.Restore:
		return bindRestore(b)
	}
	b.err = errKind
	return nothing
}

// needs is the bytes of workspace for programs: of each thread, of rotary tables, and of what threads share: the tiles of attention, the rounded
// rows or the packed operand of a product.
func needs(programs []*compile.Program) (worker, ropes, tiles int64) {
	for _, p := range programs {
		ropes = max(ropes, ropeNeeds(p))
		for i := range p.Instrs {
			in := &p.Instrs[i]
			w, t := opNeeds(in, p.Bounds)
			worker, tiles = max(worker, w), max(tiles, t)
		}
	}
	return graph.RoundUp(worker), graph.RoundUp(ropes), graph.RoundUp(tiles)
}

// opNeeds is the workspace of one thread, and the shared bytes for the tiles of attention, rounded rows or packed weights, that an instruction needs.
func opNeeds(in *compile.Instr, b graph.Bounds) (worker, tiles int64) {
	lead := func(o compile.Operand) int { return o.Type.Shape.Lead(b) }
	last := func(o compile.Operand) int { return o.Type.Shape.Last() }
	if stores(in) {
		return storedNeeds(in, b)
	}
	if n, shared := productNeeds(in, b); n > 0 {
		return n, shared
	}
	switch o := in.Op.(type) {
	case graph.Updater:
		return updateNeeds(in), 0
	case graph.GeGLU, graph.GeGLUGrad, graph.SoftCap:
		return geGLUNeeds(in), 0
	case graph.ShardSlice, graph.AllGather: // copies of one type
		return 0, 0
	case graph.HeadLoss:
		return headNeeds(in, o, b)
	case graph.HeadLossGrad:
		return headNeeds(in, graph.HeadLoss(o), b)
	case graph.CrossEntropy:
		return 4 * pieceElems, 0
	case graph.RMSNormGrad, graph.LayerNormGrad:
		return 4*int64(takes(last(in.In[1]))) + narrowNeeds(in), 0
	case graph.Attention:
		return attentionNeeds(in, o.AttentionSpec, lead(in.In[0])), tileNeeds(lead(in.In[0]))
	case graph.AttentionGrad:
		return attentionGradNeeds(in, o.AttentionSpec, lead(in.In[0])), tileNeeds(lead(in.In[0]))
	case graph.AttentionProbs:
		return probsNeeds(o.AttentionSpec, lead(in.In[0])), tileNeeds(lead(in.In[0]))
	case graph.Scores:
		return pagedNeeds(in, o.AttentionSpec), tileNeeds(lead(in.In[0]))
	case graph.ScoresDQ:
		return pagedNeeds(in, o.AttentionSpec), tileNeeds(in.In[0].Type.Shape.Dims[0].Len(b))
	case graph.ScoresDK:
		return pagedNeeds(in, o.AttentionSpec), tileNeeds(in.In[0].Type.Shape.Dims[0].Len(b))
	case graph.Mix:
		return pagedNeeds(in, o.AttentionSpec), tileNeeds(in.In[0].Type.Shape.Dims[0].Len(b))
	case graph.MixDP:
		return pagedNeeds(in, o.AttentionSpec), tileNeeds(lead(in.In[0]))
	case graph.MixDV:
		return pagedNeeds(in, o.AttentionSpec), tileNeeds(lead(in.In[0]))
	}
	return narrowNeeds(in), 0
}
