"""Training steps of loadline and of PyTorch in turns, and their ratios as a Markdown table.

    python pytorch_turns.py LOADLINE FMA_PEAK THREADS TURNS STEPS PRESET...

PyTorch's processes, eager and compiled, are warm and wait while another side has its turn of STEPS steps; loadline's turn is a process of
its own, whose first steps are not counted. What else happens on the machine so meets neighbours in time: a ratio is of the mean steps of one turn, and
the median of the turns is told. PyTorch's side is its faster mode.

FMA_PEAK (fma_peak.c) has its turns too, in fp32: the multiply-adds of a step's matrix products at the rate that it measures are a time that no
program of float32 multiply-adds is below on this machine, and over PyTorch's time the ratio that none is above; products by tiles can be.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ("eager", "compile")
BATCH, SEQ, VOCAB = 4, 512, 8192
TOKENS = BATCH * SEQ
SHAPES = {"bench-20m": (384, 8, 1024), "bench-90m": (768, 12, 2048)}  # width, layers, feed-forward
# What loadline runs with, a row of the table each. With a limit of memory, about a quarter of PyTorch's peak or, of the larger model in
# bf16, a third, what does not fit of masters and moments lies in a file, from where updates bring it in piece by piece. fp32 moves all
# moments: it has speed to spare. Norms and the activation function, or what costs the least, are computed again.
LEAN = "--recompute norm,mlp.act --head-chunk 512"
FLAGS = {
    ("bench-20m", "fp32"): ["--recompute auto --head-chunk 256 --memory 395MiB --offload optimizer"],
    ("bench-20m", "bf16"): [LEAN, "--recompute norm --head-chunk 256 --memory 350MiB --tier file:TIER=2GiB"],
    ("bench-90m", "fp32"): [LEAN + " --offload optimizer"],
    ("bench-90m", "bf16"): [LEAN + " --memory 1020MiB --tier file:TIER=2GiB"],
}


class Peer:
    """A PyTorch process."""

    def __init__(self, preset, precision, mode, threads):
        command = [sys.executable, os.path.join(HERE, "pytorch_step.py"), preset, precision, mode, threads]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.read()
        self.rates, self.rss = [], 0

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args} ended with {self.process.wait()}")
        return json.loads(line)

    def turn(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        answer = self.read()
        self.rates.append(TOKENS / statistics.mean(answer["seconds"]))
        self.rss = answer["rss_peak_bytes"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def loadline(binary, preset, precision, flags, threads, steps):
    command = [binary, "bench", "train", "--preset", preset, "--precision", precision, "--threads", threads, "--steps", steps, "--json", "--quiet"]
    with tempfile.TemporaryDirectory(dir=os.path.dirname(binary)) as tier:
        command += [f.replace("TIER", tier) for f in flags.split()]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}: {run.stderr}")
    d = json.loads(run.stdout)
    return TOKENS / d["step_seconds"], d["rss_peak_bytes"]


def flops(preset):
    """Of a step's matrix products: three for each weight, seven for each pair of positions that attention joins."""
    d, layers, ffn = SHAPES[preset]
    weights = layers * (4 * d * d + 3 * d * ffn) + VOCAB * d
    pairs = BATCH * SEQ * (SEQ + 1) // 2
    return 6 * weights * TOKENS + 7 * 2 * pairs * d * layers


class Peak:
    """The process of fma_peak."""

    def __init__(self, binary, threads):
        self.process = subprocess.Popen([binary, threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rates = []

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.rates.append(float(self.process.stdout.readline()) * 1e9)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def mib(n):
    return f"{n / 2**20:,.0f}"


def spread(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def compare(binary, peak, threads, turns, steps, preset, precision):
    peers = {m: Peer(preset, precision, m, threads) for m in MODES}
    variants = FLAGS[preset, precision]
    ours, rss, peak = [[] for _ in variants], [0 for _ in variants], Peak(peak, threads)
    for _ in range(turns):
        for i, flags in enumerate(variants):
            rate, most_rss = loadline(binary, preset, precision, flags, threads, str(steps))
            ours[i].append(rate)
            rss[i] = max(rss[i], most_rss)
        for p in peers.values():
            p.turn(steps)
        peak.turn()
    for p in (*peers.values(), peak):
        p.close()
    best = max(MODES, key=lambda m: statistics.median(peers[m].rates))
    p = peers[best]
    bound = ""
    if precision == "fp32":
        most = [rate / flops(preset) * TOKENS for rate in peak.rates]
        bound = f"{statistics.median(a / b for a, b in zip(most, p.rates)):.2f}"
    for i, flags in enumerate(variants):
        limit = flags.split("--memory ")[1].split()[0] if "--memory" in flags else "no limit"
        ratios = sorted(a / b for a, b in zip(ours[i], p.rates))
        print(
            f"| {preset} | {precision}, {limit} | {spread(ours[i])} | {spread(peers['eager'].rates)} | {spread(peers['compile'].rates)} | "
            f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f}) | {mib(rss[i])} | {mib(p.rss)} ({best}) | **{rss[i] / p.rss:.2f}** | "
            f"{rss[i] / (p.rss - p.about['import_rss_bytes']):.2f} | {bound} |",
            flush=True,
        )
    return p.about


def main():
    binary, peak, threads, turns, steps, presets = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6:]
    print(f"Medians of {turns} turns of {steps} steps (least to most); {threads} threads; tokens/s, MiB of peak RSS.\n")
    for preset in presets:
        for precision in ("fp32", "bf16"):
            print(f"{preset} {precision}: loadline with {', then '.join(FLAGS[preset, precision])}  ")
    print()
    print("| preset | precision | Loadline | eager | compiled | **speed ratio** | RSS | PyTorch's RSS | **RSS ratio** | without its import | ratio at the multiply-adds' peak |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for preset in presets:
        for precision in ("fp32", "bf16"):
            about = compare(binary, peak, threads, turns, steps, preset, precision)
    print(f"\ntorch {about['torch']}")


main()
