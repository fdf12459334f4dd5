"""Writes golden.safetensors: blocks of every format, what they mean, and how elements are written.

    pip install gguf==0.19.0 safetensors==0.8.0 numpy && python golden.py [LLAMA_CPP]

For each type T: T.blocks (bytes) and T.values (their float32); where it has an encoder, T.input and T.encoded. Encoders are gguf-py's;
those of the K and IQ4 types, which it lacks, are ggml's quantize_row_*_ref, compiled here from LLAMA_CPP, a checkout of llama.cpp
(one is inside the npm package node-llama-cpp 3.21.1, as llama/gitRelease.bundle), without contraction of products and sums.
"""
import ctypes
import os
import subprocess
import sys
import tempfile

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
SEED = 20261129
DECODED = [T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ2_XXS, T.IQ2_XS, T.IQ2_S,
           T.IQ3_XXS, T.IQ3_S, T.IQ1_S, T.IQ1_M, T.IQ4_NL, T.IQ4_XS, T.TQ1_0, T.TQ2_0, T.MXFP4, T.NVFP4]
GGUF_PY = [T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.MXFP4]
GGML = [T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.IQ4_XS]
# Where a block keeps its binary16 scales.
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2],
          T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ1_S: [0],
          T.IQ4_NL: [0], T.IQ4_XS: [0], T.TQ1_0: [52], T.TQ2_0: [64]}


def random_blocks(t, rng):
    """Random bytes with plausible scales, then blocks of odd ones: all zero, all ones, subnormal, largest and negative scales."""
    elems, size = GGML_QUANT_SIZES[t]
    n = max(1, 2048 // elems)
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in HALVES.get(t, []):
        d = (rng.standard_normal(n) * 10.0 ** rng.integers(-4, 3, n)).astype(np.float16)
        blocks[:, at:at + 2] = d.view(np.uint8).reshape(n, 2)
    odd = np.concatenate([np.zeros((1, size), np.uint8), np.full((1, size), 255, np.uint8)] +
                         [rng.integers(0, 256, (1, size), dtype=np.uint8) for _ in range(4)])
    for row, h in enumerate([0x0001, 0x7bff, 0xfbff, 0x8400]):
        for at in HALVES.get(t, []):
            odd[2 + row, at:at + 2] = [h & 255, h >> 8]
    return np.concatenate([blocks, odd])


def inputs(rng, elems, ggml):
    """Rows of elements: normal, of several magnitudes, with outliers, of one sign, constant, of few values, tiny, zero."""
    n = 1024
    rows = [rng.standard_normal(n), rng.standard_normal(n) * 1e-3, rng.standard_t(2, n), np.abs(rng.standard_normal(n)) + 1,
            -np.abs(rng.standard_normal(n)), rng.integers(-3, 4, n), rng.integers(-1000, 1000, n) / 8.0, rng.standard_normal(n) * 100]
    few = [np.full(256, 0.75), np.full(256, -3.0), np.linspace(-1, 1, 256), np.where(np.arange(256) % 32 == 7, 4.0, 0.0),
           rng.standard_normal(256) * 1e-7, 2.0 ** rng.integers(-14, 12, 256)]
    if not ggml:  # ggml's encoders leave codes of zero blocks as they were
        few += [np.zeros(256), np.full(256, -0.0)]
    x = np.concatenate(rows + few).astype(np.float32)
    return x[:len(x) // elems * elems]


def ggml_library(source):
    out = os.path.join(tempfile.mkdtemp(), "ggml.so")
    stub = os.path.join(os.path.dirname(out), "stub.c")
    with open(stub, "w") as f:
        f.write("#include <stdlib.h>\n#include <stdarg.h>\nvoid ggml_abort(const char *f, int l, const char *m, ...) { abort(); }\n"
                "void ggml_critical_section_start(void) {}\nvoid ggml_critical_section_end(void) {}\n"
                "const char *ggml_type_name(int t) { return 0; }\nsize_t ggml_row_size(int t, long n) { return 0; }\n"
                "size_t ggml_type_size(int t) { return 0; }\nvoid ggml_log_internal(int l, const char *f, ...) {}\n"
                "long ggml_blck_size(int t) { return 0; }\n")
    subprocess.check_call(["cc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I", f"{source}/ggml/include", "-I", f"{source}/ggml/src",
                           f"{source}/ggml/src/ggml-quants.c", stub, "-lm", "-o", out])
    return ctypes.CDLL(out)


def main():
    rng = np.random.default_rng(SEED)
    out = {}
    for t in DECODED:
        if t in (T.F16, T.BF16):
            blocks = rng.integers(0, 256, (2048, 2), dtype=np.uint8)
        else:
            blocks = random_blocks(t, rng)
        out[f"{t.name}.blocks"] = blocks.reshape(-1)
        with np.errstate(all="ignore"):
            out[f"{t.name}.values"] = quants.dequantize(blocks.reshape(-1), t).reshape(-1).astype(np.float32)
    for t in GGUF_PY:
        x = inputs(rng, GGML_QUANT_SIZES[t][0], False)
        out[f"{t.name}.input"] = x
        with np.errstate(all="ignore"):
            out[f"{t.name}.encoded"] = quants.quantize(x, t).view(np.uint8).reshape(-1)
    if len(sys.argv) > 1:
        lib = ggml_library(sys.argv[1])
        for t in GGML:
            elems, size = GGML_QUANT_SIZES[t]
            x = inputs(rng, elems, True)
            dst = np.zeros(len(x) // elems * size, np.uint8)
            f = getattr(lib, f"quantize_row_{t.name.lower().replace('_k', '_K')}_ref")
            f.argtypes, f.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
            f(x.ctypes.data, dst.ctypes.data, len(x))
            out[f"{t.name}.input"], out[f"{t.name}.encoded"] = x, dst
    save_file(out, os.path.join(HERE, "golden.safetensors"), metadata={"gguf": "0.19.0", "seed": str(SEED)})


main()
