"""Speed and peak memory of `loadline bench` and llama-bench on the same files, in turns, and their ratios as a Markdown table.

    python turns.py LOADLINE LLAMA_BENCH TURNS FILE...

A turn runs each side once, in a process of its own: pp512 (a prompt of 512 tokens) and tg128 (128 tokens one by one, from an empty cache), both
after a warm-up, as llama-bench defines them. What else happens on the machine so meets neighbours in time: a ratio is of one turn, and
the median of the turns is told. Peak RSS is what the kernel says of the ended process, the most of all turns.
"""

import json
import math
import os
import statistics
import subprocess
import sys

TESTS = ("pp512", "tg128")
THREADS = (1, 2)


def run(command):
    """The command's output and its peak RSS in bytes."""
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = p.stdout.read()
    _, status, usage = os.wait4(p.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return json.loads(out), usage.ru_maxrss * 1024


def loadline(binary, file, threads):
    d, rss = run([binary, "bench", "--model", file, "--threads", str(threads), "--repeat", "3", "--json", "--quiet"])
    rates = {r["test"]: r["tokens_per_second"] for r in d["results"]}
    return {t: rates[t] for t in TESTS}, max(rss, d["rss_peak_bytes"])


def llama(binary, file, threads):
    d, rss = run([binary, "-m", file, "-p", "512", "-n", "128", "-t", str(threads), "-r", "3", "-lm", "none", "-o", "json"])
    return {f"pp{r['n_prompt']}" if r["n_prompt"] else f"tg{r['n_gen']}": r["avg_ts"] for r in d}, rss


def geomean(values):
    return math.exp(statistics.mean(math.log(v) for v in values))


def main():
    ours, theirs, turns, files = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    print(f"Medians of {turns} turns (ratios: least to most of the turns), tokens/s, MiB of peak RSS.\n")
    print("| file | threads | pp512 | llama.cpp | **ratio** | tg128 | llama.cpp | **ratio** | RSS | llama.cpp | **ratio** |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    total = {t: [] for t in TESTS}
    memory = []
    for file in files:
        for threads in THREADS:
            if threads > os.cpu_count():
                continue
            a, b = [], []
            for turn in range(turns):
                sides = [lambda: a.append(loadline(ours, file, threads)), lambda: b.append(llama(theirs, file, threads))]
                for side in sides[:: 1 if turn % 2 == 0 else -1]:
                    side()
            cells = []
            for t in TESTS:
                ratios = sorted(x[0][t] / y[0][t] for x, y in zip(a, b))
                total[t].append(statistics.median(ratios))
                cells += [f"{statistics.median(x[0][t] for x in side):.1f}" for side in (a, b)]
                cells.append(f"**{total[t][-1]:.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})")
            rss = [max(x[1] for x in side) for side in (a, b)]
            memory.append(rss[0] / rss[1])
            cells += [f"{r / 2**20:,.0f}" for r in rss] + [f"**{memory[-1]:.2f}**"]
            name = os.path.basename(file).removesuffix(".gguf")
            print(f"| {name} | {threads} | {' | '.join(cells)} |", flush=True)
    for t in TESTS:
        print(f"\n{t}: geometric mean {geomean(total[t]):.2f}, least {min(total[t]):.2f}", end="")
    print(f"\npeak RSS: most {max(memory):.2f} of llama.cpp's")


main()
