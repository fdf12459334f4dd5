package ref

import (
	"fmt"

	"loadline/graph"
)

// with gives a kernel its operation's attributes.
func with[T real, O any](o O, f func(*call[T], O) error) (kernel[T], error) {
	return func(c *call[T]) error { return f(c, o) }, nil
}

// kernelOf returns the kernel of op in a group of so many ranks.
func kernelOf[T real](op graph.Op, ranks int) (kernel[T], error) {
	switch o := op.(type) {
	case graph.MatMul:
		return matMul[T], nil
	case graph.MatMulDX:
		return matMulDX[T], nil
	case graph.MatMulDW:
		return matMulDW[T], nil
	case graph.BiasGrad:
		return biasGrad[T], nil
	case graph.Embedding:
		return embedding[T], nil
	case graph.EmbeddingGrad:
		return embeddingGrad[T], nil
	case graph.RMSNorm:
		return with(o, rmsNorm[T])
	case graph.RMSNormGrad:
		return rmsNormGrad[T], nil
	case graph.LayerNorm:
		return with(o, layerNorm[T])
	case graph.LayerNormGrad:
		return layerNormGrad[T], nil
	case graph.Rope:
		return with(o, rope[T])
	case graph.Attention:
		return with(o.AttentionSpec, attention[T])
	case graph.AttentionGrad:
		return with(o.AttentionSpec, attentionGrad[T])
	case graph.AttentionProbs:
		return with(o.AttentionSpec, attentionProbs[T])
	case graph.Scores:
		return with(o.AttentionSpec, scores[T])
	case graph.ScoresDQ:
		return with(o.AttentionSpec, scoresDQ[T])
	case graph.ScoresDK:
		return with(o.AttentionSpec, scoresDK[T])
	case graph.Softmax:
		return softmax[T], nil
	case graph.SoftmaxGrad:
		return softmaxGrad[T], nil
	case graph.Mix:
		return with(o.AttentionSpec, mix[T])
	case graph.MixDP:
		return with(o.AttentionSpec, mixDP[T])
	case graph.MixDV:
		return with(o.AttentionSpec, mixDV[T])
	case graph.SwiGLU:
		return swiGLU[T], nil
	case graph.SwiGLUGrad:
		return swiGLUGrad[T], nil
	case graph.GeGLU:
		return with(o, geGLU[T])
	case graph.GeGLUGrad:
		return with(o, geGLUGrad[T])
	case graph.Gelu:
		return with(o, gelu[T])
	case graph.GeluGrad:
		return with(o, geluGrad[T])
	case graph.AddOp:
		return add[T], nil
	case graph.Affine:
		return with(o, affine[T])
	case graph.SoftCap:
		return with(o, softCap[T])
	case graph.SoftCapGrad:
		return with(o, softCapGrad[T])
	case graph.CrossEntropy:
		return with(o, crossEntropy[T])
	case graph.CrossEntropyGrad:
		return with(o, crossEntropyGrad[T])
	case graph.HeadLoss:
		return with(o, headLoss[T])
	case graph.HeadLossGrad:
		return with(o, headLossGrad[T])
	case graph.Dropout:
		return with(o, dropout[T])
	case graph.Router:
		return with(o, router[T])
	case graph.RouterGrad:
		return with(o, routerGrad[T])
	case graph.Dispatch:
		return with(o, dispatch[T])
	case graph.GatherRows:
		return with(o, gatherRows[T])
	case graph.GatherRowsGrad:
		return with(o, gatherRowsGrad[T])
	case graph.GroupedMatMul:
		return grouped[T], nil
	case graph.GroupedBias:
		return groupedBias[T], nil
	case graph.GroupedBiasGrad:
		return groupedBiasGrad[T], nil
	case graph.ClampedGLU:
		return with(o, clampedGLU[T])
	case graph.ClampedGLUGrad:
		return with(o, clampedGLUGrad[T])
	case graph.SinkGrad:
		return sinkGrad[T], nil
	case graph.SoftmaxSinkGrad:
		return softmaxSinkGrad[T], nil
	case graph.GroupedMatMulDX:
		return groupedDX[T], nil
	case graph.GroupedMatMulDW:
		return groupedDW[T], nil
	case graph.Combine:
		return with(o, combine[T])
	case graph.CombineGrad:
		return with(o, combineGrad[T])
	case graph.AdamW:
		return with(o, adamW[T])
	case graph.SGD:
		return with(o, sgd[T])
	case graph.Lion:
		return with(o, lion[T])
	case graph.AdafactorMoments:
		return with(o, adafactorMoments[T])
	case graph.AdafactorUpdate:
		return with(o, adafactorUpdate[T])
	case graph.SumSquares:
		return sumSquares[T], nil
	case graph.ClipScale:
		return with(o, clipScale[T])
	case graph.AllReduce:
		return ranked(o.Ranks, ranks, allReduce[T])
	case graph.ReduceScatter:
		return ranked(o.Ranks, ranks, reduceScatter[T])
	case graph.AllGather:
		k, _ := with(o, allGather[T])
		return ranked(o.Ranks, ranks, k)
	case graph.ShardSlice:
		return ranked(o.Ranks, ranks, shardSlice[T])
	case graph.Cast:
		if !o.To.Float() {
			return nil, fmt.Errorf("want a float type to cast to, got %v", o.To)
		}
		return cast[T], nil
	case graph.Offload:
		return with(o, offload[T])
	case graph.Fetch:
		return with(o, fetch[T])
	case graph.Wait:
		return wait[T], nil
	case graph.KVAppend:
		return kvAppend[T], nil
	case graph.KVCopy:
		return with(o, kvCopy[T])
	case graph.SelectRows:
		return selectRows[T], nil
	case graph.SelectColumns:
		return selectColumns[T], nil
	case graph.Zero:
		return zero[T], nil
	case graph.Save:
		return save[T], nil
	case graph.Restore:
		return restore[T], nil
	}
	return nil, fmt.Errorf("this device has no such operation")
}

// ranked is k, if the group has the ranks that the operation was built for.
func ranked[T real](want, have int, k kernel[T]) (kernel[T], error) {
	if want != have {
		return nil, fmt.Errorf("built for %d ranks, the group has %d", want, have)
	}
	return k, nil
}
