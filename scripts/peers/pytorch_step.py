"""Training steps of the Llama-like decoder of a bench preset in PyTorch: warms up, prints a JSON line, and then makes as many steps as a line
of its input says and prints how long each took.

    python pytorch_step.py PRESET PRECISION MODE THREADS

PRESET is bench-20m or bench-90m, PRECISION fp32 or bf16 (autocast), MODE eager, compile or checkpoint (eager, each layer recomputed in the
backward half). Batch 4 x 512, scaled_dot_product_attention, fused AdamW, clipping at 1.
"""

import json
import math
import sys
import time

import torch
import torch.nn.functional as F


def peak_rss():
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024


IMPORT_RSS = peak_rss()
PRESETS = {"bench-20m": (384, 8, 6, 1024), "bench-90m": (768, 12, 12, 2048)}
VOCAB, BATCH, SEQ, WARM = 8192, 4, 512, 3


class Layer(torch.nn.Module):
    def __init__(self, d, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.RMSNorm(d, eps=1e-5), torch.nn.RMSNorm(d, eps=1e-5)
        linear = lambda n, k: torch.nn.Linear(k, n, bias=False)
        self.q, self.k, self.v, self.o = linear(d, d), linear(d, d), linear(d, d), linear(d, d)
        self.gate, self.up, self.down = linear(ffn, d), linear(ffn, d), linear(d, ffn)

    def rotate(self, x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    def forward(self, x, cos, sin):
        h = self.norm1(x)
        split = lambda y: y.view(BATCH, SEQ, self.heads, -1).transpose(1, 2)
        q, k, v = split(self.q(h)), split(self.k(h)), split(self.v(h))
        q, k = self.rotate(q, cos, sin).to(v.dtype), self.rotate(k, cos, sin).to(v.dtype)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(BATCH, SEQ, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(torch.nn.Module):
    def __init__(self, d, layers, heads, ffn, checkpoint):
        super().__init__()
        self.checkpoint = checkpoint
        self.embed = torch.nn.Embedding(VOCAB, d)
        torch.nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = torch.nn.ModuleList(Layer(d, heads, ffn) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(d, eps=1e-5)
        angle = torch.outer(torch.arange(SEQ), 10000.0 ** -(torch.arange(0, d // heads, 2) / (d // heads)))
        angle = torch.cat((angle, angle), dim=-1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for layer in self.layers:
            if self.checkpoint:
                x = torch.utils.checkpoint.checkpoint(layer, x, self.cos, self.sin, use_reentrant=False)
            else:
                x = layer(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embed.weight)
        return F.cross_entropy(logits.float().view(-1, VOCAB), targets.view(-1))


def main():
    preset, precision, mode, threads = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    decoder = Decoder(*PRESETS[preset], checkpoint=mode == "checkpoint")
    forward = torch.compile(decoder) if mode == "compile" else decoder
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-3, fused=True)

    def step():
        tokens, targets = torch.randint(0, VOCAB, (BATCH, SEQ)), torch.randint(0, VOCAB, (BATCH, SEQ))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = forward(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    for _ in range(WARM):
        loss = step()
    assert math.isfinite(loss)
    print(json.dumps({"torch": torch.__version__, "threads": threads, "import_rss_bytes": IMPORT_RSS}), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
        print(json.dumps({"seconds": seconds, "rss_peak_bytes": peak_rss()}), flush=True)


main()
