// Package checkpoint keeps a training run on the disk: a directory OUT of checkpoints that is right at every moment.
//
//	OUT/.lock                          held by the process that writes (flock: gone with it, however it ends)
//	OUT/.tmp-step-N/                   being written
//	OUT/step-N/config.json             Hugging Face's names: any of their tools loads the directory
//	          /model.safetensors       weights under published names, in the type that the run stores them in
//	          /tokenizer.json
//	          /trainer.json            step, place in the data, losses, settings, and a checksum of every other file
//	          /state-rank-R.safetensors  the optimizer's moments and f32 masters of narrow weights; with sharded state one file a rank
//
// A checkpoint is written beside its final name, every file is synced, the sizes and element counts are verified, and one rename makes
// it visible; only then are old ones removed, each by a rename first. So a kill at any moment leaves either the old checkpoints or
// those and the new one, and the next Open removes what was in the making.
//
// Tensors stream between the device's staging buffer and the files; nothing here holds a tensor. The package does not decide when to
// save, and knows nothing of devices or ranks' communication.
//
// Source of the file formats: huggingface/safetensors and transformers' checkpoint layout. Atomicity by rename: POSIX rename(2); see
// Pillai et al., OSDI'14, for why every file and both directories are synced.
package checkpoint
