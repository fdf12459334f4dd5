"""Writes little.gguf and big.gguf, the same model in both byte orders: keys of every kind and tensors of several types.

    pip install gguf==0.19.0 numpy && python golden.py

Element i of tensor k is (i*7 + k*5) % 11 − 5, divided by 4; quantised tensors are gguf-py's encoding of that.
"""
import os

import numpy as np
import gguf
from gguf import GGMLQuantizationType as T, GGUFEndian, GGUFValueType as V

HERE = os.path.dirname(os.path.abspath(__file__))
TENSORS = [("token_embd.weight", (3, 64), T.Q8_0), ("blk.0.attn_norm.weight", (8,), T.F32), ("blk.0.ffn_up.weight", (2, 2, 32), T.Q4_0),
           ("odd.name", (5, 3), T.F16), ("blk.0.b", (1, 7), T.BF16)]


def values(k, shape):
    n = int(np.prod(shape))
    return (((np.arange(n) * 7 + k * 5) % 11 - 5) / 4).astype(np.float32).reshape(shape)


def write(path, endian):
    w = gguf.GGUFWriter(os.path.join(HERE, path), "llama", endianess=endian)
    w.add_name("naïve ✓")
    w.add_uint8("t.u8", 200)
    w.add_int8("t.i8", -100)
    w.add_uint16("t.u16", 60000)
    w.add_int16("t.i16", -30000)
    w.add_uint32("t.u32", 4000000000)
    w.add_int32("t.i32", -2000000000)
    w.add_float32("t.f32", 0.1)
    w.add_bool("t.bool", True)
    w.add_string("t.str", "a b")
    w.add_uint64("t.u64", 2**63)
    w.add_int64("t.i64", -2**62)
    w.add_float64("t.f64", 0.1)
    w.add_key_value("l.u8", bytes([1, 2, 3]), V.ARRAY, sub_type=V.UINT8)
    w.add_key_value("l.i32", [1, -2, 3], V.ARRAY, sub_type=V.INT32)
    w.add_key_value("l.f32", [0.5, -1.5], V.ARRAY, sub_type=V.FLOAT32)
    w.add_key_value("l.bool", [True, False], V.ARRAY, sub_type=V.BOOL)
    w.add_key_value("l.u64", [1, 2**63], V.ARRAY, sub_type=V.UINT64)
    w.add_token_list(["<s>", "naïve", "", "▁the"])
    for k, (name, shape, t) in enumerate(TENSORS):
        x = values(k, shape)
        if t in (T.F32, T.F16):
            w.add_tensor(name, x.astype({T.F32: np.float32, T.F16: np.float16}[t]))
            continue
        q = gguf.quants.quantize(x, t)
        if endian == GGUFEndian.BIG:  # the writer swaps elements of numpy's types alone
            q = q.copy()
            flat = q.reshape(-1)
            size = gguf.constants.GGML_QUANT_SIZES[t][1]
            for at in range(0, len(flat), size):
                flat[at:at + 2] = flat[at:at + 2][::-1].copy()
        w.add_tensor(name, q, raw_dtype=t)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


write("little.gguf", GGUFEndian.LITTLE)
write("big.gguf", GGUFEndian.BIG)
