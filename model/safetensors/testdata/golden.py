"""Writes golden.safetensors with the Python package safetensors: one small tensor of every type.

    pip install safetensors==0.8.0 && python golden.py

Byte k of a tensor's data is (k*7 + the tensor's position in NAMES) modulo 256, so that a reader can check it.
"""
import ctypes
import math
import os

from safetensors import TensorSpec, serialize_file

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = [
    ("f64", "float64", 8, [2]),
    ("f32", "float32", 4, [2, 3]),
    ("f16", "float16", 2, [3, 1, 2]),
    ("bf16", "bfloat16", 2, [5]),
    ("f8_e4m3", "float8_e4m3fn", 1, [4]),
    ("f8_e5m2", "float8_e5m2", 1, [3]),
    ("i64", "int64", 8, [1]),
    ("i32", "int32", 4, [2, 2]),
    ("i16", "int16", 2, [3]),
    ("i8", "int8", 1, [7]),
    ("u64", "uint64", 8, [1]),
    ("u32", "uint32", 4, [1]),
    ("u16", "uint16", 2, [1]),
    ("u8", "uint8", 1, [2]),
    ("bool", "bool", 1, [2]),
    ("scalar", "float32", 4, []),
    ("empty", "float32", 4, [0, 4]),
    ('odd "näme" <日本>\n', "uint8", 1, [3]),
]

tensors = {}
alive = []  # TensorSpec keeps an address only
for k, (name, dtype, width, shape) in enumerate(NAMES):
    n = width * math.prod(shape)
    buf = ctypes.create_string_buffer(bytes((i * 7 + k) % 256 for i in range(n)), max(n, 1))
    alive.append(buf)
    tensors[name] = TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buf), data_len=n)
serialize_file(tensors, os.path.join(HERE, "golden.safetensors"), metadata={"format": "pt", "note": "naïve ✓"})
