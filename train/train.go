// Package train plans and runs the training of a model.
//
//	Options ──Compile──▶ Job ──New──▶ Trainer ──Run──▶ Step, Step, … Eval … Save
//	            pure              │
//	                              └── start values, or the newest checkpoint
//
// Compile builds every branch of a run (step, evaluation, start, save, resume) as a program, leaves the step the arena that the limit
// leaves after everything else, and refuses what does not fit. A Trainer then moves tokens in and losses out; what is computed, and
// where it lies, is the programs'. Trainer.Check compares the promise with the ledger.
//
// With fp16 the loss is scaled, and between the backward half and the update a program of its own takes the norm of the gradients: where
// it is not finite another one gives them up, the scale comes down (ScaleRule), and no State has changed.
//
//	step.micro … ─▶ step.norm ─┬─ finite ──▶ step.update
//	                           └─ overflow ─▶ step.skip
//
// Invariants: the loss bits of a run depend on the model, the data, the seed, the precision, the batch layout and the number of ranks alone: not on
// recompute, offload, ZeRO stage, threads, nor on having been stopped and resumed. All ranks make the same collective calls, also when
// one of them fails to read or write. In memory, a run grows by four bytes a step: its loss.
//
// The package holds no tensor, reads no text and starts no processes; streams, group, ledger and device are handed in.
//
// Sources: AdamW arXiv 1711.05101; Lion arXiv 2302.06675; Adafactor arXiv 1804.04235; stochastic rounding arXiv 1502.02551; mixed precision arXiv 1710.03740; ZeRO arXiv 1910.02054; warm-up–stable–decay arXiv 2404.06395.
package train
