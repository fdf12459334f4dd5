"""Training steps of loadline and of PyTorch in turns, and their ratios as a Markdown table.

    python pytorch_turns.py LOADLINE THREADS TURNS STEPS PRESET...

PyTorch's processes, eager and compiled, are warm and wait while another side has its turn of STEPS steps; loadline's turn is a process of
its own, whose first steps are not counted. What else happens on the machine so meets neighbours in time: a ratio is of the mean steps of one turn, and
the median of the turns is told. PyTorch's side is its faster mode.
"""

import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ("eager", "compile")
TOKENS = 4 * 512
# What the step keeps: norms and the activation function are computed again, at some hundredths of its time.
FLAGS = ("--recompute", "norm,mlp.act", "--head-chunk", "256")


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


def loadline(binary, preset, precision, threads, steps):
    command = [binary, "bench", "train", "--preset", preset, "--precision", precision, "--threads", threads, "--steps", steps, "--json", "--quiet", *FLAGS]
    d = json.loads(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout)
    return TOKENS / d["step_seconds"], d["rss_peak_bytes"]


def mib(n):
    return f"{n / 2**20:,.0f}"


def spread(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def compare(binary, threads, turns, steps, preset, precision):
    peers = {m: Peer(preset, precision, m, threads) for m in MODES}
    ours, rss = [], 0
    for _ in range(turns):
        rate, peak = loadline(binary, preset, precision, threads, str(steps))
        ours.append(rate)
        rss = max(rss, peak)
        for p in peers.values():
            p.turn(steps)
    for p in peers.values():
        p.close()
    best = max(MODES, key=lambda m: statistics.median(peers[m].rates))
    p = peers[best]
    ratios = sorted(a / b for a, b in zip(ours, p.rates))
    print(
        f"| {preset} | {precision} | {spread(ours)} | {spread(peers['eager'].rates)} | {spread(peers['compile'].rates)} | "
        f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f}) | {mib(rss)} | {mib(p.rss)} ({best}) | **{rss / p.rss:.2f}** | "
        f"{rss / (p.rss - p.about['import_rss_bytes']):.2f} |",
        flush=True,
    )
    return p.about


def main():
    binary, threads, turns, steps, presets = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
    print(f"Medians of {turns} turns of {steps} steps (least to most); {threads} threads; tokens/s, MiB of peak RSS; loadline with {' '.join(FLAGS)}.\n")
    print("| preset | precision | Loadline | eager | compiled | **speed ratio** | RSS | PyTorch's RSS | **RSS ratio** | without its import |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for preset in presets:
        for precision in ("fp32", "bf16"):
            about = compare(binary, threads, turns, steps, preset, precision)
    print(f"\ntorch {about['torch']}")


main()
