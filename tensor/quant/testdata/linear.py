"""Writes linear.safetensors: layers in the layouts of Hugging Face checkpoints, and what they mean.

    pip install torch==2.15.0 numpy safetensors==0.8.0 compressed-tensors==0.20.1 bitsandbytes==0.50.2 && python linear.py

pack-quantized is compressed-tensors' compressor and its inverse; nf4 is bitsandbytes'. GPTQ and AWQ, whose packages need a GPU to be built,
are packed here as auto-gptq 0.7.1's QuantLinear.pack and AutoAWQ 0.2.9's WQLinear_GEMM.from_linear do it, and read by the formulas of
gptqmodel 7.7.0 (BaseQuantLinear.dequantize_weight) and AutoAWQ (packing_utils.dequantize_gemm) in binary16.
"""
import json
import os

import bitsandbytes as bnb
import numpy as np
import torch
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(7)
rng = np.random.default_rng(7)
out = {}


def put(name, **tensors):
    for k, v in tensors.items():
        t = torch.as_tensor(v)
        out[f"{name}.{k}"] = t.contiguous().clone()


def pack_down(codes, bits):
    """Codes [K, N] as a stream of bits down K, per column: auto-gptq's loop for 2, 3, 4 and 8 bits."""
    k, n = codes.shape
    words = np.zeros(((k * bits + 31) // 32, n), dtype=np.uint64)
    for i in range(k):
        at = i * bits
        v = codes[i].astype(np.uint64) << np.uint64(at % 32)
        words[at // 32] |= v & np.uint64(0xFFFFFFFF)
        if at % 32 + bits > 32:
            words[at // 32 + 1] |= v >> np.uint64(32)
    return words.astype(np.uint32).view(np.int32)


def gptq(name, bits, n, k, group, v1, sym, act_order):
    codes = rng.integers(0, 2**bits, (k, n))
    groups = -(-k // group)
    zeros = np.full((groups, n), 2 ** (bits - 1)) if sym else rng.integers(0, 2**bits, (groups, n))
    scales = torch.tensor(rng.standard_normal((groups, n)) * 0.01, dtype=torch.float16)
    g_idx = rng.permutation(np.arange(k) // group) if act_order else np.arange(k) // group
    stored = (zeros - 1) % 2**bits if v1 else zeros
    g = torch.tensor(g_idx)
    values = scales[g] * (torch.tensor(codes) - torch.tensor(zeros)[g])  # gptqmodel's formula
    put(name, qweight=pack_down(codes, bits), qzeros=np.ascontiguousarray(pack_down(stored.T, bits).T), scales=scales,
        g_idx=g_idx.astype(np.int32), values=values.to(torch.float16).t())


gptq("gptq4v1", 4, 64, 128, 32, True, True, False)
gptq("gptq4v2", 4, 64, 128, 32, False, False, True)
gptq("gptq3v1", 3, 32, 96, 32, True, False, False)
gptq("gptq2v2", 2, 32, 64, 64, False, True, False)
gptq("gptq8v1", 8, 32, 64, 32, True, False, True)


def awq(name, n, k, group):
    codes, zeros = rng.integers(0, 16, (k, n)), rng.integers(0, 16, (k // group, n))
    scales = torch.tensor(rng.standard_normal((k // group, n)) * 0.01, dtype=torch.float16)

    def pack(x):
        words = np.zeros((x.shape[0], n // 8), dtype=np.uint32)
        for i, column in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
            words |= x[:, column::8].astype(np.uint32) << np.uint32(4 * i)
        return words.view(np.int32)

    iweight, izeros = torch.tensor(codes, dtype=torch.int8), torch.tensor(zeros, dtype=torch.int8)
    values = (iweight - izeros.repeat_interleave(group, 0)) * scales.repeat_interleave(group, 0)
    put(name, qweight=pack(codes), qzeros=pack(zeros), scales=scales, values=values.t())


awq("awq", 48, 128, 64)


def packed(name, bits, n, k, group, symmetric, dtype):
    strategy = "group" if group else "channel"
    args = QuantizationArgs(num_bits=bits, type="int", symmetric=symmetric, strategy=strategy, group_size=group or None)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    groups = k // group if group else 1
    state = {"weight": torch.randn(n, k, dtype=dtype), "weight_scale": (torch.rand(n, groups) * 0.2 + 0.05).to(dtype)}
    if not symmetric:
        state["weight_zero_point"] = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, groups), dtype=torch.int8)
    state = PackedQuantizationCompressor.compress(state, scheme)
    tensors = {"packed": state["weight_packed"], "scale": state["weight_scale"]}
    if not symmetric:
        tensors["zero"] = state["weight_zero_point"]
    put(name, **tensors, values=PackedQuantizationCompressor.decompress(state, scheme)["weight"])


packed("packed4", 4, 24, 96, 32, True, torch.bfloat16)
packed("packed4z", 4, 20, 128, 64, False, torch.float16)
packed("packed8c", 8, 12, 40, 0, True, torch.float32)
packed("packed3z", 3, 21, 64, 32, False, torch.bfloat16)


def fp8(name, n, k, block, dtype, kind):
    w = (torch.randn(n, k) * 3).to(kind)
    scale = (torch.rand(-(-n // block[0]), -(-k // block[1])) + 0.1).to(dtype)
    full = scale.float().repeat_interleave(block[0], 0)[:n].repeat_interleave(block[1], 1)[:, :k]
    put(name, weight=w.view(torch.uint8), scale=scale, values=w.float() * full)


fp8("fp8block", 40, 70, (16, 32), torch.float32, torch.float8_e4m3fn)
fp8("fp8channel", 8, 64, (1, 64), torch.bfloat16, torch.float8_e4m3fn)
fp8("fp8e5m2", 8, 64, (8, 64), torch.float32, torch.float8_e5m2)
put("e4m3", weight=np.arange(256, dtype=np.uint8), values=torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float())
put("e5m2", weight=np.arange(256, dtype=np.uint8), values=torch.arange(256, dtype=torch.uint8).view(torch.float8_e5m2).float())


def nf4(name, kind, double):
    w = torch.randn(24, 192)
    codes, state = bnb.functional.quantize_4bit(w, blocksize=64, quant_type=kind, compress_statistics=double)
    parts = state.as_dict(packed=True)
    extra = json.loads(bytes(parts.pop(f"quant_state.bitsandbytes__{kind}").tolist()).decode())
    put(name, codes=codes.reshape(-1), values=bnb.functional.dequantize_4bit(codes, state),
        offset=torch.tensor([extra.get("nested_offset", 0.0)], dtype=torch.float32), **parts)


nf4("nf4", "nf4", False)
nf4("nf4double", "nf4", True)
nf4("fp4", "fp4", False)

save_file(out, os.path.join(HERE, "linear.safetensors"))
