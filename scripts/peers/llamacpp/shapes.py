"""Writes a GGUF in F16 of TinyLlama-1.1B's shape with random weights, for measurements.

    python shapes.py VOCABULARY OUT    with gguf 0.19.0

VOCABULARY is a GGUF whose tokenizer, byte-level BPE, is taken up to as many tokens as the shape has. Seed 1.
"""

import sys

import gguf
import numpy as np

HIDDEN, LAYERS, HEADS, KV_HEADS, FFN, VOCAB, CONTEXT = 2048, 22, 32, 4, 5632, 32000, 2048


def tensors():
    """Names, and shapes as numpy has them."""
    kv = HIDDEN // HEADS * KV_HEADS
    yield "token_embd.weight", (VOCAB, HIDDEN)
    for i in range(LAYERS):
        block = f"blk.{i}."
        yield block + "attn_norm.weight", (HIDDEN,)
        yield block + "attn_q.weight", (HIDDEN, HIDDEN)
        yield block + "attn_k.weight", (kv, HIDDEN)
        yield block + "attn_v.weight", (kv, HIDDEN)
        yield block + "attn_output.weight", (HIDDEN, HIDDEN)
        yield block + "ffn_norm.weight", (HIDDEN,)
        yield block + "ffn_gate.weight", (FFN, HIDDEN)
        yield block + "ffn_up.weight", (FFN, HIDDEN)
        yield block + "ffn_down.weight", (HIDDEN, FFN)
    yield "output_norm.weight", (HIDDEN,)
    yield "output.weight", (VOCAB, HIDDEN)


def vocabulary(w, path):
    """Copies the tokenizer. Merges stand in the order of the tokens that they make, so those of the first tokens need no others."""
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents()
    tokens = get("tokens")[:VOCAB]
    known = set(tokens)
    w.add_tokenizer_model(get("model"))
    w.add_tokenizer_pre(get("pre"))
    w.add_token_list(tokens)
    w.add_token_types(get("token_type")[:VOCAB])
    w.add_token_merges([m for m in get("merges") if m.replace(" ", "") in known])
    w.add_bos_token_id(get("bos_token_id"))
    w.add_eos_token_id(get("eos_token_id"))
    w.add_add_bos_token(False)


def main():
    w = gguf.GGUFWriter(sys.argv[2], "llama")
    w.add_context_length(CONTEXT)
    w.add_embedding_length(HIDDEN)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FFN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(HIDDEN // HEADS)
    w.add_rope_freq_base(10000.0)
    w.add_vocab_size(VOCAB)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    vocabulary(w, sys.argv[1])
    types = {name: np.dtype(np.float32 if len(shape) == 1 else np.float16) for name, shape in tensors()}
    for name, shape in tensors():
        w.add_tensor_info(name, shape, types[name], int(np.prod(shape)) * types[name].itemsize)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    random = np.random.default_rng(1)
    for name, shape in tensors():
        if len(shape) == 1:
            data = np.ones(shape, np.float32)
        else:
            data = (random.standard_normal(shape, np.float32) * 0.02).astype(np.float16)
        w.write_tensor_data(data)
    w.close()


main()
