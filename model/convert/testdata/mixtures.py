"""Writes mixtures.json: the types that llama-quantize gives the tensors of models of several shapes, whose weights are all zero.

    python mixtures.py PATH/OF/llama-quantize

Needs gguf and numpy. The models have few and narrow rows: types depend on names, layers, experts and the length of rows alone.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import gguf
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
MIXTURES = ["Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M"]

# name: (architecture, layers, width, experts, tied, KV heads of 4, fused, mixtures)
MODELS = {
    "llama": ("llama", 19, 256, 0, False, 2, False, MIXTURES),
    "tied": ("llama", 2, 256, 0, True, 4, False, MIXTURES),
    "narrow": ("llama", 9, 288, 0, False, 2, False, ["Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M"]),
    "narrow, tied": ("llama", 1, 288, 0, True, 2, False, ["Q4_K_M"]),
    "mixtral": ("llama", 9, 256, 8, False, 2, False, MIXTURES),
    "qwen3moe": ("qwen3moe", 10, 256, 4, False, 2, False, MIXTURES),
    "phi3": ("phi3", 11, 256, 0, False, 4, True, MIXTURES),
    "qwen2 of 80 layers": ("qwen2", 80, 256, 0, False, 2, False, ["Q3_K_M", "Q4_K_M", "Q4_K_S"]),
    "llama of 80 layers": ("llama", 80, 256, 0, False, 2, False, ["Q3_K_S", "Q4_K_M"]),
    "llama 1 of 80 layers": ("llama", 80, 256, 0, False, 4, False, ["Q4_K_M"]),
}


def build(path, arch, layers, width, experts, tied, kv, fused):
    w = gguf.GGUFWriter(path, arch)
    meta = {"block_count": layers, "context_length": 64, "embedding_length": width, "feed_forward_length": width, "attention.head_count": 4, "attention.head_count_kv": kv}
    if experts:
        meta |= {"expert_count": experts, "expert_used_count": 2, "expert_feed_forward_length": width}
    for k, v in meta.items():
        w.add_uint32(f"{arch}.{k}", v)
    w.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)
    tensors = {}

    def add(name, *shape):
        tensors[name] = shape
        w.add_tensor(name, np.zeros(shape, np.float32))

    add("token_embd.weight", 8, width)
    for i in range(layers):
        n = f"blk.{i}."
        add(n + "attn_norm.weight", width)
        if fused:
            add(n + "attn_qkv.weight", 16, width)
            add(n + "ffn_up.weight", 16, width)
        else:
            for x in ("q", "k", "v"):
                add(n + f"attn_{x}.weight", 8, width)
        add(n + "attn_output.weight", 8, width)
        if experts:
            add(n + "ffn_gate_inp.weight", experts, width)
            for x in ("gate", "up", "down"):
                add(n + f"ffn_{x}_exps.weight", experts, 8, width)
        else:
            for x in ("up", "down") if fused else ("gate", "up", "down"):
                if n + f"ffn_{x}.weight" not in tensors:
                    add(n + f"ffn_{x}.weight", 8, width)
    add("output_norm.weight", width)
    if not tied:
        add("output.weight", 8, width)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return meta, tensors


def main():
    out = {}
    with tempfile.TemporaryDirectory() as d:
        for name, (*shape, mixtures) in MODELS.items():
            path = os.path.join(d, "in.gguf")
            meta, tensors = build(path, *shape)
            types = {}
            for m in mixtures:
                made = os.path.join(d, "out.gguf")
                subprocess.run([sys.argv[1], path, made, m, "1"], check=True, capture_output=True)
                got = {t.name: t.tensor_type.name for t in gguf.GGUFReader(made).tensors}
                assert got.keys() == tensors.keys()
                # Of a type the layers, as most names are of all layers.
                groups = {}
                for t, kind in got.items():
                    groups.setdefault(re.sub(r"\d+", "*", t), {}).setdefault(kind, []).append(int(re.search(r"\d+", t).group()) if "blk" in t else -1)
                types[m.lower()] = groups
            out[name] = {"arch": shape[0], "meta": meta, "shapes": {re.sub(r"\d+", "*", k): v for k, v in tensors.items()}, "types": types}
    with open(os.path.join(HERE, "mixtures.json"), "w") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    main()
